"""What comes in: plain numbers become arrays of one type, and what cannot be right is
refused by name.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refusals

from lsalib import _check
from lsalib.attention import LSAParams


def test_numbers_become_arrays_of_the_widest_type():
    """Lists, whole numbers, NumPy and JAX; Python's own numbers fit every type; weights
    field by field.
    """
    half, params = jnp.ones(2, jnp.bfloat16), LSAParams(*[[[[1, 2], [3, 4]]]] * 4)
    arrays = {"X": half, "y": np.float16([1]), "step": 0.5, "params": params}
    *numbers, weights, none = _check.floats(**arrays, none=None, optional=("none",))
    types = {each.dtype for each in (*numbers, weights.W_K)}
    assert types == {jnp.dtype(jnp.float32)} and none is None
    assert _check.floats(X=half, step=2)[1].dtype == jnp.bfloat16
    assert _check.floats(X=[1, True], y=np.arange(2.0))[0].dtype == jnp.float32
    with jax.enable_x64(True):
        found, _ = _check.floats(X=np.ones(2, np.float32), y=np.ones(2))
        assert found.dtype == jnp.float64


def test_known_numbers_stay_in_numpy():
    """In float64 whatever JAX's setting; one tracer makes all of them JAX's."""
    xp, w, s, none = _check.namespace([1, 2], jnp.float32(0.5), None)
    assert xp is np and w.dtype == s.dtype == np.float64 and none is None
    seen = []
    jax.jit(lambda x: seen.append(_check.namespace(x, [1, 2])) or x)(1)
    assert seen[0][0] is jnp and seen[0][2].dtype == jnp.float32


def test_a_covariance_is_made_symmetric_and_copied():
    """Rounding of float32 is averaged out; a tiny negative eigenvalue becomes zero."""
    Z = np.random.default_rng(0).normal(size=(3, 2))
    given = np.float32(Z @ Z.T)
    given[0, 1] *= 1 + 1e-6
    found = _check.covariance("cov", given, 3)
    np.testing.assert_allclose(found, Z @ Z.T, rtol=1e-5)
    assert np.array_equal(found, found.T) and found.dtype == np.float64
    assert np.linalg.eigvalsh(found)[0] > -1e-15 * np.linalg.eigvalsh(found)[-1]
    given[:] = 0
    assert found.any()


@pytest.mark.parametrize(
    "key", [jax.random.key(0), jax.random.PRNGKey(0), np.asarray(jax.random.PRNGKey(1))]
)
def test_keys_of_all_kinds(key):
    """A typed key, and the raw numbers of one, also as NumPy's."""
    assert _check.key(key) is key


class Fit:
    params = task = None


def cov(*rows):
    return _check.covariance("cov", rows, 2)


X_IN_ROWS = r"X must have shape \(C, 2\), got shape \(2, 3\)"
ASYMMETRIC, NEGATIVE = (
    "cov must be finite and symmetric",
    "cov must be positive semi.* ",
)
test_bad_input_is_refused = refusals(
    ("X must be an array of real numbers", _check.array, "X", [[1, 2], [3]]),
    ("X must be .* got complex128 of", _check.array, "X", np.ones(2, complex)),
    (
        r"params must be .* got a Fit \(did you mean its params or task\?\)",
        lambda: _check.floats(params=Fit()),
    ),
    (X_IN_ROWS, _check.array, "X", np.ones((2, 3)), ("C", 2)),
    ("steps must be a whole number of at least 1, got 0", _check.count, "steps", 0),
    ("steps must be a whole number of at least 1, got 2.0", _check.count, "steps", 2.0),
    ("eta must be a finite number, got nan", _check.number, "eta", np.nan),
    (
        "eta must be a finite number of at least 0, got -1",
        lambda: _check.number("eta", -1, minimum=0),
    ),
    (
        "eta must be a finite number greater than 0, got 0.0",
        lambda: _check.number("eta", 0.0, above=0),
    ),
    ("eta must be a real number, got 1000", _check.number, "eta", 10**400),
    (r"w must have shape \(d,\), got shape \(0,\)", _check.vector, "w", []),
    (ASYMMETRIC, cov, [1, np.inf], [np.inf, 1]),
    (ASYMMETRIC, cov, [1, 0.5], [0.499, 1]),
    (NEGATIVE + r"eigenvalues \[-1\. +3\.\]", cov, [1, 2], [2, 1]),
    (NEGATIVE + r"\[-1\.e-13", cov, [1e-13, 2e-13], [2e-13, 1e-13]),
    ("cov must be positive semidefinite and not zero", cov, [0, 0], [0, 0]),
    (r"key must be .* got 0; write jax.random.key\(0\)", _check.key, 0),
    (r"y must have shape \(3,\), got", _check.context, np.ones((3, 2)), np.ones(2)),
    (r"X must have shape \(C, d\)", _check.context, np.ones((0, 2)), np.ones(0)),
)
