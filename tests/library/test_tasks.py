"""Tasks as values of JAX, tasks of one's own, and predictors that are measured on them."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from refusals import refusals

from lsalib import estimators, metrics, theory
from lsalib.attention import embed, init, lsa
from lsalib.tasks import Batch, GaussianTask, sample
from lsalib.training import train

KEY = jax.random.key(0)
FIELDS = {
    "prior_mean": np.array([1.0, -2.0]),
    "feature_cov": np.array([[1.0, 0.3], [0.3, 2.0]]),
    "prior_cov": np.array([[0.5, 0.1], [0.1, 1.0]]),
    "noise_std": np.array(0.7),
    "query_cov": np.array([[3.0, -1.0], [-1.0, 1.0]]),
}


def loss(fields, key=KEY):
    """A smooth number that every field moves."""
    batch = sample(key, GaussianTask(context_size=4, **fields), 5)
    return (batch.y**2).mean() + (batch.X**3).mean() + (batch.target * batch.w[:, 0]).mean() + (batch.x_q**2).mean()


def test_gradients_go_through_the_sampler(x64):
    """By every field of a task, against differences; the control is the gradient with its sign flipped."""
    gradient, value = jax.jit(jax.grad(loss))(FIELDS), jax.jit(loss)
    for name, field in FIELDS.items():
        for place in np.ndindex(field.shape):
            step = np.zeros(field.shape)
            step[place] = 1e-6
            step = (step + step.T) / 2
            up, down = (float(value(FIELDS | {name: field + sign * step})) for sign in (1, -1))
            mine = np.sum(np.asarray(gradient[name]) * step) / 1e-6
            assert mine == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-7), (name, place)
            assert abs(mine) < 1e-6 or -mine != pytest.approx((up - down) / 2e-6, rel=1e-5)


def test_a_batch_of_tasks_is_each_task(x64):
    """Stacked tasks under vmap are sampled as each one alone."""
    tasks = [GaussianTask(**FIELDS | {"prior_mean": [m, 1.0]}, context_size=4) for m in (0.0, 3.0)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *tasks)
    together = jax.jit(jax.vmap(lambda task: sample(KEY, task, 6)))(stacked)
    for k, task in enumerate(tasks):
        for mine, alone in zip(together, sample(KEY, task, 6), strict=True):
            np.testing.assert_allclose(mine[k], alone, rtol=1e-12, atol=1e-12)
    assert np.abs(np.asarray(together.y)[0] - np.asarray(together.y)[1]).max() > 0.1


def test_flattened_and_back_a_task_is_itself():
    """A task is a pytree of its numbers; a noise of zero is none of them."""
    noisy, plain = GaussianTask(context_size=4, **FIELDS), GaussianTask([1.0], context_size=2)
    for task, leaves in ((noisy, 5), (plain, 1)):
        flat, structure = jax.tree.flatten(task)
        again, sizes = structure.unflatten(flat), lambda task: (task.dim, task.context_size, task.noisy)
        assert len(flat) == leaves and sizes(again) == sizes(task)
        np.testing.assert_array_equal(again.prior_mean, task.prior_mean)
    assert plain.noise_std == 0.0 and jax.tree.structure(noisy) != jax.tree.structure(plain)


class Signs:
    """Features of random sign: not Gaussian, and no pytree."""

    dim, context_size = 3, 6

    def sample(self, key, n):
        keys = jax.random.split(key, 3)
        X, x_q = (jnp.sign(jax.random.normal(k, (n, m, 3))) for k, m in zip(keys, (self.context_size, 1), strict=False))
        w = 1.0 + jax.random.normal(keys[2], (n, 3))
        return Batch(X, jnp.einsum("bcd,bd->bc", X, w), x_q[:, 0], jnp.einsum("bd,bd->b", x_q[:, 0], w))


def one_step(X, y, x_q):
    return estimators.one_step_gd(X, y, x_q, jnp.ones(3), 0.5)


def test_a_foreign_task_is_measured():
    """One-step GD on signs: E|x|^4 differs, so 1 - 2 eta + eta^2 (1 + (d - 1)/C) a feature."""
    risk = metrics.sampled_risk(KEY, Signs(), one_step, batches=8, batch_size=4000)
    exact = 3 * (1 - 1 + 0.25 * (1 + 2 / 6))
    assert abs(risk.mean - exact) < 4 * risk.standard_error
    # Negative control: the Gaussian value, for which (d + 1)/C stands there.
    assert abs(risk.mean - theory.gd_risk(GaussianTask(np.ones(3), 6), 0.5)) > 6 * risk.standard_error


@pytest.mark.parametrize("options", [{"compress": True}, {"dtype": jnp.float16}, {}], ids=str)
def test_a_task_s_own_sample_is_that_of_the_function(options):
    """With every option, and in the type that is asked for."""
    task = GaussianTask([1.0, -2.0], 8)
    mine, expected = task.sample(KEY, 5, **options), sample(KEY, task, 5, **options)
    for part, other in zip(mine, expected, strict=True):
        assert part.dtype == other.dtype
        np.testing.assert_array_equal(part, other)
    assert (mine.X.shape[1], mine.X.dtype) == (2 if "compress" in options else 8, options.get("dtype", jnp.float32))


def test_a_foreign_task_is_trained_on():
    """A task that only has ``dim`` and ``sample`` is trained on to near the best step's risk."""
    task = Signs()

    def squared_error(params, key):
        X, y, x_q, target, _ = task.sample(key, 64)
        answer = jax.vmap(lambda X, y, x_q: lsa(params, embed(X, y, x_q, x_q.sum())))(X, y, x_q)
        return jnp.mean((answer - target) ** 2)

    end = train(squared_error, None, KEY, init=lambda key: init(key, 3, 1, 0.3), steps=400, optimizer=optax.adam(1e-2))
    trained = lambda X, y, x_q: lsa(end.params, embed(X, y, x_q, x_q.sum()))
    after = metrics.sampled_risk(KEY, task, trained, batches=2, batch_size=4000)
    best = 3 * (1 - 1 / (1 + 2 / 6))
    assert best - 4 * after.standard_error < after.mean < 1.3 * best < np.asarray(end.risk)[:10].mean()


class Changed(Signs):
    """A task with another dimension, or whose batches have another part."""

    def __init__(self, dim=3, **parts):
        self.dim, self.parts = dim, parts

    def sample(self, key, n):
        return super().sample(key, n)._replace(**self.parts)


WIDE, FLAT = Changed(x_q=jnp.ones((4, 4))), Changed(target=jnp.ones((4, 1)))
measure = lambda task: metrics.sampled_risk(KEY, task, one_step, batches=1, batch_size=4)
test_a_task_that_lacks_something_is_refused = refusals(
    (lambda: measure(object()), "task must have dim and sample"),
    (lambda: measure({"dim": 3}), "task must have dim and sample"),
    (lambda: measure(Changed(dim=4)), r"the X of the task's sample must have shape \(4, C, 4\), got shape \(4, 6, 3\)"),
    (lambda: measure(WIDE), r"the x_q of the task's sample must have shape \(4, 3\), got shape \(4, 4\)"),
    (lambda: measure(FLAT), r"the target of the task's sample must have shape \(4,\), got shape \(4, 1\)"),
)


def test_nothing_broadcasts_without_strict_mode(unchecked):
    """JAX as it comes: shapes broadcast, types promote."""
    task, context = GaussianTask(np.ones(3), context_size=6), (jnp.ones((6, 3)), jnp.ones(6), jnp.ones(3))
    row, plain = (lambda X, y, x_q: x_q[:1]), (lambda X, y, x_q: x_q[0])
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        for shape, f in {r"\(1,": row, r"\(3, 3": lambda X, y, x_q: jnp.outer(x_q, x_q)}.items():
            with pytest.raises(ValueError, match=rf"must return a scalar, or .* in a vector, got shape {shape}\)"):
                metrics.sampled_risk(KEY, task, f, batches=1, batch_size=4)
        for compare in (metrics.prediction_difference, metrics.gradient_difference, metrics.gradient_cosine):
            with pytest.raises(ValueError, match=r"g must return a scalar, got shape \(1,\)"):
                compare(plain, row, *context)
        assert np.isfinite(metrics.sampled_risk(KEY, task, plain, batches=1, batch_size=4).mean)
