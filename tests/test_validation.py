"""Bad input is refused before anything is compiled, by an error that names the argument."""

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from lsalib import attention, estimators, metrics, tasks, theory, training
from lsalib.book import claims

KEY = jax.random.key(0)
TASK = tasks.GaussianTask([1.0, 2.0], context_size=3)
X, Y, X_Q = jnp.ones((3, 2)), jnp.ones(3), jnp.ones(2)
PARAMS = attention.init(KEY, dim=2, heads=1, scale=0.1)
INDEFINITE = [[1.0, 2.0], [2.0, 1.0]]
SKEW = [[1.0, 0.5], [0.0, 1.0]]

REFUSED = {
    "prior_mean NaN": (lambda: tasks.GaussianTask([1.0, np.nan], 3), "prior_mean must be finite"),
    "prior_mean matrix": (
        lambda: tasks.GaussianTask(np.eye(2), 3),
        r"prior_mean must have shape \(d,\).*got shape \(2, 2\)",
    ),
    "prior_mean empty": (lambda: tasks.GaussianTask([], 3), r"prior_mean must have shape .* got shape \(0,\)"),
    "context_size 0": (
        lambda: tasks.GaussianTask([1.0], 0),
        "context_size must be a whole number of at least 1, got 0",
    ),
    "context_size 2.5": (lambda: tasks.GaussianTask([1.0], 2.5), "context_size must be a whole number"),
    "context_size True": (lambda: tasks.GaussianTask([1.0], True), "context_size must be a whole number"),
    "feature_cov shape": (
        lambda: tasks.GaussianTask([1.0, 2.0], 3, feature_cov=np.eye(3)),
        r"feature_cov must have shape \(2, 2\), got shape \(3, 3\)",
    ),
    "feature_cov indefinite": (
        lambda: tasks.GaussianTask([1.0, 2.0], 3, feature_cov=INDEFINITE),
        "feature_cov must be positive definite, got a smallest eigenvalue of -1",
    ),
    "prior_cov asymmetric": (lambda: tasks.GaussianTask([1.0, 2.0], 3, prior_cov=SKEW), "prior_cov must be symmetric"),
    "prior_cov NaN": (lambda: tasks.GaussianTask([1.0], 3, prior_cov=[[np.nan]]), "prior_cov must be finite"),
    "noise_std negative": (
        lambda: tasks.GaussianTask([1.0], 3, noise_std=-1.0),
        "noise_std must be a finite number of at least 0",
    ),
    "batch_size 0": (lambda: tasks.sample(KEY, TASK, 0), "batch_size must be a whole number of at least 1"),
    "heads 0": (lambda: attention.init(KEY, 2, 0, 0.1), "heads must be a whole number of at least 1, got 0"),
    "dim 0": (lambda: attention.init(KEY, 0, 1, 0.1), "dim must be a whole number of at least 1"),
    "scale 0": (lambda: attention.init(KEY, 2, 1, 0.0), "scale must be a finite number greater than 0"),
    "embed X": (lambda: attention.embed(Y, Y, X_Q, 0.0), r"X must have shape \(C, d\), got shape \(3,\)"),
    "embed y": (lambda: attention.embed(X, X_Q, X_Q, 0.0), r"y must have shape \(3,\), got shape \(2,\)"),
    "embed x_q": (lambda: attention.embed(X, Y, Y, 0.0), r"x_q must have shape \(2,\), got shape \(3,\)"),
    "embed no context": (
        lambda: attention.embed(jnp.ones((0, 2)), jnp.ones(0), X_Q, 0.0),
        "context size C of X must be a whole number of at least 1",
    ),
    "lsa E": (lambda: attention.lsa(PARAMS, jnp.ones((4, 3))), r"E must have shape \(3, C\+1\), got shape \(4, 3\)"),
    "lsa no context": (lambda: attention.lsa(PARAMS, jnp.ones((3, 1))), "context size"),
    "lsa weights": (
        lambda: attention.lsa(PARAMS._replace(W_V=jnp.ones((2, 3, 3))), jnp.ones((3, 4))),
        r"W_V must have shape \(1, 3, 3\), got shape \(2, 3, 3\)",
    ),
    "lsa square": (
        lambda: attention.lsa(PARAMS._replace(W_K=jnp.ones((1, 3, 2))), jnp.ones((3, 4))),
        r"W_K must have shape \(1, 3, 3\)",
    ),
    "predict G": (
        lambda: attention.predict(PARAMS, jnp.ones((2, 2)), X_Q, 0.0),
        r"G must have shape \(3, 3\), got shape \(2, 2\)",
    ),
    "predict x_q": (lambda: attention.predict(PARAMS, jnp.ones((3, 3)), Y, 0.0), r"x_q must have shape \(2,\)"),
    "yq w": (lambda: attention.yq_lsa(PARAMS, Y, X, Y, X_Q), r"w must have shape \(2,\), got shape \(3,\)"),
    "block W_1": (
        lambda: attention.linear_transformer_block(PARAMS, jnp.eye(2), jnp.eye(3), X, Y, X_Q),
        r"W_1 must have shape \(m, 3\)",
    ),
    "block W_2": (
        lambda: attention.linear_transformer_block(PARAMS, jnp.eye(3), jnp.ones((2, 3)), X, Y, X_Q),
        r"W_2 must have shape \(3, 3\)",
    ),
    "from_lift": (
        lambda: attention.from_lift(jnp.ones((2, 3, 3))),
        r"M must have shape \(2, 2, 2\), got shape \(2, 3, 3\)",
    ),
    "gd_weights": (lambda: attention.gd_weights(jnp.eye(2), 0.5), r"prior_mean must have shape \(d,\)"),
    "gd w0": (lambda: estimators.one_step_gd(X, Y, X_Q, Y, 0.5), r"w0 .* must have shape \(2,\), got shape \(3,\)"),
    "preconditioner": (
        lambda: estimators.preconditioned_gd(X, Y, X_Q, X_Q, jnp.eye(3)),
        r"preconditioner must have shape \(2, 2\)",
    ),
    "bayes prior_cov": (lambda: estimators.bayes(X, Y, X_Q, X_Q, jnp.eye(3)), r"prior_cov must have shape \(2, 2\)"),
    "bayes noise": (lambda: estimators.bayes(X, Y, X_Q, X_Q, None, -1.0), "noise_std must be"),
    "gd step": (lambda: theory.gd_risk(TASK, np.inf), "step_size must be a finite number"),
    "optimal guess": (
        lambda: theory.optimal_risk(TASK, guess=[1.0]),
        r"guess must have shape \(2,\), got shape \(1,\)",
    ),
    "optimal bias": (lambda: theory.optimal_risk(TASK, bias=np.nan), "bias must be a finite number"),
    "batches": (lambda: metrics.sampled_risk(KEY, TASK, lambda X, y, x_q: 0.0, batches=0), "batches must be"),
    "objective": (
        lambda: training.fit(KEY, TASK, 1, objective="adversarial"),
        "objective must be one of .* got 'adversarial'",
    ),
    "fit heads": (lambda: training.fit(KEY, TASK, 0), "heads must be a whole number"),
    "fit steps": (lambda: training.fit(KEY, TASK, 1, steps=0), "steps must be a whole number"),
    "fit rate": (
        lambda: training.fit(KEY, TASK, 1, learning_rate=0.0),
        "learning_rate must be a finite number greater than 0",
    ),
    "fit guess": (lambda: training.fit(KEY, TASK, 1, guess=[1.0]), r"guess must have shape \(2,\)"),
    "fit init_scale": (
        lambda: training.fit(KEY, TASK, 1, init_scale=-1.0),
        "scale must be a finite number greater than 0",
    ),
    "check shapes": (
        lambda: claims.check("id", [1.0, 2.0], [1.0], atol=1.0),
        r"expected must be one number or have the shape of measured, \(2,\), got \(1,\)",
    ),
    "prior_mean words": (
        lambda: tasks.GaussianTask(["one"], 3),
        r"prior_mean must be an array of real numbers, got \['one'\]",
    ),
    "gram y": (lambda: attention.gram(X, X_Q), r"y must have shape \(3,\), got shape \(2,\)"),
    "gram no context": (
        lambda: attention.gram(jnp.ones((0, 2)), jnp.ones(0)),
        "context size C of X must be a whole number",
    ),
    "effective heads": (
        lambda: attention.effective(PARAMS._replace(W_Q=jnp.ones((2, 3, 3)))),
        r"W_Q must have shape \(1, 3, 3\), got shape \(2, 3, 3\)",
    ),
    "lift heads": (
        lambda: attention.lift(PARAMS._replace(W_P=jnp.ones((2, 3, 3)))),
        r"W_P must have shape \(1, 3, 3\)",
    ),
    "run task": (lambda: training.Run(None, 1), "task must be a GaussianTask, got None"),
    "run train_guess": (lambda: training.Run(TASK, 1, train_guess="no"), "train_guess must be True or False, got 'no'"),
    "sweep seeds": (
        lambda: training.sweep(KEY, [training.Run(TASK, 1)], seeds=[1.5]),
        r"seeds must be a count or different whole numbers.*got \[1.5\]",
    ),
    "sweep dtype": (
        lambda: training.sweep(KEY, [training.Run(TASK, 1)], dtype="nonsense"),
        "dtype must be a float type, got 'nonsense'",
    ),
    "sweep checkpoint": (
        lambda: training.sweep(KEY, [training.Run(TASK, 1)], checkpoint="no/such/folder/state"),
        "checkpoint must be in a folder that exists",
    ),
    "check atol": (
        lambda: claims.check("id", [1.0, 2.0], 1.0, atol=np.ones(3)),
        r"atol must be one number or have the shape of measured, \(2,\), got \(3,\)",
    ),
    "check NaN": (lambda: claims.check("id", np.nan, 1.0, atol=1.0), "must be finite"),
    "check relation": (lambda: claims.check("id", 1.0, 1.0, relation="~"), "relation must be"),
    "check tolerance": (lambda: claims.check("id", 1.0, 1.0), "atol or rtol must be given"),
    "check negative": (lambda: claims.check("id", 1.0, 1.0, atol=-1.0), "must not be negative"),
}


@pytest.fixture(autouse=True)
def unchecked():
    """What a user without a run-time type checker sees."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    call, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_good_input_passes_the_same_checks():
    tasks.GaussianTask([1.0, 2.0], 3, feature_cov=[[2.0, 1.0], [1.0, 2.0]], noise_std=0.5)
    assert attention.lsa(PARAMS, attention.embed(X, Y, X_Q, 0.0)).shape == ()


def test_what_was_checked_cannot_change_afterwards():
    """The task keeps a copy that nobody can write to."""
    mine = np.array([1.0, 2.0])
    task = tasks.GaussianTask(mine, 3)
    mine[0] = np.nan
    assert np.isfinite(task.prior_mean).all()
    with pytest.raises(ValueError, match="read-only"):
        task.prior_mean[0] = np.nan
