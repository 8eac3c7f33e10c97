"""The exact risk: against the dense quadratic form, against samples, and at a size no dense form reaches."""

import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from theory_reference import (
    TASKS,
    batch_of,
    dense_risk,
    largest_z,
    lsa_errors,
    make_guess,
    make_params,
    make_task,
    z_bound,
)

from lsalib.attention import LSAParams, lift, linear_transformer_block
from lsalib.theory import gd_risk, lifted_risk, ltb_risk, population_risk

BOUND = z_bound(100)
BIAS = 1.0


def make_mlp(seed, dim, width=5):
    return map(jnp.asarray, 0.5 * np.random.default_rng(seed).standard_normal((2, width, dim + 1)))


@pytest.mark.claim("eq18-decomposition")
@pytest.mark.parametrize("heads", [1, 6])
@pytest.mark.parametrize("name", TASKS)
def test_equal_dense_form(name, heads, x64):
    """For every task, number of heads and guess the risk, also of the lift, is the quadratic form of dense moments."""
    task = TASKS[name]
    for seed in range(3):
        params = make_params(seed, task.dim, heads)
        for y_q in ((np.zeros(task.dim),), (make_guess(task), BIAS)):
            dense = dense_risk(lift(params), task, *y_q)
            np.testing.assert_allclose(population_risk(params, task, *y_q), dense, rtol=1e-12)
            np.testing.assert_allclose(lifted_risk(task, *y_q).value(lift(params)), dense, rtol=1e-12)
        plain = population_risk(params, task)
        np.testing.assert_array_equal(plain, population_risk(params, task, np.zeros(task.dim)))
        identity = jnp.asarray(np.eye(task.dim + 1))  # a block without an MLP
        np.testing.assert_allclose(ltb_risk(params, identity, identity, task), plain, rtol=1e-14)


def test_dense_form_sees_each_ingredient(x64):
    """The control: with one thing wrong at a time, the two formulas differ."""
    task, params = TASKS["general, noisy"], make_params(0, 3, 2)
    guess = make_guess(task)
    dense = partial(dense_risk, lift(params), task)(guess, BIAS)
    wrong = [
        population_risk(params, task, -guess, BIAS),
        population_risk(params, task, guess, 0.0),
        population_risk(params, replace(task, context_size=task.context_size + 1), guess, BIAS),
        population_risk(params, replace(task, noise_std=0.0), guess, BIAS),
        population_risk(params, replace(task, feature_cov=None), guess, BIAS),
        population_risk(params, replace(task, prior_cov=None), guess, BIAS),
        population_risk(params, replace(task, prior_mean=-task.prior_mean), guess, BIAS),
        *(lifted_risk(task, *y_q).value(lift(params)) for y_q in ((None, BIAS), (guess, 0.0))),
        population_risk(params._replace(W_K=params.W_Q, W_Q=params.W_K), task, guess, BIAS),
        population_risk(params._replace(W_V=jnp.asarray(np.asarray(params.W_V).swapaxes(1, 2))), task, guess, BIAS),
    ]
    assert np.all(np.abs(np.array(wrong) / dense - 1) > 1e-3)


@pytest.mark.claim("eq18-decomposition")
@pytest.mark.parametrize("name", ["isotropic", "noisy", "general", "general, noisy"])
def test_within_sampling_error(name, x64):
    """The literal layer on samples has the exact risk; the controls change length, guess, offset and one weight."""
    task, wrong = TASKS[name], []
    guess = make_guess(task)
    for seed in range(6):
        params = make_params(seed, task.dim, 2, scale=0.4)
        z = partial(largest_z, lsa_errors((params, guess, BIAS), *batch_of(seed, task)))
        assert z(population_risk(params, task, guess, BIAS)) < BOUND
        turned = params._replace(W_P=jnp.asarray(-np.asarray(params.W_P)))
        others = (params, replace(task, context_size=1), guess, BIAS), (params, task, -guess, BIAS)
        others = *others, (params, task, guess, 0.0), (turned, task, guess, BIAS)
        wrong.append([z(population_risk(*other)) for other in others])
    assert np.all(np.max(wrong, axis=0) > BOUND)


@pytest.mark.claim("lemma3-inclusion", "ltb-optimum")
@pytest.mark.parametrize("name", ["noisy", "general"])
def test_linear_transformer_block(name, x64):
    """Samples of the block have its exact risk, which is that of an LSA with the block's own guess (Lemma 3)."""
    task, wrong = TASKS[name], []
    block = jax.jit(jax.vmap(linear_transformer_block, (None, None, None, 0, 0, 0)))
    for seed in range(3):
        params, (W_1, W_2) = make_params(seed, task.dim, 2, scale=0.4), make_mlp(seed, task.dim)
        exact = ltb_risk(params, W_1, W_2, task)
        X, y, x_q, target = batch_of(seed, task)
        draws = (np.asarray(block(params, W_1, W_2, X, y, x_q)) - target) ** 2
        assert largest_z(draws, exact) < BOUND
        wrong.append(largest_z(draws, ltb_risk(params, jnp.asarray(-np.asarray(W_1)), W_2, task)))
        # A head's value passes the MLP like a token does: the same risk, read off an LSA with that guess.
        v = np.asarray(W_2)[:, -1] @ np.asarray(W_1)
        W_Q, W_P = np.array(params.W_Q), np.array(params.W_P)
        W_Q[:, :, -1], W_P[:, -1] = 0, v @ W_P
        through = LSAParams(params.W_K, jnp.asarray(W_Q), jnp.asarray(W_P), params.W_V)
        np.testing.assert_allclose(exact, dense_risk(lift(through), task, v[:-1]), rtol=1e-12)
    assert max(wrong) > BOUND


def test_heads_of_zeros_change_nothing_but_the_way(x64):
    """Two heads on seven features go pair by pair, with ten more the lift is built; two heads exchange their values."""
    task = make_task(8, 7, 5, noise_std=0.6)
    few, guess = make_params(0, 7, 2), make_guess(task)
    many = jax.tree.map(lambda W: jnp.asarray(np.pad(np.asarray(W), ((0, 10), (0, 0), (0, 0)))), few)
    risk = population_risk(few, task, guess, BIAS)
    np.testing.assert_allclose(risk, population_risk(many, task, guess, BIAS), rtol=1e-12)
    swapped = few._replace(W_V=jnp.asarray(np.asarray(few.W_V)[::-1]))
    assert abs(float(population_risk(swapped, task, guess, BIAS)) / float(risk) - 1) > 1e-2


def dots(jaxpr):
    """The precision of each product of a program, those of inner programs included."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            yield str(equation.params["precision"])
        for part in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda part: hasattr(part, "jaxpr")):
            if hasattr(part, "jaxpr"):
                yield from dots(part.jaxpr)


def test_products_are_asked_for_in_full_precision():
    """A GPU shortens the factors of what is not; a CPU shows no difference."""
    task, params = TASKS["general, noisy"], make_params(0, 3, 2)
    of = lambda f, *args: set(dots(jax.make_jaxpr(f)(*args).jaxpr))
    (full,) = of(lambda task: gd_risk(task), task)
    assert "HIGHEST" in full
    assert of(lambda params: population_risk(params, task), params) == {full}
    assert of(lambda params: ltb_risk(params, jnp.eye(4), jnp.eye(4), task), params) == {full}
    # The control: outside of the exact results it is what JAX takes by itself.
    assert full not in of(lambda x: x @ x, jnp.eye(3))


LARGE = """
import jax, jax.numpy as jnp, numpy as np
from lsalib.attention import gd_weights
from lsalib.tasks import GaussianTask
from lsalib.theory import gd_risk, population_risk

task, step = GaussianTask(np.linspace(-1, 1, 512), 1024), 0.3
w = jnp.asarray(task.prior_mean, jnp.float32)
four = jax.tree.map(lambda W: jnp.repeat(W, 4, axis=0), gd_weights(w, step / 4))
risk, slope = jax.jit(jax.value_and_grad(lambda params: population_risk(params, task, w)))(four)
# W_P is proportional to the step, and the risk is a quadratic in the step.
euler = jnp.vdot(four.W_P, slope.W_P) / ((gd_risk(task, 2 * step) - gd_risk(task, 0.0)) / 2)
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(risk / gd_risk(task, step) - 1, euler - 1, int(peak) / 2**20)
"""


@pytest.mark.claim("exact-cost")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak memory from /proc")
def test_large_task_fits_in_memory():
    """d = 512 with four heads, value and gradient; the moments alone would fill 500 GiB, the lift 0.5."""
    root = Path(__file__).parents[2]
    output = subprocess.run([sys.executable, "-c", LARGE], cwd=root, check=True, capture_output=True, text=True).stdout
    value, slope, peak = map(float, output.split())
    assert abs(value) < 1e-5 and abs(slope) < 1e-5
    assert peak < 2
