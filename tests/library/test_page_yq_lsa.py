"""What the page on the trained guess proves: gradients at a gradient step, the conjecture, and the risk's shape."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsalib import attention, tasks, theory

CONTEXTS = [2, 4, 9, 15]


def uneven_task(C, noise_std=0.0):
    """Six features, and a prior mean with a different entry for each."""
    return tasks.GaussianTask(np.random.default_rng(C).normal(size=6), C, noise_std=noise_std)


def gd_point(task, eta):
    """One gradient step from the prior mean as (b, A, v)."""
    b, A = attention.effective(attention.gd_weights(task.prior_mean, eta))
    return np.asarray(b)[0], np.asarray(A)[0], task.prior_mean


def risk(point, task):
    """The exact risk of one head, as a function of what a prediction depends on."""
    b, A, v = point
    return theory.population_risk(attention.from_effective(b[None], A[None]), task, v)


def entries(parts):
    return np.concatenate([np.ravel(part) for part in parts])


def gradient(task, eta):
    return entries(jax.grad(risk)(gd_point(task, eta), task))


def closed_form(task, eta, best=None):
    """The theorem's gradient by b, A and v."""
    d = task.dim
    best = theory.optimal_step(task) if best is None else best
    V = np.vstack([np.eye(d), task.prior_mean])  # the columns of V V^T are the theorem's vectors
    off = (eta - best) / best
    return entries((2 * d * off * np.eye(d + 1)[-1], 2 * eta * off * V @ V.T, np.zeros(d)))


@pytest.mark.claim("thm4-stationary", "thm4-residual-order")
@pytest.mark.parametrize("seed", range(8))
def test_the_gradient_at_a_gradient_step(seed, x64):
    """Closed form and automatic differentiation of the exact risk agree for random tasks and steps."""
    rng = np.random.default_rng(seed)
    d, C, eta = (1, 2, 6, 10)[seed % 4], int(rng.integers(1, 60)), rng.uniform(0.1, 2)
    task = tasks.GaussianTask(2 * rng.normal(size=d), C)
    by_autodiff = gradient(task, eta)
    off = lambda formula: np.abs(by_autodiff - formula).max() / np.abs(formula).max()
    assert off(closed_form(task, eta)) < 1e-9
    assert off(closed_form(task, eta, best=1.0)) > 1e-9, "the control: the best step in the limit of long contexts"


def one_loss(point, X, y, x_q, target):
    """The squared error of one task, by eq. yq-form."""
    b, A, v = point
    return (v @ x_q + b @ attention.gram(X, y) @ A @ jnp.append(x_q, v @ x_q) - target) ** 2


@jax.jit
def each_gradient(point, data):
    by = jax.vmap(jax.grad(one_loss), (None, 0, 0, 0, 0))(point, *data)
    return jnp.concatenate([part.reshape(len(data[0]), -1) for part in by], axis=1)


@pytest.mark.claim("thm4-stationary", "thm4-residual-order")
@pytest.mark.parametrize("seed", range(2))
def test_gradients_of_sampled_tasks(seed, x64):
    """Averages of single tasks' gradients are zero at the best step, and the formula's at step 1."""
    task = uneven_task(9)
    data = tasks.sample(jax.random.key(seed), task, 2**14)[:4]

    def in_errors(eta, expected):
        each = np.asarray(each_gradient(gd_point(task, eta), data))
        return np.abs((each.mean(0) - expected) / each.std(0)).max() * len(each) ** 0.5

    assert in_errors(theory.optimal_step(task), 0.0) < 5
    assert in_errors(1.0, closed_form(task, 1.0)) < 5
    assert in_errors(1.0, 0.0) > 5, "the control"


@pytest.mark.claim("thm4-residual-order")
@pytest.mark.parametrize("C", CONTEXTS)
def test_the_remainder_makes_no_plateau(C, x64):
    """At step 1 the slope along the step is 2d(d+1)/C, and the excess risk a fixed share of it."""
    task = uneven_task(C)
    best, point = theory.optimal_step(task), gd_point(task, 1.0)
    slope = np.vdot(jax.grad(risk)(point, task)[0], point[0])
    excess = float(risk(point, task)) - theory.yq_risk(task)
    assert slope == pytest.approx(2 * 6 * 7 / C, rel=1e-9)
    assert excess == pytest.approx(slope * best * 7 / (2 * C), rel=1e-9)
    assert excess != pytest.approx(slope * 7 / (2 * C), rel=1e-2), "the control: without the best step"


@pytest.mark.claim("lemma2-nonconvex")
@pytest.mark.parametrize("C", CONTEXTS)
def test_the_midpoint_of_two_optima_is_above_them(C, x64):
    """By d times the best step; between two guesses the risk is below its chord."""
    task = uneven_task(C)
    params, v = theory.yq_optimal_weights(task), task.prior_mean
    turned = lambda sign: params._replace(W_P=sign * params.W_P, W_Q=sign * params.W_Q)
    above = lambda risks: float(risks[1] - (risks[0] + risks[2]) / 2)
    by_sign = [theory.population_risk(turned(sign), task, v) for sign in (1, 0, -1)]
    by_guess = [theory.population_risk(params, task, v + shift) for shift in (1, 0, -1)]
    assert above(by_sign) == pytest.approx(6 * theory.optimal_step(task), rel=1e-9)
    assert above(by_guess) < -0.1, "the control"
