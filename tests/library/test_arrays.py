"""The door of the functions of arrays: types, transformations of JAX, and what is no array of numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled import programs
from refusals import refusals

from lsalib import _arrays, attention, estimators, theory
from lsalib.tasks import standardize

X, Y, X_Q = [[1, 2], [0, 1], [2, -1]], [1, 0, 2], [1, 1]
WEIGHTS = attention.LSAParams(*(np.arange(18).reshape(2, 3, 3) % 5 - 1 for _ in range(4)))


def type_of(*values, least=None):
    return _arrays.promoted(lambda a, b=0.0: a + b, least=least)(*values).dtype.name


@pytest.mark.parametrize("wide", [False, True])
def test_the_type_is_the_widest_that_came(wide):
    """Half precision stays, mixtures are widened, and Python's numbers take JAX's default or the type beside them."""
    full = "float64" if wide else "float32"
    with jax.enable_x64(wide):
        half, brain, single = (jnp.ones(2, name) for name in ("float16", "bfloat16", "float32"))
        assert type_of([1, 2]) == type_of(np.array([1, 2])) == type_of([1.0, 2.0]) == full
        assert type_of(half) == type_of(half, 2.0) == type_of(half, 2) == "float16"
        assert type_of(brain, half) == type_of(brain, single) == type_of(half, least=np.float32) == "float32"
        assert type_of(single, np.float64(1.0)) == type_of(single, np.int32(1)) == type_of([1], half) == full
        assert type_of(np.ones(2, np.longdouble)) == type_of(np.ones(2, jnp.float8_e4m3fn)) == full


def test_jit_vmap_grad_and_shapes_alone():
    """Functions of arrays work under JAX's transformations, with lists that hold traced numbers, too."""
    predict = lambda y_q: attention.predict(WEIGHTS, attention.gram(X, Y), X_Q, y_q)
    value = float(predict(0.5))
    by_hand = (float(predict(0.5 + 1e-2)) - float(predict(0.5 - 1e-2))) / 2e-2
    np.testing.assert_allclose(jax.jit(predict)(0.5), value, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(predict)(jnp.array([0, 0.5]))[1], value, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(predict)(0.5), by_hand, rtol=1e-3)
    assert jax.eval_shape(predict, jnp.int32(1)).dtype == jnp.float32
    # Tracers in a list, and integers that are traced.
    step = lambda a: estimators.one_step_gd(X, [1, a, 2], [a, 1], [0, 0], 1)
    np.testing.assert_allclose(jax.jit(step)(2), step(2), rtol=1e-6)


def test_a_known_number_stays_known_under_jit():
    """It is checked there as anywhere."""
    bad = jax.jit(lambda x_q: estimators.bayes(X, Y, x_q, [0, 0], noise_std=np.float32(-1)))
    with pytest.raises(ValueError, match="noise_std must be a finite number of at least 0"):
        bad(jnp.ones(2))


def test_numpy_arrays_of_another_type_need_no_program_of_their_own():
    """They are converted before the program is called."""
    arguments = [np.asarray(value, np.float32) for value in (X, Y, X_Q, [0, 0], 0.5)]
    estimators.one_step_gd(*arguments)
    assert programs(lambda: estimators.one_step_gd(X, np.int8(Y), np.float16(X_Q), [0, 0], np.float64(0.5))) == 0


class Fitted:
    """What a user hands on whole."""

    params, task = WEIGHTS, None


test_what_came_is_named = refusals(
    (lambda: attention.lsa(Fitted(), X), "params must be LSAParams, got a Fitted; its weights: fitted.params"),
    (lambda: theory.gd_risk(Fitted()), "task must be a GaussianTask, got a Fitted; .* its task: fitted.task"),
    (lambda: standardize([1.0]), r"task must be a GaussianTask, got \[1\.0\]"),
    (lambda: theory.gd_risk(task=None), "task must be a GaussianTask, got None"),
    (lambda: attention.lsa(tuple(WEIGHTS), X), "params must be LSAParams, got "),
    (lambda: estimators.bayes(X, Y, X_Q, X_Q, [[1, 0.5], [0.4, 1]]), "prior_cov must be symmetric"),
)


@pytest.mark.parametrize("name", [name for name in theory.__all__ if name[0].islower()])
def test_no_result_is_asked_of_anything_but_a_task(name):
    """One's own task has no covariances, and a list no name."""
    floats = jax.tree.map(np.float32, WEIGHTS)
    more = {"few_heads_weights": (1,), "least_risk": (1,), "depth_price": (1,), "depth_risk": (1,)}
    more |= {"softmax_risk": ([0.1],), "softmax_output": ([0.1],)}
    first = {
        "population_risk": (floats,),
        "optimal_guess": (floats,),
        "squared_distance": (floats, floats),
        "ltb_risk": (floats, np.eye(3), np.eye(3)),
    }
    first |= {"standard_form": (np.ones((1, 3)), np.ones((1, 3, 3)), np.ones(3), np.ones(3))}
    first |= {"standard_risk": (np.ones((1, 3)), np.ones((1, 3, 3)), np.ones(3))}
    for wrong in ([1.0, 2.0], 3, object()):
        with pytest.raises(ValueError, match=r"task must be (a GaussianTask( or a MixtureTask)?|StandardTask), got "):
            getattr(theory, name)(*first.get(name, ()), wrong, *more.get(name, ()))
