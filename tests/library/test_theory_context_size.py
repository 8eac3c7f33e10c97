"""The context size as a number that JAX traces: curves by vmap and slopes by grad, of all that has a formula in C."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refusals
from test_theory_transforms import CASES

from lsalib import metrics
from lsalib.tasks import GaussianTask, sample
from lsalib.theory import (
    bayes_risk,
    centred_task,
    debiased_risk,
    debiased_step,
    delta_rule_risk,
    gd_risk,
    population_risk,
)

# No formula in C: a maximum, and as many steps as examples. Few heads and least_risk search, which takes long.
SLOW = {"few_heads_weights", "least_risk"}
NAMES = sorted(set(CASES) - SLOW - {"bayes_risk", "centred_task", "delta_rule_risk", "delta_rule_step"})
TASK = GaussianTask([1.0, 2.0], 5, noise_std=0.4)
SKEW = replace(TASK, feature_cov=np.diag([1.0, 2.0]))


@pytest.mark.parametrize("name", NAMES)
def test_curves_and_slopes(name, x64):
    """A vmap is the loop over tasks of these sizes, a derivative the difference quotient; another size is seen."""
    case = CASES[name]
    (task, *_), more = case.tasks, jax.tree.map(jnp.asarray, case.more)
    flat = lambda value: jnp.concatenate([jnp.ravel(jnp.asarray(leaf)) for leaf in jax.tree.leaves(value)])
    of_size = lambda C: flat(case.function(replace(task, context_size=C), *more))
    program = jax.jit(lambda sizes: (jax.vmap(of_size)(sizes), jax.jvp(of_size, (sizes[0],), (jnp.ones(()),))[1]))
    curve, slope = program(np.array([4.0, 7.0, 4 + 1e-4, 4 - 1e-4]))
    np.testing.assert_allclose(curve[:2], np.stack([of_size(4), of_size(7)]), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(slope, (curve[2] - curve[3]) / 2e-4, rtol=1e-6, atol=1e-7)
    if name not in ("lifted_risk", "standard_form"):
        assert np.abs(curve[0] - curve[1]).max() > 1e-4, "the control"
    assert curve.dtype == np.float64


def test_whole_numbers_and_float32_are_taken():
    """Integers count as floats; with float32 weights the risk stays float32."""
    of_size = lambda C: gd_risk(replace(TASK, context_size=C))
    curve = jax.vmap(of_size)(jnp.arange(1, 6))
    np.testing.assert_allclose(curve, [of_size(C) for C in range(1, 6)], rtol=1e-6)
    assert curve.dtype == np.float32
    case = CASES["population_risk"]
    params = jax.tree.map(np.float32, case.more[0])
    assert jax.jit(lambda C: population_risk(params, replace(case.tasks[0], context_size=C)))(3).dtype == np.float32


def test_a_task_with_such_a_size_passes_through_programs():
    """In and out as a pytree; ordinary tasks keep their size in the structure, their equality and their hash."""
    longer = jax.jit(lambda C: replace(TASK, context_size=C))(6.0)
    assert float(longer.context_size) == 6
    for risk in (gd_risk, jax.jit(lambda task: gd_risk(task))):
        np.testing.assert_allclose(risk(longer), risk(replace(TASK, context_size=6)), rtol=1e-6)
    assert len(jax.tree.leaves(longer)) == len(jax.tree.leaves(TASK)) + 1
    assert replace(TASK, noise_std=0.4) == TASK and len({TASK, replace(TASK, context_size=5)}) == 1
    assert TASK != replace(TASK, context_size=6)
    assert jax.jit(lambda C: float(centred_task(replace(TASK, context_size=C)).dim))(3.0) == 2


@pytest.mark.parametrize("function", [debiased_risk, debiased_step])
def test_one_centered_example_gives_nan(function):
    """A known size of one is refused; data cannot be, and a NaN is no plausible number. Two examples have a result."""
    curve = jax.vmap(lambda C: function(replace(TASK, context_size=C)))(np.array([1.0, 2.0]))
    np.testing.assert_allclose(curve, [np.nan, function(replace(TASK, context_size=2))], rtol=1e-6)
    with pytest.raises(ValueError, match="context_size of at least 2"):
        function(replace(TASK, context_size=1))


KEY = jax.random.key(0)
test_where_a_known_size_is_needed_it_is_asked_for = refusals(
    (lambda: GaussianTask([1.0], 2.5), "context_size must be a whole number of at least 1, got 2.5"),
    (
        lambda: jax.jit(lambda C: sample(KEY, replace(TASK, context_size=C), 4))(3),
        "task must have a known context_size",
    ),
    (
        lambda: jax.jit(lambda C: metrics.sampled_risk(KEY, replace(TASK, context_size=C), lambda X, y, x_q: y[0]))(3),
        "task must have a known context_size",
    ),
    (lambda: jax.jit(lambda C: delta_rule_risk(replace(TASK, context_size=C)))(3), "task must have a known.*each ex"),
    (lambda: jax.jit(lambda C: delta_rule_risk(replace(TASK, context_size=C), 1, decay=0.5))(3), "known context_size"),
    (lambda: jax.jit(lambda C: delta_rule_risk(replace(SKEW, context_size=C), 0.1))(3), "known multiples of the ident"),
    (lambda: jax.jit(lambda C: bayes_risk(replace(TASK, context_size=C)))(3), "whose fraction has as many terms as C"),
    (
        lambda: jax.vmap(lambda C: gd_risk(replace(TASK, context_size=C)))(np.ones((2, 2))),
        "context_size must have shape",
    ),
)
