"""A query with a covariance of its own: exact results by other derivations, training, files, and what is refused."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from refusals import refusals
from theory_reference import TASKS, dense_risk, largest_z, make_guess, make_params, make_task, z_bound

from lsalib import estimators, metrics, theory
from lsalib.attention import gd_weights, gram, init, lift, predict
from lsalib.mixtures import MixtureTask
from lsalib.tasks import GaussianTask, sample, standardize
from lsalib.training import Fit, Run, fit, load, merge, minimize, save, sweep

KEY = jax.random.key(0)
TURNED = np.array([[3.0, -1.0, 0.5], [-1.0, 1.0, 0.0], [0.5, 0.0, 0.4]])
LINE = np.outer([1.0, 2.0, -1.0], [1.0, 2.0, -1.0])
# The features of the last one lie in a plane, which its queries leave.
OWN = {
    f"{name}, {which}": replace(TASKS[name], query_cov=Q)
    for name in ("isotropic", "general, noisy")
    for which, Q in (("turned", TURNED), ("line", LINE))
}
OWN["plane"] = replace(
    TASKS["general"], feature_cov=[[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]], query_cov=TURNED
)
of_examples = lambda task: replace(task, query_cov=None)


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("heads", [1, 4])
def test_the_risk_of_any_weights(name, heads, x64):
    """From the dense moments, for LSA and behind an MLP; the control is the query of the examples."""
    task, params = OWN[name], make_params(0, 3, heads)
    guess, bias = make_guess(task), 0.3
    dense = dense_risk(np.asarray(lift(params)), task, guess, bias)
    np.testing.assert_allclose(theory.population_risk(params, task, guess, bias), dense, rtol=1e-9)
    np.testing.assert_allclose(theory.lifted_risk(task, guess, bias).value(lift(params)), dense, rtol=1e-9)
    assert abs(theory.population_risk(params, of_examples(task), guess, bias) / dense - 1) > 1e-3
    # With v = [guess; 1] and heads that do not read y_q the block is LSA.
    W_2 = jnp.eye(4).at[:3, 3].set(guess)
    blind = params._replace(W_Q=params.W_Q.at[:, :, -1].set(0))
    same = blind._replace(W_P=jnp.einsum("nm,hmk->hnk", W_2.T, params.W_P))
    risk = theory.ltb_risk(blind, jnp.eye(4), W_2, task)
    np.testing.assert_allclose(risk, theory.population_risk(same, task, guess), rtol=1e-9)


@pytest.mark.parametrize("name", OWN)
def test_the_closed_forms_and_their_weights(name, x64):
    """Each closed form is the risk of its weights, and the minimum that the quadratic in the lift has."""
    task, guess = OWN[name], make_guess(OWN[name])
    w, risk = task.prior_mean, theory.population_risk
    step = theory.optimal_step(task)
    at = [theory.gd_risk(task, eta) for eta in (step - 0.1, step, step + 0.1)]
    np.testing.assert_allclose(at, [risk(gd_weights(w, step + e), task, w) for e in (-0.1, 0, 0.1)], rtol=1e-9)
    assert at[0] == pytest.approx(at[2], rel=1e-9) and at[1] == theory.gd_risk(task) < at[0]
    shorter = theory.centred_task(task)
    assert theory.debiased_risk(task) == pytest.approx(theory.gd_risk(shorter), rel=1e-12)
    assert (shorter.query_cov == task.query_cov).all()
    for g, bias in ((guess, 0.3), (w, 0.0)):
        least = theory.lifted_risk(task, g, bias).minimum()
        np.testing.assert_allclose(theory.optimal_risk(task, g, bias), least, rtol=1e-8)
        np.testing.assert_allclose(risk(theory.optimal_weights(task, g, bias), task, g, bias), least, rtol=1e-8)
    np.testing.assert_allclose(theory.yq_risk(task), least, rtol=1e-8)
    best, off = theory.yq_optimal_weights(task), make_params(1, 3, 2, 0.2)
    away = theory.squared_distance(off, best, task, w, w)
    np.testing.assert_allclose(risk(off, task, w), theory.yq_risk(task) + away, rtol=1e-8)
    for function in (theory.gd_risk, theory.optimal_step, theory.yq_risk, theory.optimal_risk):
        same = function(replace(task, query_cov=task.feature_cov if task.feature_cov is not None else np.eye(3)))
        assert same == pytest.approx(function(of_examples(task)), rel=1e-12)
    if not name.startswith("isotropic"):
        assert abs(step - theory.optimal_step(of_examples(task))) > 1e-3, "the control"


RISKS = {
    "population_risk": lambda task: theory.population_risk(make_params(0, 3, 2), task, make_guess(task), 0.3),
    "gd_risk": lambda task: theory.gd_risk(task, 0.4),
    "optimal_risk": lambda task: theory.optimal_risk(task, make_guess(task), 0.3),
    "lifted_risk": lambda task: theory.lifted_risk(task, make_guess(task), 0.3).constant,
    "least_risk": lambda task: theory.least_risk(task, 4, make_guess(task), 0.3).risk,
    "delta_rule_risk": lambda task: theory.delta_rule_risk(task, 0.1),
    "normalized": lambda task: theory.delta_rule_risk(replace(task, feature_cov=None), 0.5, normalized=True),
}


@pytest.mark.parametrize("name", RISKS)
def test_risks_are_linear_in_the_covariance_of_the_query(name, x64):
    """For known covariances and traced ones; so a mixture of queries has the mean of its risks."""
    task, other = TASKS["general, noisy"], make_task(9, 3, 1).feature_cov
    risk = lambda Q: RISKS[name](replace(task, query_cov=Q))
    slope = jax.jit(jax.grad(risk))(other)
    change = float(jnp.vdot(slope, TURNED - other))
    assert float(risk(TURNED) - risk(other)) == pytest.approx(change, rel=1e-9)
    assert abs(change) > 1e-3
    assert float(jax.vmap(risk)(np.stack([other, TURNED]))[1]) == pytest.approx(float(risk(TURNED)), rel=1e-9)


def test_the_best_guess_is_that_of_any_query_but_in_a_mixture(x64):
    """One task has the same best guess for all queries; a mixture of queries has one where the slope is zero."""
    params, task = make_params(0, 3, 2), TASKS["general, noisy"]
    np.testing.assert_allclose(
        theory.optimal_guess(params, replace(task, query_cov=TURNED)), theory.optimal_guess(params, task), rtol=1e-8
    )
    mixture = MixtureTask([replace(task, query_cov=TURNED), GaussianTask([3.0, 0.0, 1.0], 3, query_cov=LINE)])
    slope = jax.grad(lambda guess: theory.population_risk(params, mixture, guess))
    guess = theory.optimal_guess(params, mixture)
    assert np.abs(slope(guess)).max() < 1e-9
    plain = MixtureTask(list(map(of_examples, mixture.tasks)))
    assert np.abs(slope(theory.optimal_guess(params, plain))).max() > 1e-3, "the control"


def test_a_search_has_the_slope_of_its_minimum(x64):
    """By the covariance of the query, traced alone, against the minimum on both sides."""
    risk = lambda Q: theory.least_risk(replace(task, query_cov=Q), 1, [0.5, -1.0], 0.8, starts=8, steps=150).risk
    task, Q, step = make_task(5, 2, 3, 0.6), np.array([[3.0, -1.0], [-1.0, 0.5]]), 1e-3 * np.array([[1, 0.5], [0.5, 2]])
    slope = np.vdot(jax.jit(jax.grad(risk))(Q), step)
    assert slope == pytest.approx((risk(Q + step) - risk(Q - step)) / 2, rel=1e-4) and abs(slope) > 1e-4


@pytest.mark.parametrize(("context_size", "noise_std"), [(2, 0.0), (5, 0.6), (2, 0.6)])
def test_the_best_predictor(context_size, noise_std):
    """Bayes' estimator on samples; the control is the risk on queries like the examples."""
    task = GaussianTask([1.0, -1.0, 2.0], context_size, 2 * np.eye(3), 0.5 * np.eye(3), noise_std, TURNED)
    best = lambda X, y, x_q: estimators.bayes(X, y, x_q, task.prior_mean, task.prior_cov, noise_std)
    found = metrics.sampled_risk(KEY, task, best, batches=4, batch_size=2**14)
    assert abs(found.mean - theory.bayes_risk(task)) < 4.5 * found.standard_error
    assert abs(found.mean - theory.bayes_risk(of_examples(task))) > 9 * found.standard_error


HEADS = {
    "search": (
        GaussianTask([1.0, -2.0], 3, [[2, 0.5], [0.5, 1]], [[0.5, 0.2], [0.2, 1.5]], 0.6, [[3, -1], [-1, 0.5]]),
        1,
        0.8,
    ),
    "search, line": (replace(make_task(5, 2, 3), query_cov=[[1.0, 2.0], [2.0, 4.0]]), 1, 0.0),
    "formula": (GaussianTask([1.0, 2.0], 5, 2 * np.eye(2), 0.3 * np.eye(2), 0.7, 4 * np.eye(2)), 1, 0.8),
}


@pytest.mark.parametrize("name", HEADS)
def test_the_minimum_risk_of_few_heads(name, x64):
    """Descent over all weights ends where the search or the formula does; the control is the examples' query."""
    task, heads, bias = HEADS[name]
    guess = np.array([0.5, -1.0])
    least = theory.least_risk(task, heads, guess, bias, starts=16, steps=200)
    assert least.exact == (name == "formula") or least.risk == pytest.approx(theory.optimal_risk(task, guess, bias))
    np.testing.assert_allclose(theory.population_risk(least.params, task, guess, bias), least.risk, rtol=1e-9)
    standard = jax.tree.map(jnp.asarray, standardize(task))
    y_q = jnp.append(jnp.asarray(guess), bias)
    risk = lambda heads: theory.standard_risk(*theory.standard_form(*heads, y_q, y_q, standard), standard)
    keys = jax.random.split(KEY, 24)
    starts = jax.vmap(lambda key: (lambda W: (W[:, 0], W[:, 1:]))(jax.random.normal(key, (heads, 4, 3))))(keys)
    ends = jax.jit(jax.vmap(lambda start: minimize(risk, start, steps=400).value))(starts)
    np.testing.assert_allclose(least.risk, ends.min(), rtol=1e-7)
    own = theory.least_risk(of_examples(task), heads, guess, bias, starts=16, steps=200)
    assert theory.population_risk(own.params, task, guess, bias) > least.risk * (1 + 1e-5)


@pytest.mark.parametrize("name", ["general, noisy, turned", "plane"])
def test_samples_have_the_covariance_of_the_query(name):
    """And the risk that is stated; contexts are those of the task without a query's own."""
    task = OWN[name]
    batch = sample(KEY, task, 40_000, dtype=jnp.float32)
    products = np.einsum("bi,bj->bij", *2 * [np.asarray(batch.x_q, np.float64)])
    features = np.eye(3) if task.feature_cov is None else task.feature_cov
    assert largest_z(products, task.query_cov) < z_bound(9) < largest_z(products, features)
    X, y, x_q, _, w = of_examples(task).sample(KEY, 40_000, dtype=jnp.float32)
    for mine, theirs in zip((batch.X, batch.y, batch.w), (X, y, w), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert np.abs(batch.x_q - x_q).max() > 0.1
    params, guess = init(jax.random.key(1), 3, 2, 0.4), jnp.asarray([0.3, 0.1, -0.2])
    answer = jax.jit(jax.vmap(lambda X, y, x_q: predict(params, gram(X, y), x_q, guess @ x_q)))
    errors = (answer(batch.X, batch.y, batch.x_q) - batch.target) ** 2
    exact = [float(theory.population_risk(params, each, guess)) for each in (task, of_examples(task))]
    assert largest_z(errors, exact[0]) < z_bound(1) < largest_z(errors, exact[1])


def test_of_a_query_with_a_mean_the_second_moments_count():
    """The risk is that of S + m m^T for covariance S and mean m; the control is a guess with a bias."""
    task, mean = replace(TASKS["general, noisy"], query_cov=TURNED), np.array([1.0, -2.0, 0.5], np.float32)
    X, y, x_q, _, w = sample(KEY, task, 40_000, dtype=jnp.float32)
    x_q, params = x_q + mean[None], init(jax.random.key(1), 3, 2, 0.4)
    moments = replace(task, query_cov=TURNED + np.outer(mean, mean))
    answer = jax.jit(jax.vmap(lambda X, y, x_q, bias: predict(params, gram(X, y), x_q, bias), (0, 0, 0, None)))
    gaps = []
    for bias in (0.0, 2.0):
        errors = (answer(X, y, x_q, bias) - jnp.einsum("bd,bd->b", x_q, w)) ** 2
        gaps.append(largest_z(errors, float(theory.population_risk(params, moments, bias=bias))))
    assert gaps[0] < z_bound(1) < gaps[1]


def lsa(params, X, y, x_q):
    return predict(params, gram(X, y), x_q, 0.0)


def assert_close(a, b, rtol=2e-4):
    # A few operations of float32 in another order, amplified by the steps.
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol / 10), a, b)


@pytest.mark.parametrize("name", ["isotropic, line", "general, noisy, turned", "plane"])
def test_training_is_that_on_samples_of_the_task(name):
    """The fast program has the losses and weights of LSA as a layer on ``task.sample``; the exact risk its slope."""
    task, options = OWN[name], {"steps": 12, "batch_size": 32, "learning_rate": 1e-2}
    fast = fit(KEY, task, 2, init_scale=0.5, compress=False, **options)
    slow = fit(KEY, task, layer=lsa, init=lambda key, dim: init(key, dim, 2, 0.5), **options)
    assert_close((fast.params, fast.risk), (slow.params, slow.risk))
    settings = {"init_scale": 0.5, "optimizer": optax.adam(1e-2), "compress": False, "steps": 12, "batch_size": 32}
    assert_close(fit(KEY, task, 2, **settings).risk, fast.risk)
    plain = fit(KEY, of_examples(task), 2, init_scale=0.5, compress=False, **options)
    assert np.abs(np.asarray(plain.risk) / fast.risk - 1).min() > 1e-3, "the control"
    exact = fit(KEY, task, 2, init_scale=0.5, objective="population", snapshots=[0, 12], **options)
    for place, loss in ((0, exact.risk[0]), (1, exact.population_risk())):
        risk = theory.population_risk(exact.snapshot(place).params, task)
        np.testing.assert_allclose(loss, risk, rtol=1e-5)
    assert exact.risk[-1] < exact.risk[0]


def test_a_sweep_over_queries_is_kept_joined_and_resumed(tmp_path):
    """Padded contexts of several sizes and two queries train as alone; files and checkpoints know the query."""
    size = lambda C, Q: GaussianTask([2.0, -1.0, 0.5], C, query_cov=Q)
    runs = [Run(size(C, Q), 2, train_guess=True) for C in (2, 3, 4) for Q in (TURNED, None)]
    options, groups = {"steps": 8, "batch_size": 16, "compress": False, "snapshots": [4]}, []
    fits = sweep(KEY, runs, callback=lambda step, metrics: groups.append(metrics["runs"]), **options)
    assert groups == [[0, 2, 4], [1, 3, 5]]
    assert_close(fits[2], sweep(KEY, [runs[2]], **options)[0])
    assert np.abs(np.asarray(fits[2].risk) / fits[3].risk - 1).max() > 1e-2
    save(tmp_path / "fits.npz", merge([fits[0::2], fits[1::2]], runs))
    kept = load(tmp_path / "fits.npz")
    assert [each.run for each in kept] == runs and kept[2].population_risk() == fits[2].population_risk()
    assert kept[2].population_risk() != kept[2].population_risk(of_examples(kept[2].task))
    stored = options | {"checkpoint": tmp_path / "sweep"}
    sweep(KEY, runs, **stored | {"steps": 5})
    jax.tree.map(np.testing.assert_array_equal, sweep(KEY, runs, **stored), fits)
    with pytest.raises(ValueError, match="of a training with another runs"):
        sweep(KEY, [replace(run, task=replace(run.task, query_cov=LINE)) for run in runs], **stored)


def test_files_of_tasks_without_it_are_as_before(tmp_path):
    """Runs without it do not store it, so that what an earlier version wrote reads the same."""
    plain, own = (Run(GaussianTask([2.0], 4, query_cov=Q), 1) for Q in (None, [[2.0]]))
    assert "query_cov" not in plain.to_json() and own.to_json()["query_cov"] == [[2.0]]
    for run, other in ((plain, own), (own, plain)):
        Fit(gd_weights(jnp.ones(1), 0.5), jnp.ones(1), jnp.ones(3), run).save(tmp_path / "fit.npz")
        assert Fit.load(tmp_path / "fit.npz").run == run != other


def test_a_query_is_part_of_a_task():
    """Equality, hash and leaves; it is validated like the other covariances."""
    plain, own = GaussianTask([1.0, 2.0], 3), GaussianTask([1.0, 2.0], 3, query_cov=np.eye(2))
    assert own == GaussianTask([1, 2], 3, query_cov=np.eye(2)) != plain and hash(own) != hash(plain)
    assert own != GaussianTask([1.0, 2.0], 3, feature_cov=np.eye(2)) and "query_cov=array" in repr(own)
    leaves, structure = jax.tree.flatten(own)
    assert len(leaves) == 2 and structure.unflatten(leaves) == own and len(jax.tree.leaves(plain)) == 1
    for name, value in (("shape", np.eye(3)), ("semidefinite", -np.eye(2)), ("symmetric", [[1.0, 1.0], [0.0, 1.0]])):
        with pytest.raises(ValueError, match=f"query_cov must .*{name}"):
            GaussianTask([1.0, 2.0], 3, query_cov=value)


TWO, WIDER = GaussianTask([1.0, 2.0], 5, query_cov=[[2.0, 0.0], [0.0, 1.0]]), np.diag([2.0, 1.0])
FLAT = GaussianTask([1.0, 2.0], 5, feature_cov=[[1.0, 0.0], [0.0, 0.0]], query_cov=np.eye(2))
MULTIPLE, SAME = "must have a query_cov that is a multiple of its feature_cov", "a query_cov that is its feature_cov"
test_what_has_no_formula_is_refused = refusals(
    (lambda: theory.delta_rule_step(TWO), MULTIPLE),
    (lambda: theory.delta_rule_risk(TWO), MULTIPLE),
    (lambda: theory.delta_rule_step(TWO, schedule=True), MULTIPLE),
    (lambda: theory.depth_price(TWO, 2), MULTIPLE),
    (lambda: theory.depth_risk(TWO, 2), MULTIPLE),
    (lambda: theory.few_heads_weights(TWO, 1), "covariances that are multiples of the identity"),
    (lambda: theory.softmax_risk(GaussianTask([0.0], 5, query_cov=[[2.0]]), [0.1]), SAME),
    (lambda: theory.softmax_output(GaussianTask([0.0], 5, query_cov=[[2.0]]), [0.1]), SAME),
    (lambda: theory.bayes_risk(FLAT), "must have a positive definite feature_cov where it has a query_cov"),
    (lambda: theory.lifted_risk(MixtureTask([TWO, of_examples(TWO)])), "must have one query_cov"),
    (lambda: jax.jit(lambda Q: theory.delta_rule_step(replace(TWO, query_cov=Q)))(WIDER), "one that JAX traces"),
)


def test_a_multiple_of_the_examples_multiplies_the_risk():
    """Where only multiples are taken; the best step sizes stay."""
    task = make_task(3, 3, 4, noise_std=0.5)
    wider, quiet = replace(task, query_cov=4 * task.feature_cov), GaussianTask([1.0, 2.0], 5)
    assert theory.delta_rule_step(wider) == pytest.approx(theory.delta_rule_step(task), rel=1e-12)
    assert theory.delta_rule_risk(wider) == pytest.approx(4 * theory.delta_rule_risk(task), rel=1e-12)
    farther = replace(quiet, query_cov=4 * np.eye(2))
    assert theory.depth_price(farther, 2) == theory.depth_price(quiet, 2)
    assert theory.depth_risk(farther, 2) == pytest.approx(4 * theory.depth_risk(quiet, 2), rel=1e-12)
