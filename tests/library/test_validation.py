"""Bad input is refused before anything is compiled, by an error that names the argument."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from refusals import refusals

from lsalib import attention, estimators, tasks, theory, training

KEY, SGD = jax.random.key(0), optax.sgd(0.1)
# Its state begins as a whole number and becomes a float.
DRIFTING = optax.GradientTransformation(lambda params: jnp.zeros((), int), lambda g, state, params: (g, state * 0.5))
TASK = tasks.GaussianTask([1.0, 2.0], context_size=3)
X, Y, X_Q = jnp.ones((3, 2)), jnp.ones(3), jnp.ones(2)
PARAMS = attention.init(KEY, dim=2, heads=1, scale=0.1)
NOISY, SKEW = tasks.GaussianTask([1.0, 2.0], 3, noise_std=0.5), tasks.GaussianTask([1.0, 2.0], 1, np.diag([1.0, 2.0]))
covariance = lambda matrix, name="feature_cov": tasks.GaussianTask([1.0, 2.0], 3, **{name: matrix})
swapped = lambda name, *shape: PARAMS._replace(**{name: jnp.ones(shape)})
ltb = lambda W_1, W_2, params=PARAMS: theory.ltb_risk(params, W_1, W_2, TASK)
run = training.Run(TASK, 1)
sweep = lambda runs=(run,), **options: training.sweep(KEY, runs, **options)
fit = lambda **options: training.fit(KEY, TASK, **{"heads": 1, "steps": 2, "batch_size": 4} | options)


def train(loss=lambda x, key: x.sum(), params=X_Q, steps=5, optimizer=SGD, **options):
    return training.train(loss, params, KEY, steps=steps, optimizer=optimizer, **options)


def small(step, metrics):
    return metrics["loss"] < 9


class Unhashable:
    __hash__ = None

    def __call__(self, x, key):
        return x.sum()


test_bad_input_is_refused = refusals(
    (lambda: tasks.GaussianTask([], 3), r"prior_mean must have shape .* got shape \(0,\)"),
    (lambda: covariance(np.eye(3)), r"feature_cov must have shape \(2, 2\), got shape \(3, 3\)"),
    (lambda: covariance([[1.0, 2.0], [2.0, 1.0]]), "feature_cov must be positive semidefinite .* -1 to 3"),
    (lambda: covariance(np.zeros((2, 2)), "prior_cov"), "prior_cov must be positive semidefinite and not zero"),
    (lambda: covariance([[1.0, 0.5], [0.501, 1.0]], "prior_cov"), "prior_cov must be symmetric"),
    (lambda: attention.init(KEY, 2, 1, 0.0), "scale must be a finite number greater than 0"),
    (lambda: attention.embed(jnp.ones((0, 2)), jnp.ones(0), X_Q, 0.0), "context size C of X must be a whole number of"),
    (lambda: attention.lsa(PARAMS, jnp.ones((4, 3))), r"E must have shape \(3, C\+1\), got shape \(4, 3\)"),
    (lambda: attention.lsa(swapped("W_V", 2, 3, 3), jnp.ones((3, 4))), r"W_V must have shape \(1, 3"),
    (lambda: attention.predict(PARAMS, jnp.ones((2, 2)), X_Q, 0.0), r"G must have shape \(3, 3\), got shape \(2, 2\)"),
    (lambda: attention.from_lift(jnp.ones((2, 3, 3))), r"M must have shape \(2, 2, 2\), got shape \(2, 3, 3\)"),
    (lambda: estimators.preconditioned_gd(X, Y, X_Q, X_Q, jnp.eye(3)), r"preconditioner must have shape \(2, 2\)"),
    (lambda: theory.optimal_risk(NOISY, noise_cumulant=-0.2), r"noise_cumulant .* at least .* -0\.125"),
    (lambda: theory.optimal_weights(TASK, noise_cumulant=1.0), "noise_cumulant must be 0"),
    (lambda: theory.bayes_risk(SKEW), "task must have covariances that are multiples of the identity"),
    (lambda: theory.population_risk(attention.init(KEY, 3, 1, 0.1), TASK), r"W_K must have .*, got shape \(1, 4, 4\)"),
    (lambda: jax.jit(lambda g: theory.population_risk(PARAMS, TASK, g))(Y), r"guess must have shape \(2,\)"),
    (lambda: ltb(jnp.eye(2), jnp.eye(3)), r"W_1 must have shape \(m, 3\), got shape \(2, 2\)"),
    (lambda: ltb(jnp.eye(3), jnp.ones((5, 3))), r"W_2 must have shape \(3, 3\), got shape \(5, 3\)"),
    (lambda: theory.lifted_risk(TASK).curvature(jnp.ones((2, 2, 2))), r"V must have shape \(3, 3, 3\)"),
    (lambda: theory.squared_distance(PARAMS, attention.init(KEY, 3, 1, 0.1), TASK), r"W_K must have .*\(1, 4, 4\)"),
    (lambda: theory.squared_distance(PARAMS, PARAMS, TASK, X_Q, jnp.ones(3)), r"other_guess must have shape \(2,\)"),
    (lambda: theory.least_risk(NOISY, 1, starts=0), "starts must be a whole number of at least 1, got 0"),
    (lambda: theory.depth_price(NOISY, 1), "task must have noise_std 0, got 0"),
    (lambda: theory.depth_risk(TASK, 3), "layers must be 1 or 2 for more than one feature, got 3"),
    (lambda: theory.few_heads_weights(TASK, 3), "heads must be at most d = 2, got 3"),
    (lambda: theory.few_heads_weights(SKEW, 1), "covariances that are multiples of the identity"),
    (lambda: theory.few_heads_weights(covariance(np.diag([1.0, 1 + 1e-7])), 1), "multiples of the identity"),
    (lambda: attention.from_effective(jnp.ones((2, 3)), jnp.ones((2, 3, 2))), r"A must have shape \(2, 3, 3\), got"),
    (lambda: fit(objective="exact"), r"objective must be one of \('sampled', 'population'\), got 'exact'"),
    (lambda: fit(learning_rate=0.0), "learning_rate must be a finite number greater than 0, got 0.0"),
    (lambda: fit(seeds=3), "seeds must be left to sweep: fit trains seed 0"),
    (lambda: fit(start=run), "start must be LSAParams, got "),
    (lambda: fit(start=PARAMS._replace(W_K=jnp.full((1, 3, 3), jnp.nan))), "start.W_K must be finite"),
    (lambda: fit(start=attention.init(KEY, 3, 1, 0.1)), r"start.W_K must have .*, got shape \(1, 4"),
    (lambda: fit(start=sweep(steps=1, batch_size=4, seeds=2)[0]), "start must be a single fit, got one with 2 seeds"),
    (lambda: jax.jit(lambda x: fit(guess=x).risk)(X_Q), "guess must be known where a run is made"),
    (lambda: jax.jit(lambda x: fit(bias=x).risk)(1.0), "bias must be known where a run is made"),
    (lambda: jax.jit(lambda x: fit(start=PARAMS._replace(W_K=x)).risk)(PARAMS.W_K), "start must be known where a run"),
    (lambda: jax.jit(lambda x: x + fit().risk)(1.0), "key must be known: a training runs its own program, outside of"),
    (lambda: fit(callback=3), r"callback must be a function of \(step, metrics\), got 3"),
    (lambda: fit(checkpoint=3), "checkpoint must be the path of a folder, got 3"),
    (lambda: fit(start=PARAMS, heads=2), r"start.W_K must have shape \(2, 3, 3\), got shape \(1, 3, 3\)"),
    (lambda: fit(dtype=jnp.bfloat16), "dtype must be float32 or float64, .* got bfloat16"),
    (lambda: train(seeds=[2**32]), r"seeds must be .* whole numbers of 0 to 2\*\*32 - 1, got \[4294967296\]"),
    *(
        (lambda at=at: train(snapshots=at), r"snapshots must be increasing whole numbers of 0 to 5, got \[")
        for at in ([3, 3], [6], [-1], [0.5])
    ),
    (lambda: train(params=np.arange(2)), r"params must be a pytree of float arrays, got 'int64\[2\]'"),
    (lambda: train(loss=lambda p, key: (p.sum(), p)), "loss must return a float scalar or one array of them, got"),
    (lambda: jax.vmap(lambda x: train(params=x).params)(jnp.ones((2, 3))), "params and key must be known"),
    (lambda: train(loss=None), r"loss must be a function of \(params, key\) that can be hashed, got None"),
    (lambda: train(loss=Unhashable()), r"loss must be a function of \(params, key\) that can be hashed, got <"),
    (lambda: train(params=[X_Q, KEY]), r"params must be .*'key<fry>\[\]'\]"),
    (lambda: train(optimizer=optax.noisy_sgd(0.1, key=0)), "optimizer must not keep a key in its state"),
    (lambda: jax.grad(lambda c: train(lambda x, key: c * x.sum()).risk[-1])(1.0), "must read known numbers"),
    (lambda: train(callback=small, callback_every=1, seeds=2), r"callback must return one truth value, got bool of sh"),
    (lambda: train().seed(0), "for a training with seeds, got a single one: use it as it is"),
    (lambda: train(optimizer=DRIFTING), "optimizer must keep the shapes and types of params and of its state"),
    (lambda: train(optimizer="adam"), "optimizer must be an optax.GradientTransformation, got 'adam'"),
    (lambda: sweep(run), "runs must be a sequence of at least one Run, got a Run"),
    (lambda: sweep(seeds=[0, -1]), r"seeds must be .* numbers of 0 to 2\*\*32 - 1, got \[0, -1\]"),
    (lambda: sweep(checkpoint="no/such/folder/state"), "checkpoint must be in a folder that exists"),
)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_what_rounding_does_to_a_singular_covariance_is_let_pass_in_any_unit(unit):
    """And what no rounding does is refused in any unit."""
    rows = np.random.default_rng(0).normal(size=(20, 4, 1))
    covs = [unit * row @ row.T for row in rows]
    assert min(np.linalg.eigvalsh(cov)[0] for cov in covs) < 0, "the control: some are not semidefinite to the last bit"
    for cov in covs:
        tasks.GaussianTask(np.ones(4), 3, cov)
        with pytest.raises(ValueError, match="feature_cov must be positive semidefinite"):
            tasks.GaussianTask(np.ones(4), 3, cov - 1e-6 * np.trace(cov) * np.eye(4))


def test_what_was_checked_cannot_change_afterwards():
    """The task keeps a copy that nobody can write to."""
    mine = np.array([1.0, 2.0])
    task = tasks.GaussianTask(mine, 3)
    mine[0] = np.nan
    assert np.isfinite(task.prior_mean).all()
    with pytest.raises(ValueError, match="read-only"):
        task.prior_mean[0] = np.nan
