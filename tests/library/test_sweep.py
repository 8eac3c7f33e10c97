"""``fit`` and ``sweep``: the letter of the paper, plain loops, common random numbers,
and what comes out.
"""

import inspect
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from refusals import refusals
from theory_reference import GENERAL, largest_z, z_bound

from lsalib import attention, tasks, theory
from lsalib._draw import draw
from lsalib.training import Fit, Run, fit, load, rows, save, sweep
from lsalib.training.objective import Data, GaussianSampler, attend, loss
from lsalib.training.sweeps import _constants

KEY = jax.random.key(5)
TASK = tasks.GaussianTask([2.0, -1.0, 0.5], context_size=3)
GUESS, BIAS = np.array([0.3, 0.1, -0.2]), 0.4


def literal_loss(params, guess, bias, key, task, batch_size):
    """Eq. 4 by eqs. 2-6 on the very tasks that training draws."""
    tokens, query, weights = draw(
        key, 3, task.context_size, batch_size, noisy=True, compress=False, dtype=float
    )
    L, R = np.linalg.cholesky(task.feature_cov), np.linalg.cholesky(task.prior_cov)
    X, x_q = jnp.einsum("ij,cjb->bci", L, tokens[:, :3]), (L @ query).T
    w = (task.prior_mean[:, None] + R @ weights).T
    y = jnp.einsum("bcd,bd->bc", X, w) + task.noise_std * tokens[:, -1].T
    layer = lambda X, y, x_q: attention.lsa(
        params, attention.embed(X, y, x_q, guess @ x_q + bias)
    )
    return jnp.mean((jax.vmap(layer)(X, y, x_q) - jnp.einsum("bd,bd->b", x_q, w)) ** 2)


def row_of(params, guess):
    return jnp.concatenate([jnp.ravel(leaf) for leaf in (*params, guess)])


@pytest.mark.parametrize("D", [4, 18])
def test_attention_by_the_gram_matrix_is_one_dense_sum(D, x64):
    """Written out, and as a product; the control is a transposed weight."""
    rng, H = np.random.default_rng(2), 3
    b, A, Z, t = map(rng.standard_normal, [(H, D), (H, D, D), (15, D, 6), (D, 6)])
    dense = np.einsum("hm,cmb,cnb,hnk,kb->b", b, Z, Z, A, t, optimize=True) / len(Z)
    np.testing.assert_allclose(jax.jit(attend)(b, A, Z, t), dense, rtol=1e-10)
    assert not np.allclose(jax.jit(attend)(b, A.swapaxes(1, 2), Z, t), dense, rtol=1e-2)


def test_the_loss_of_compressed_contexts_is_unbiased(task=GENERAL):
    """The mean of many batches is the exact risk, and that of their gradients the exact
    gradient.
    """
    params, guess = attention.init(jax.random.key(3), 3, 2, 0.4), jnp.float32(GUESS)
    standard = jax.tree.map(jnp.float32, tasks.standardize(task))
    sampler = GaussianSampler(500, None, True)
    data = Data(sampler, standard, jnp.float32(BIAS), jnp.float32(1))
    one = lambda key: jax.value_and_grad(loss)(row_of(params, guess), data, key)
    keys = jax.random.split(KEY, 400)
    values, gradients = jax.jit(lambda keys: jax.lax.map(one, keys))(keys)
    risk = lambda params, guess: theory.population_risk(params, task, guess, BIAS)
    exact = jax.jit(jax.value_and_grad(risk, (0, 1)))
    expected, slopes = exact(params, guess)
    biased = theory.population_risk(params, task, GUESS, BIAS + 3)
    assert (
        largest_z(values, float(expected))
        < z_bound(1, 1e-4)
        < largest_z(values, float(biased))
    )
    mean = np.asarray(row_of(*slopes))
    moves = mean != 0  # the rows of W_P that nothing reads do not
    assert not np.asarray(gradients)[:, ~moves].any()
    gradients, mean = np.asarray(gradients)[:, moves], mean[moves]
    assert (
        largest_z(gradients, mean)
        < z_bound(mean.size, 1e-4)
        < largest_z(gradients, -mean)
    )


# as many tokens as a token has entries: they are not compressed
SHORT = replace(GENERAL, context_size=4)


class Own:
    """A task of one's own, which draws what SHORT draws."""

    dim, sign = 3, 1.0

    def sample(self, key, n):
        batch = tasks.sample(key, SHORT, n)
        return batch._replace(target=self.sign * batch.target)


@pytest.mark.parametrize("objective", ["sampled", "population", "own task"])
def test_fit_is_a_plain_loop_with_adam(objective, x64):
    """Steps by optax on the letter, with the keys that fit derives; the control has
    another learning rate.
    """
    steps, losses = 12, []
    key_init, key_data = jax.random.split(jax.random.fold_in(KEY, 0))
    state = attention.init(key_init, 3, 2, 0.3), jnp.asarray(GUESS)
    optimizer = optax.adam(1e-2)
    opt_state = jax.jit(optimizer.init)(state)
    exact = lambda state, key: theory.population_risk(state[0], SHORT, state[1], BIAS)
    loss_of = (
        exact
        if objective == "population"
        else lambda state, key: literal_loss(*state, BIAS, key, SHORT, 32)
    )

    @jax.jit
    def advance(step, state, opt_state):
        loss, gradient = jax.value_and_grad(loss_of)(
            state, jax.random.fold_in(key_data, step)
        )
        with jax.numpy_dtype_promotion("standard"):
            updates, opt_state = optimizer.update(gradient, opt_state)
        return optax.apply_updates(state, updates), opt_state, loss

    for step in range(steps):
        state, opt_state, loss = advance(step, state, opt_state)
        losses.append(float(loss))
    options = {
        "steps": steps,
        "batch_size": 32,
        "init_scale": 0.3,
        "guess": GUESS,
        "bias": BIAS,
        "dtype": float,
    }
    options |= {
        "train_guess": True,
        "objective": "population" if objective == "population" else "sampled",
    }
    task = Own() if objective == "own task" else SHORT
    end = fit(KEY, task, 2, learning_rate=1e-2, **options)
    np.testing.assert_allclose(end.losses, losses, rtol=1e-8)
    np.testing.assert_allclose(
        row_of(end.params, end.guess), row_of(*state), rtol=1e-6, atol=1e-8
    )
    if objective == "own task":
        task.sign = 3.0  # an attribute that its owner changes is never stale
    other = fit(KEY, task, 2, learning_rate=2e-2, **options)
    assert abs(np.asarray(other.losses)[-1] / losses[-1] - 1) > 1e-3
    assert (other.losses[0] == end.losses[0]) == (objective != "own task")


NOISY = tasks.GaussianTask([1.0, 0.0, 0.0], context_size=6, noise_std=0.5)
RUNS = [
    Run(TASK, 2, train_guess=True, bias=2.0),
    Run(NOISY, 1, learning_rate=1e-2),
    Run(
        tasks.GaussianTask([1.0, 0.0, 0.0], 3), 3, guess=[1, 0.5, 0], learning_rate=1e-2
    ),
    Run(tasks.GaussianTask([1.0, 0.0, 0.0], 9, noise_std=0.2), 1, init_scale=0.3),
]
OPTIONS = {"steps": 12, "batch_size": 16, "snapshots": [0, 5, 12]}
SEEDS = [0, 2, 5]  # none but the first is at its own place


@pytest.fixture(scope="module")
def swept():
    """The fits of a sweep, and what its callback saw."""
    seen = []
    callback = lambda step, metrics: seen.append((step, metrics))
    return sweep(KEY, RUNS, seeds=SEEDS, callback=callback, every=8, **OPTIONS), seen


def test_a_run_among_others_is_what_fit_gives(swept):
    """Also with more heads beside it, another guess, learning rate, scale or context
    size; another seed differs.
    """
    (alone,), together = sweep(KEY, [RUNS[3]], seeds=[2], **OPTIONS), swept[0][3]
    for mine, its in zip(
        *map(jax.tree.leaves, (alone.seed(2), together.seed(2))), strict=True
    ):
        np.testing.assert_allclose(mine, its, rtol=2e-4, atol=2e-6)
    assert not np.allclose(alone.losses[0], together.losses[0], rtol=1e-2)


def test_short_contexts_are_not_compressed():
    """A batch keeps the tokens of a context, up to as many as a token has entries: four
    with label noise.
    """
    runs = [Run(replace(GENERAL, context_size=C, noise_std=0.5), 1) for C in (4, 5)]
    samplers = [_constants(run, 16).sampler for run in runs]
    assert samplers == [(16, 4, True), (16, None, True)]


def test_a_callback_gets_every_run_once(swept):
    """Runs that share a program come together, and all their losses come once."""
    fits, seen = swept
    assert [(step, metrics["runs"]) for step, metrics in seen] == [
        (s, r) for r in ([0, 2], [1, 3]) for s in (8, 12)
    ]
    for metrics, later in ((seen[0][1], seen[1][1]), (seen[2][1], seen[3][1])):
        losses = np.concatenate([metrics["losses"], later["losses"]], axis=2)
        for r, place in enumerate(metrics["runs"]):
            np.testing.assert_array_equal(losses[:, r], fits[place].losses)


def test_fit_is_a_sweep_of_one_run(swept, tmp_path, capsys):
    """Also its snapshots, and what happens on the way."""
    one, near = swept[0][1].seed(0), {"rtol": 2e-4, "atol": 2e-6}
    stops = []
    way = {"callback": lambda step, _: stops.append(step), "every": 5, "progress": True}
    end = fit(KEY, NOISY, 1, learning_rate=1e-2, checkpoint=tmp_path, **OPTIONS | way)
    assert stops == [5, 10, 12] and "12/12" in capsys.readouterr().err
    assert [*tmp_path.rglob("state.npz")]
    np.testing.assert_allclose(end.losses, one.losses, **near)
    mine, its = (each.snapshot(5).params.W_K for each in (end, one))
    np.testing.assert_allclose(mine, its, **near)


def test_snapshots_begin_with_the_start_and_end_with_the_end(swept):
    """The first is the start, drawn from the seed's first key, and the last the end."""
    last = swept[0][3].seed(5)
    start, _ = jax.random.split(jax.random.fold_in(KEY, 5))
    # the second beside one of three heads
    for one, heads, scale in ((last, 1, 0.3), (swept[0][0].seed(5), 2, 0.1)):
        for mine, drawn in zip(
            one.snapshot(0).params, attention.init(start, 3, heads, scale), strict=True
        ):
            np.testing.assert_allclose(mine, drawn, rtol=1e-6)
    np.testing.assert_array_equal(last.snapshot(12).params.W_K, last.params.W_K)
    # A guess moves only where it is trained.
    np.testing.assert_array_equal(swept[0][2].guess, 3 * [[1, 0.5, 0]])
    assert np.all(swept[0][0].guess != 0)
    assert (
        swept[0][0].snapshot(5).guess.shape == (3, 3)
        and last.snapshot(5).snapshots is None
    )
    # The middle one is the end of a shorter training.
    short = sweep(KEY, [RUNS[3]], seeds=[5], **OPTIONS | {"steps": 5, "snapshots": []})
    middle = last.snapshot(5).params.W_K
    np.testing.assert_allclose(middle, short[0].params.W_K[0], rtol=2e-4, atol=2e-6)
    assert not np.allclose(middle, last.params.W_K, rtol=1e-3)


def test_a_fit_predicts_and_has_the_risk_of_its_weights_and_guess(swept, unchecked):
    """By the whole layer in NumPy, for all seeds at once and for one."""
    trained = swept[0][0]
    X, y, x_q = [[1, 2, 0], [0, 1, 1]], [1, -1], [1.0, 0.5, 2]
    one = jax.tree.map(np.float64, trained.seed(2))
    G = np.column_stack([X, y]).T @ np.column_stack([X, y]) / 2
    z_q = np.append(x_q, one.guess @ x_q + 2.0)
    expected = z_q[-1] + sum(
        P[-1] @ V @ G @ K.T @ Q @ z_q for K, Q, P, V in zip(*one.params, strict=True)
    )
    np.testing.assert_allclose(trained.predict(X, y, x_q)[1], expected, rtol=1e-5)
    np.testing.assert_allclose(one.predict(X, y, x_q), expected, rtol=1e-5)
    with pytest.raises(
        ValueError, match=r"x_q must have shape \(3,\), got shape \(2,\)"
    ):
        one.predict(np.ones((2, 2)), y, [1.0, 1.0])
    risk = theory.population_risk(one.params, TASK, one.guess, 2.0)
    np.testing.assert_allclose(trained.population_risk()[1], risk, rtol=1e-5)
    assert abs(theory.population_risk(one.params, TASK, None, 2.0) - risk) > 1e-3, (
        "the control forgets the guess"
    )


def test_seeds_and_steps_have_names(swept, tmp_path):
    """By the numbers that they were given as, also after a file; others are refused."""
    fit, losses = swept[0][1], swept[0][1].losses
    save(tmp_path / "fits.npz", [fit])
    for one in (fit, *load(tmp_path / "fits.npz")):
        for place, seed in enumerate(SEEDS):
            np.testing.assert_array_equal(one.seed(seed).losses, losses[place])
        for wrong in (1, 3, -1, 100):
            with pytest.raises(
                ValueError, match=f"seed must be one of 0, 2, 5, got {wrong}"
            ):
                one.seed(wrong)
        with pytest.raises(ValueError, match="step must be one of 0, 5, 12, got 1"):
            one.snapshot(1)
    np.savez(tmp_path / "other.npz", X=losses)
    with pytest.raises(ValueError, match=r"path must be a file that .* holds X"):
        load(tmp_path / "other.npz")
    (other,) = sweep(KEY, RUNS[1:2], **OPTIONS)
    with pytest.raises(ValueError, match=r"seeds \[\(1, 3, \(0, 2, 5\)\)\], got .*0,"):
        sweep(KEY, RUNS[1:2], seeds=SEEDS, start_from=[other], **OPTIONS)
    assert repr(fit).startswith("Fit(heads=1, dim=3, seeds=(0, 2, 5), steps=12, last")
    assert "seeds=None" in repr(fit.seed(2)) and len(repr(fit)) < 120


def test_rows_of_a_table(swept):
    """One for each run and seed, with the numbers that were given and came out."""
    table = rows(swept[0])
    assert [row["seed"] for row in table] == SEEDS * len(RUNS)
    row, fit = table[4], swept[0][1].seed(2)
    assert (row["heads"], row["learning_rate"], row["context_size"]) == (1, 1e-2, 6)
    assert row["noise_std"] == 0.5 and row["loss"] == fit.losses[-1]
    assert row["risk"] == pytest.approx(fit.population_risk(), rel=1e-6)
    assert table[0]["risk"] != table[1]["risk"]


def test_a_curriculum_is_two_calls(swept):
    """Eight steps on the exact risk are four and four, if weights, guess, Adam's state
    go on; without the state they are not. Runs beside it and seeds change nothing.
    """
    runs = [replace(RUNS[0], learning_rate=1e-2), Run(TASK, 3)]
    how = {"seeds": SEEDS, "objective": "population"}
    whole, half = (sweep(KEY, runs, steps=n, **how)[0] for n in (8, 4))
    other = sweep(KEY, runs[1:], steps=4, **how)
    seen, key = [], jax.random.key(9)
    callback = lambda step, metrics: seen.append((step, metrics["losses"][:, 0]))
    after = {"start_from": [half, *other], "callback": callback, "every": 3}
    rest = sweep(key, runs, steps=4, **how, **after)[0]
    np.testing.assert_allclose(rest.losses, whole.losses[:, 4:], rtol=1e-5)
    for mine, its in zip(*map(jax.tree.leaves, (rest[:2], whole[:2])), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-4, atol=1e-6)
    assert (rest.opt_state[0] == 8).all() and [step for step, _ in seen] == [3, 4]
    told = np.concatenate([losses for _, losses in seen], axis=1)
    np.testing.assert_array_equal(told, rest.losses)
    one = half.seed(2)
    options = {"guess": one.guess, "bias": 2.0, "train_guess": True, "steps": 4}
    options |= {"learning_rate": 1e-2, "objective": "population"}
    warm = fit(key, TASK, 2, start_from=one, **options)
    np.testing.assert_allclose(warm.losses, rest.losses[1], rtol=1e-5)
    fresh = jax.tree.map(jnp.zeros_like, one.opt_state)
    cold = fit(key, TASK, 2, start_from=one._replace(opt_state=fresh), **options)
    assert not np.allclose(cold.losses[1:], warm.losses[1:], rtol=1e-6)


def test_what_is_saved_is_what_was_trained(swept, tmp_path):
    """Arrays and settings come back bit for bit; the run of another fit does not."""
    first = swept[0][0]
    fits = [*swept[0], first.seed(2), first.snapshot(5)]
    save(tmp_path / "fits.npz", fits)
    back = load(tmp_path / "fits.npz")
    for mine, its in zip(back, fits, strict=True):
        jax.tree.map(np.testing.assert_array_equal, mine[:3], its[:3])
        jax.tree.map(np.testing.assert_array_equal, mine.snapshots, its.snapshots)
        assert repr(mine.run) == repr(its.run) and mine.seeds == its.seeds
    assert repr(back[0].run) != repr(back[1].run) and isinstance(back[0], Fit)


def test_a_run_that_diverges_leaves_the_others_as_they_are(swept):
    """A warning names it, and its losses are NaN from there; alone it is an error."""
    with pytest.warns(RuntimeWarning, match="not finite for run 1, seed 0 at step "):
        good, bad = sweep(KEY, [RUNS[0], Run(TASK, 2, learning_rate=1e25)], **OPTIONS)
    np.testing.assert_allclose(good.losses[0], swept[0][0].losses[0], rtol=2e-4)
    first = np.isnan(bad.losses[0]).argmax()
    assert (
        0 < first < 12
        and np.isnan(bad.losses[0, first:]).all()
        and np.isfinite(bad.losses[0, :first]).all()
    )
    with pytest.raises(FloatingPointError, match=f"at step {first}"):
        fit(KEY, TASK, 2, learning_rate=1e25, **OPTIONS)


class Crooked(Own):
    def sample(self, key, n):
        batch = super().sample(key, n)
        return batch._replace(target=batch.target[:, None])


test_what_cannot_be_right_is_refused = refusals(
    (
        lambda: Run(TASK, 1, guess=[1.0]),
        r"guess must have shape \(3,\), got shape \(1,\)",
    ),
    (
        lambda: Run(TASK, 1, learning_rate=0),
        "learning_rate must be a finite number greater than 0, got 0",
    ),
    (
        lambda: sweep(KEY, RUNS[0]),
        r"runs must be a list of at least one Run, got Run\(",
    ),
    (lambda: save("fits.npz", []), "fits must be a list of at least one Fit"),
    (lambda: fit(KEY, Own(), 1, objective="population"), 'objective must be "sampled"'),
    (lambda: fit(KEY, TASK, 1, dtype="x"), "dtype must be one of float32, got 'x'"),
    (
        lambda: fit(KEY, Crooked(), 1, steps=1, batch_size=4),
        r"the target of the task's sample must have shape \(4,\)",
    ),
)


def test_a_run_has_the_paper_s_values_by_default():
    """Appendix C.1, Table 1."""
    for function, paper in (
        (sweep, {"steps": 5000, "batch_size": 2048}),
        (Run, {"learning_rate": 5e-4}),
        (fit, {"steps": 5000, "batch_size": 2048, "learning_rate": 5e-4}),
    ):
        given = inspect.signature(function).parameters
        assert {name: given[name].default for name in paper} == paper
