"""Every function of ``theory`` under jit, vmap and grad: against its values, loops and finite differences."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled import programs
from theory_reference import make_params, make_task

from lsalib import theory
from lsalib.tasks import GaussianTask, standardize

IDENTITY, GUESS, BIAS, OMEGA = np.eye(3), np.array([0.4, -0.7, 0.2]), 0.8, np.array([0.3, -0.2])
CUMULANT, STEPS = -0.002, np.array([0.1, 0.2, 0.15, 0.1])
NUMBERS = np.random.default_rng(0).normal(size=(2, 2, 4))
PARAMS = jax.tree.map(lambda W: np.asarray(W, np.float64), make_params(0, 3, 2))
OTHER = jax.tree.map(lambda W: np.asarray(W, np.float32), make_params(1, 3, 1))
HEADS = NUMBERS[0], np.random.default_rng(1).normal(size=(2, 4, 4))


def isotropic(prior_mean, scale_x=1.0, scale_w=1.0):
    return GaussianTask(prior_mean, 4, scale_x * IDENTITY, scale_w * IDENTITY, noise_std=0.6)


# Three tasks each: a general one, one whose covariances are equal to the identity, and one more.
ANY = [make_task(0, 3, 4, 0.6), isotropic([1.0, 2.0, -1.0]), make_task(1, 3, 4, 1.2)]
ISOTROPIC = [isotropic([1.0, 2.0, -1.0], 2.0, 0.3), isotropic([0.4, 0.0, 1.0]), isotropic([2.0, 2.0, 2.0], 0.5)]
WITHOUT_NOISE, QUIET = (
    [GaussianTask(task.prior_mean, 4, task.feature_cov, task.prior_cov) for task in noisy] for noisy in (ANY, ISOTROPIC)
)
CENTRED = [isotropic(np.zeros(3), 1.0, scale) for scale in (0.3, 1.0, 2.0)]


def free(prior_mean, feature_cov, prior_cov, *noise_std):
    """A change that leaves covariances symmetric."""
    return prior_mean, feature_cov + feature_cov.T, prior_cov + prior_cov.T, *noise_std


def multiples(prior_mean, feature_cov, prior_cov, *noise_std):
    """One that leaves them multiples of the identity."""
    return prior_mean, feature_cov[0, 0] * IDENTITY, prior_cov[0, 0] * IDENTITY, *noise_std


def centred(prior_mean, feature_cov, prior_cov, noise_std):
    """One of the prior covariance's scale and the noise alone."""
    return 0 * prior_mean, 0 * feature_cov, prior_cov[0, 0] * IDENTITY, noise_std


class Case(NamedTuple):
    """A function of a task and ``more``, three tasks it takes, how they may change, and if values need programs."""

    function: Callable
    more: tuple = ()
    tasks: list = ANY
    change: Callable = free
    compiles: bool = False


def few_heads(task, guess, bias):
    """The risk of the weights: they themselves are no smooth function of the task where several are as good."""
    return theory.population_risk(theory.few_heads_weights(task, 2, guess, bias), task, guess, bias)


def with_cumulant(function):
    """Its last argument is a hundredth of the label noise's fourth cumulant, so that slopes are seen."""
    return lambda *given: function(*given[:-1], noise_cumulant=100 * given[-1])


CASES = {
    "bayes_risk": Case(theory.bayes_risk, (), ISOTROPIC, multiples),
    "centred_task": Case(theory.centred_task),
    "constant_regression": Case(with_cumulant(theory.constant_regression), (CUMULANT,)),
    "debiased_risk": Case(theory.debiased_risk, (0.4,)),
    "debiased_step": Case(theory.debiased_step),
    "delta_rule_risk": Case(
        lambda task, steps, start, decay: theory.delta_rule_risk(task, None, start, schedule=steps, decay=decay),
        (STEPS, GUESS, 0.9),
    ),
    "delta_rule_step": Case(lambda task, guess: 100 * theory.delta_rule_step(task, 3 * guess), (GUESS,)),
    "depth_price": Case(lambda task: theory.depth_price(task, 3), tasks=WITHOUT_NOISE),
    "depth_risk": Case(lambda task, guess: theory.depth_risk(task, 2, guess), (GUESS,), QUIET, multiples),
    "few_heads_weights": Case(few_heads, (GUESS, BIAS), ISOTROPIC, multiples, True),
    "gd_risk": Case(theory.gd_risk, (0.4,)),
    "gram_moments": Case(theory.gram_moments),
    "least_risk": Case(lambda task, *guess: theory.least_risk(task, 4, *guess).risk, (GUESS, BIAS), compiles=True),
    "lifted_risk": Case(theory.lifted_risk, (GUESS, BIAS)),
    "ltb_risk": Case(
        lambda task, params, *mlp: theory.ltb_risk(params, *map(jnp.asarray, mlp), task),
        (PARAMS, *NUMBERS),
        compiles=True,
    ),
    "optimal_guess": Case(lambda task, params: theory.optimal_guess(params, task), (PARAMS,), compiles=True),
    "optimal_preconditioner": Case(theory.optimal_preconditioner),
    "optimal_risk": Case(with_cumulant(theory.optimal_risk), (GUESS, BIAS, CUMULANT)),
    "optimal_step": Case(theory.optimal_step),
    "optimal_weights": Case(with_cumulant(theory.optimal_weights), (GUESS, BIAS, CUMULANT), compiles=True),
    "population_risk": Case(
        lambda task, params, *guess: theory.population_risk(params, task, *guess), (PARAMS, GUESS, BIAS), compiles=True
    ),
    "softmax_output": Case(theory.softmax_output, (OMEGA,), CENTRED, centred),
    "softmax_risk": Case(theory.softmax_risk, (OMEGA, 2 * OMEGA), CENTRED, centred),
    "squared_distance": Case(
        lambda task, params, *more: theory.squared_distance(params, OTHER, task, *more),
        (PARAMS, GUESS, -GUESS, BIAS, 0.3),
        compiles=True,
    ),
    "standard_form": Case(
        jax.jit(lambda task, *heads: theory.standard_form(*heads, standardize(task))),
        (*HEADS, *NUMBERS[1]),
        compiles=True,
    ),
    "standard_risk": Case(
        jax.jit(lambda task, *heads: theory.standard_risk(*heads, standardize(task))),
        (*HEADS, NUMBERS[1, 0]),
        compiles=True,
    ),
    "yq_optimal_weights": Case(theory.yq_optimal_weights, compiles=True),
    "yq_risk": Case(theory.yq_risk),
}


# What does not move a function: 0 is the prior mean, 1 and 2 are the covariances, 3 is the noise; then comes ``more``.
FLAT = {name: [0] for name in ("constant_regression", "debiased_risk", "debiased_step", "gd_risk", "yq_risk")}
FLAT |= {name: [0] for name in ("optimal_preconditioner", "optimal_step", "standard_risk")}
FLAT |= {"bayes_risk": [0], "depth_price": [0, 1, 2], "optimal_weights": [4, 5], "standard_form": [2, 3]}
FLAT |= {"softmax_output": [0, 1], "softmax_risk": [0, 1]}


def test_no_function_is_left_out():
    """Every public function of the theory is tested here."""
    assert set(CASES) == {name for name in theory.__all__ if not inspect.isclass(getattr(theory, name))}


def places(case):
    """Three sets of arguments; the task of the second has covariances equal to the identity."""
    more = lambda factor: jax.tree.map(lambda leaf: factor * np.asarray(leaf), case.more)
    return [(task, *more(factor)) for task, factor in zip(case.tasks, (1.0, 1.1, 0.9), strict=True)]


def total(outputs):
    """One number in which every entry of the outputs has its own part."""
    return sum(
        (leaf * np.cos(np.arange(np.size(leaf)).reshape(np.shape(leaf)) + k)).sum() for k, leaf in leaves(outputs)
    )


def leaves(tree):
    return enumerate(leaf if isinstance(leaf, jax.Array) else np.asarray(leaf) for leaf in jax.tree.leaves(tree))


def changes(case, at):
    """Directions in which the numbers of ``at`` may change, one array each."""
    rng = np.random.default_rng(7)
    each = [rng.normal(size=leaf.shape) for _, leaf in leaves(at)]
    own = len(jax.tree.leaves(at[0]))
    return [*case.change(*each[:own]), *each[own:]]


def difference(case, at, k, change, step=1e-5):
    """The slope of ``total`` along a change of the k-th leaf, by values on both sides."""
    flat, structure = jax.tree.flatten(at)
    moved = lambda step: structure.unflatten([leaf + step * change if i == k else leaf for i, leaf in enumerate(flat)])
    ahead, behind = (total(jax.device_get(case.function(*moved(side)))) for side in (step, -step))
    return (ahead - behind) / (2 * step)


@pytest.mark.parametrize("name", CASES)
def test_values_loops_and_differences_agree(name, x64):
    """Under jit, vmap and grad; with its sign flipped every gradient would be caught, but those that are zero."""
    case = CASES[name]
    where = places(case)
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *where)
    slope = jax.grad(lambda at: total(case.function(*at)))
    program = jax.jit(lambda at, stacked: (case.function(*at), jax.vmap(case.function)(*stacked), slope(at)))
    values = jax.device_get([case.function(*at) for at in where])
    close = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-11)
    for at, value in zip(where[:2], values[:2], strict=True):
        jitted, mapped, gradient = jax.device_get(program(at, stacked))
        jax.tree.map(close, jitted, value)
        jax.tree.map(lambda row, *each: close(row, np.stack(each)), mapped, *values)
        flat = []
        for (k, slopes), change in zip(leaves(gradient), changes(case, at), strict=True):
            exact, measured = np.vdot(slopes, change), difference(case, at, k, change)
            np.testing.assert_allclose(exact, measured, rtol=2e-6, atol=2e-8 * (1 + abs(total(value))))
            flat += [] if abs(exact + measured) > 1e-6 * (1 + abs(total(value))) else [k]
        assert flat == FLAT.get(name, [])
    assert jax.tree.all(jax.tree.map(lambda leaf: np.asarray(leaf).dtype == np.float64, (jitted, mapped, gradient)))


@pytest.mark.parametrize("name", CASES)
def test_types_are_kept(name, x64):
    """Tracers keep float32, though float64 could be had; known values are float64 and need no program."""
    at, values = places(CASES[name])[0], []
    narrow = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), at)
    for leaf in jax.tree.leaves(jax.eval_shape(CASES[name].function, *narrow)):
        assert leaf.dtype == np.float32 or leaf.weak_type
    if not CASES[name].compiles:
        with jax.enable_x64(False):
            assert programs(lambda: values.append(CASES[name].function(*at))) == 0
        assert all(isinstance(leaf, float) or leaf.dtype == np.float64 for leaf in jax.tree.leaves(values[0]))
