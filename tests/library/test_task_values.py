"""Tasks as values: what rounding does to a covariance, and which tasks are equal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsalib.tasks import GaussianTask
from lsalib.theory import bayes_risk, few_heads_weights, gd_risk, gram_moments, optimal_risk

RNG = np.random.default_rng(0)


def rotation(d):
    return np.linalg.qr(RNG.normal(size=(d, d)))[0]


def rotated(d, dtype=np.float64):
    Q = rotation(d).astype(dtype)
    return Q @ np.diag(RNG.uniform(0.1, 10, d).astype(dtype)) @ Q.T


def data(d, rows=20):
    return RNG.normal(size=(rows, d)) @ RNG.normal(size=(d, d))


ORDINARY = {
    "the inverse of a Toeplitz matrix": lambda: np.linalg.inv(0.5 ** np.abs(np.subtract.outer(range(6), range(6)))),
    "Q D Q'": lambda: rotated(7),
    "an inverse": lambda: np.linalg.inv(rotated(7)),
    "a sample's": lambda: np.cov(data(5).T),
    "Q D Q' in float32": lambda: rotated(7, np.float32),
    "a singular one in float32": lambda: jnp.cov(jnp.asarray(data(6, 4), jnp.float32).T),
    "a product in float32": lambda: (lambda Z: Z.T @ Z / 4)(data(6, 4).astype(np.float32)),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_covariances_as_they_are_computed_are_taken(name):
    """Matrices that rounding left a little asymmetric or indefinite are taken as they are meant."""
    asymmetric = 0
    for _ in range(40):
        given = np.asarray(ORDINARY[name]())
        kept = GaussianTask(np.ones(len(given)), 3, given, given)
        asymmetric += not (given == given.T).all()
        np.testing.assert_array_equal(kept.feature_cov, kept.feature_cov.T)
        eps = np.finfo(given.dtype).eps
        np.testing.assert_allclose(kept.feature_cov, given, rtol=0, atol=1e3 * eps * np.abs(given).max())
        assert np.linalg.eigvalsh(kept.prior_cov)[0] > -1e-14 * np.abs(given).max()
        assert np.isfinite(optimal_risk(kept)) and optimal_risk(kept) >= 0
    assert asymmetric or "Q D Q'" not in name, "the control: some of them are not symmetric to the last bit"


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_mistake_in_one_entry_is_refused(unit, dtype):
    """In any unit and type."""
    wrong = unit * np.array([[1.0, 0.5], [0.501, 1.0]], dtype)
    with pytest.raises(ValueError, match="feature_cov must be symmetric, got a largest asymmetry of"):
        GaussianTask([1.0, 2.0], 3, wrong)
    with pytest.raises(ValueError, match=r"feature_cov must be positive semidefinite .* eigenvalues from"):
        GaussianTask([1.0, 2.0], 3, unit * np.array([[1.0, 1.001], [1.001, 1.0]], dtype))


def test_fourth_moments_of_data_are_taken():
    """With rounding, in either type; with one wrong entry they are refused."""
    X = np.random.default_rng(1).normal(size=(50, 3))
    fourth = np.einsum("ni,nj,nk,nl->ijkl", X, X, X, X) / 50
    task = GaussianTask([1.0, 2.0, 0.0], 4, X.T @ X / 50)
    expected = gram_moments(task, fourth=fourth).second
    noise = 1e-16 * np.random.default_rng(2).normal(size=fourth.shape)
    np.testing.assert_allclose(gram_moments(task, fourth=fourth + noise).second, expected, rtol=1e-12)
    narrow = gram_moments(task, fourth=np.float32(fourth) * (1 + np.float32(noise / 1e-9))).second
    np.testing.assert_allclose(narrow, expected, rtol=1e-5)
    off = fourth.copy()
    off[0, 1, 2, 0] += 1e-3
    with pytest.raises(ValueError, match=r"fourth must be symmetric, got a largest asymmetry of 0\.001"):
        gram_moments(task, fourth=off)


def test_an_identity_is_one_up_to_rounding():
    """A product of rotations counts as the identity, and 1 + 1e-12 on its diagonal does not."""
    Q = rotation(3)
    assert bayes_risk(GaussianTask([1, 1, 1], 2, feature_cov=np.eye(3))) == 1.0
    assert bayes_risk(GaussianTask([1, 1, 1], 2, feature_cov=Q @ Q.T, prior_cov=np.eye(3))) == pytest.approx(
        1.0, rel=1e-14
    )
    few_heads_weights(GaussianTask([1, 1, 1], 2, feature_cov=0.3 * Q @ Q.T), 1)
    for off in (2.0, 1 + 1e-7, 1 + 1e-12):
        with pytest.raises(ValueError, match="multiples of the identity"):
            bayes_risk(GaussianTask([1, 1, 1], 2, prior_cov=np.diag([1, 1, off])))
    traced = lambda cov: bayes_risk(GaussianTask([1, 1, 1], 2, feature_cov=cov))
    assert jax.jit(traced)(2 * np.eye(3)) == 2.0


FIELDS = {"prior_mean": [1, 2], "context_size": 3, "feature_cov": np.eye(2), "prior_cov": [[2, 1], [1, 2]]}
FIELDS |= {"noise_std": 0.5, "query_cov": [[3, 1], [1, 1]]}
CHANGES = {"prior_mean": [1, np.nextafter(2, 3)], "context_size": 4, "feature_cov": None, "noise_std": 0.0}
CHANGES |= {"prior_cov": [[2, 1], [1, 3]], "query_cov": np.eye(2)}


def test_tasks_with_the_same_numbers_are_equal_and_others_are_not():
    """Whatever types the numbers came in; the last bit of one number makes another task."""
    task, same = GaussianTask(**FIELDS), GaussianTask(np.array([1.0, 2.0]), 3, *list(FIELDS.values())[2:])
    assert task == same and hash(task) == hash(same) and len({task, same}) == 1 and task != "a task"
    assert GaussianTask([1, 2], 3) == GaussianTask([1.0, 2.0], 3, noise_std=-0.0)
    for name, value in CHANGES.items():
        other = GaussianTask(**FIELDS | {name: value})
        assert task != other and hash(task) != hash(other)


def test_equal_tasks_are_one_static_argument():
    """JAX compiles once for tasks with the same numbers."""
    made = []

    @jax.jit
    def program(x, task):
        made.append(task)
        return x * gd_risk(task)

    static = jax.jit(program.__wrapped__, static_argnames="task")
    for _ in range(3):
        static(1.0, task=GaussianTask(**FIELDS))
    assert len(made) == 1
    static(1.0, task=GaussianTask(**FIELDS | {"context_size": 9}))
    assert len(made) == 2


def test_a_traced_task_is_equal_to_itself_alone():
    """The numbers of a tracer are not known, so no comparison of two is true."""

    def compare(mean):
        task, twin = GaussianTask(mean, 3), GaussianTask(mean, 3)
        assert task == task and task != twin and hash(task) == hash(task)
        return mean

    jax.jit(compare)(np.ones(2))
    placeholders = jax.tree.map(lambda leaf: object(), GaussianTask(**FIELDS))
    assert placeholders == placeholders and placeholders != GaussianTask(**FIELDS)
