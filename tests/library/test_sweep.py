"""``fit`` and ``sweep``: the letter of the paper, plain loops, common random numbers,
and what comes out.
"""

import inspect
from dataclasses import replace

import dense
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refusals
from theory_reference import GENERAL, largest_z, z_bound

from lsalib import attention
from lsalib.tasks import GaussianTask, sample, standardize
from lsalib.theory import population_risk
from lsalib.training import Run, fit, load, rows, save, sweep, train
from lsalib.training.objective import Data, GaussianSampler, attend, loss
from lsalib.training.sweeps import _constants

KEY = jax.random.key(5)
TASK = GaussianTask([2.0, -1.0, 0.5], context_size=3)
GUESS, BIAS = np.array([0.3, 0.1, -0.2]), 0.4


# as many tokens as a token has entries: they are not compressed
SHORT = replace(GENERAL, context_size=4)


def literal_loss(state, key):
    """Eq. 4 by eqs. 2-6 on the very tasks that training draws."""
    params, guess = state
    X, y, x_q, target, _ = sample(key, SHORT, 32)
    layer = lambda X, y, x_q: attention.lsa(
        params, attention.embed(X, y, x_q, guess @ x_q + BIAS)
    )
    return jnp.mean((jax.vmap(layer)(X, y, x_q) - target) ** 2)


def exact_loss(state, key):
    return population_risk(state[0], SHORT, state[1], BIAS)


def row_of(params, guess):
    return jnp.concatenate([jnp.ravel(leaf) for leaf in (*params, guess)])


@pytest.mark.parametrize("D", [4, 18])
def test_attention_by_the_gram_matrix_is_one_dense_sum(D, x64):
    """Written out, and as a product; the control is a transposed weight."""
    rng, H = np.random.default_rng(2), 3
    b, A, Z, t = map(rng.standard_normal, [(H, D), (H, D, D), (15, D, 6), (D, 6)])
    dense = np.einsum("hm,cmb,cnb,hnk,kb->b", b, Z, Z, A, t, optimize=True) / len(Z)
    assert_allclose(jax.jit(attend)(b, A, Z, t), dense, rtol=1e-10)
    assert not np.allclose(jax.jit(attend)(b, A.swapaxes(1, 2), Z, t), dense, rtol=1e-2)


def test_the_loss_of_compressed_contexts_is_unbiased(task=GENERAL):
    """The mean of many batches is the exact risk; another bias has another one."""
    params, guess = attention.init(jax.random.key(3), 3, 2, 0.4), jnp.float32(GUESS)
    standard = jax.tree.map(jnp.float32, standardize(task))
    sampler = GaussianSampler(500, None, True)
    data = Data(sampler, standard, jnp.float32(BIAS), jnp.float32(1))
    one = lambda key: loss(row_of(params, guess), data, key)
    values = jax.jit(lambda keys: jax.lax.map(one, keys))(jax.random.split(KEY, 400))
    exact, other = (
        population_risk(params, task, guess, bias) for bias in (BIAS, BIAS + 3)
    )
    assert largest_z(values, exact) < z_bound(1, 1e-4) < largest_z(values, other)


class Own:
    """A task of one's own, which draws what SHORT draws."""

    dim, sign = 3, 1.0

    def sample(self, key, n):
        batch = sample(key, SHORT, n)
        return batch._replace(target=self.sign * batch.target)


@pytest.mark.parametrize("objective", ["sampled", "population", "own task"])
def test_fit_is_a_training_with_adam(objective, x64):
    """Of the letter, with the keys that training derives; the control has another
    learning rate.
    """
    exact = objective == "population"
    start = lambda key: (attention.init(key, 3, 2, 0.3), jnp.asarray(GUESS))
    adam = {"optimizer": optax.adam(1e-2), "init": start, "steps": 12}
    plain = train(exact_loss if exact else literal_loss, None, KEY, **adam)
    options = {"steps": 12, "batch_size": 32, "init_scale": 0.3, "train_guess": True}
    options |= {"guess": GUESS, "bias": BIAS, "dtype": float}
    options |= {"objective": "population" if exact else "sampled"}
    task = Own() if objective == "own task" else SHORT
    end = fit(KEY, task, 2, learning_rate=1e-2, **options)
    assert_allclose(end.losses, plain.losses, rtol=1e-8)
    assert_allclose(
        row_of(end.params, end.guess), row_of(*plain.params), rtol=1e-6, atol=1e-8
    )
    if objective == "own task":
        task.sign = 3.0  # an attribute that its owner changes is never stale
    other = fit(KEY, task, 2, learning_rate=2e-2, **options)
    assert abs(np.asarray(other.losses)[-1] / plain.losses[-1] - 1) > 1e-3
    assert (other.losses[0] == end.losses[0]) == (objective != "own task")


NOISY = GaussianTask([1.0, 0.0, 0.0], context_size=6, noise_std=0.5)
RUNS = [
    Run(TASK, 2, train_guess=True, bias=2.0),
    Run(NOISY, 1, learning_rate=1e-2),
    Run(GaussianTask([1.0, 0.0, 0.0], 3), 3, guess=[1, 0.5, 0], learning_rate=1e-2),
    Run(GaussianTask([1.0, 0.0, 0.0], 9, noise_std=0.2), 1, init_scale=0.3),
]
OPTIONS = {"steps": 12, "batch_size": 16, "snapshots": [0, 5, 12]}
SEEDS = [0, 2, 5]  # none but the first is at its own place


@pytest.fixture(scope="module")
def swept():
    """The fits of a sweep, and what its callback saw."""
    seen = []
    callback = lambda step, metrics: seen.append((step, metrics))
    return sweep(KEY, RUNS, seeds=SEEDS, callback=callback, every=8, **OPTIONS), seen


def assert_near(mine, its, rtol=2e-4, atol=2e-6):
    """For trainings by different programs."""
    for leaf, expected in zip(*map(jax.tree.leaves, (mine, its)), strict=True):
        assert_allclose(leaf, expected, rtol, atol)


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
    for step, metrics in seen:
        mine = metrics["losses"].swapaxes(0, 1)
        for losses, place in zip(mine, metrics["runs"], strict=True):
            begin = {8: 0, 12: 8}[step]
            assert_array_equal(losses, fits[place].losses[:, begin:step])


def test_fit_is_a_sweep_of_one_run(swept, tmp_path, capsys):
    """Also of one with more heads, another guess, learning rate, scale or context size
    beside it; its snapshots too, and what happens on the way.
    """
    one, stops = swept[0][3].seed(0), []
    way = {"callback": lambda step, _: stops.append(step), "every": 5, "progress": True}
    way |= {"checkpoint": tmp_path, "init_scale": 0.3}
    end = fit(KEY, RUNS[3].task, 1, **OPTIONS | way)
    assert stops == [5, 10, 12] and "12/12" in capsys.readouterr().err
    assert [*tmp_path.rglob("state.npz")]
    assert_near((end.losses, end.snapshots), (one.losses, one.snapshots))
    assert not np.allclose(end.losses, swept[0][3].losses[1], rtol=1e-2)


def test_snapshots_begin_with_the_start_and_end_with_the_end(swept):
    """The first is the start, drawn from the seed's first key, and the last the end."""
    many, fixed, last = swept[0][0], swept[0][2], swept[0][3].seed(5)
    start, _ = jax.random.split(jax.random.fold_in(KEY, 5))
    # the second beside one of three heads
    for one, heads, scale in ((last, 1, 0.3), (many.seed(5), 2, 0.1)):
        drawn = attention.init(start, 3, heads, scale)
        assert_near(one.snapshot(0).params, drawn, rtol=1e-6, atol=0)
    jax.tree.map(assert_array_equal, many.snapshot(12)[:2], many[:2])
    # A guess moves only where it is trained.
    assert_array_equal(fixed.guess, 3 * [[1, 0.5, 0]])
    assert np.all(many.guess != 0)
    # The middle one is the end of a shorter training.
    short = sweep(KEY, [RUNS[3]], seeds=[5], **OPTIONS | {"steps": 5, "snapshots": []})
    middle = last.snapshot(5).params
    assert_near(middle, short[0].seed(5).params)
    assert not np.allclose(middle.W_K, last.params.W_K, rtol=1e-3)


def test_a_fit_predicts_and_has_the_risk_of_its_weights_and_guess(swept, unchecked):
    """By the whole layer in NumPy, for all seeds at once and for one."""
    trained = swept[0][0]
    X, y, x_q = np.array([[1, 2, 0], [0, 1, 1]]), [1, -1], np.array([1.0, 0.5, 2])
    one = jax.tree.map(np.float64, trained.seed(2))
    expected = dense.predict(one.params, X, y, x_q, one.guess @ x_q + 2.0)
    assert_allclose(trained.predict(X, y, x_q)[1], expected, rtol=1e-5)
    assert_allclose(one.predict(X, y, x_q), expected, rtol=1e-5)
    with pytest.raises(ValueError, match=r"x_q must have shape \(3,\), got"):
        one.predict(X[:, :2], y, x_q[:2])
    risk = population_risk(one.params, TASK, one.guess, 2.0)
    assert_allclose(trained.population_risk()[1], risk, rtol=1e-5)
    assert abs(population_risk(one.params, TASK, None, 2.0) - risk) > 1e-3, (
        "the control forgets the guess"
    )


def test_seeds_and_steps_have_names(swept, tmp_path):
    """By the numbers that they were given as; others are refused, and other files."""
    fit, losses = swept[0][1], swept[0][1].losses
    for place, seed in enumerate(SEEDS):
        assert_array_equal(fit.seed(seed).losses, losses[place])
    for wrong in (1, 3, -1, 100):
        with pytest.raises(ValueError, match=f"seed must .* 0, 2, 5, got {wrong}"):
            fit.seed(wrong)
    with pytest.raises(ValueError, match="step must be one of 0, 5, 12, got 1"):
        fit.snapshot(1)
    np.savez(tmp_path / "other.npz", X=losses)
    with pytest.raises(ValueError, match=r"path must be a file that .* holds X"):
        load(tmp_path / "other.npz")
    (other,) = sweep(KEY, RUNS[1:2], **OPTIONS)
    with pytest.raises(ValueError, match=r"seeds \[\(1, 3, \(0, 2, 5\)\)\], got .*0,"):
        sweep(KEY, RUNS[1:2], seeds=SEEDS, start_from=[other], **OPTIONS)


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
    stops, key = [], jax.random.key(9)
    callback = lambda step, metrics: stops.append(step)
    after = {"start_from": [half, *other], "callback": callback, "every": 3}
    rest = sweep(key, runs, steps=4, **how, **after)[0]
    assert_allclose(rest.losses, whole.losses[:, 4:], rtol=1e-5)
    assert_near(rest[:2], whole[:2], rtol=1e-4, atol=1e-6)
    assert (rest.opt_state[0] == 8).all() and stops == [3, 4]
    one, options = half.seed(2), {"steps": 4, "objective": "population"}
    options |= {"guess": half.seed(2).guess, "train_guess": True}
    options |= {"bias": 2.0, "learning_rate": 1e-2}
    fresh = one._replace(opt_state=jax.tree.map(jnp.zeros_like, one.opt_state))
    warm, cold = (fit(key, TASK, 2, start_from=f, **options) for f in (one, fresh))
    assert_allclose(warm.losses, rest.losses[1], rtol=1e-5)
    assert not np.allclose(cold.losses[1:], warm.losses[1:], rtol=1e-6)


def test_what_is_saved_is_what_was_trained(swept, tmp_path):
    """Arrays and settings come back bit for bit; the run of another fit does not."""
    first = swept[0][0]
    fits = [*swept[0], first.seed(2), first.snapshot(5)]
    save(tmp_path / "fits.npz", fits)
    back = load(tmp_path / "fits.npz")
    for mine, its in zip(back, fits, strict=True):
        jax.tree.map(assert_array_equal, mine[:3], its[:3])
        jax.tree.map(assert_array_equal, mine.snapshots, its.snapshots)
        assert repr(mine.run) == repr(its.run) and (mine.seeds, mine.steps) == (
            its.seeds,
            its.steps,
        )
    assert repr(back[0].run) != repr(back[1].run)


def test_a_run_that_diverges_leaves_the_others_as_they_are(swept):
    """A warning names it, and its losses are NaN from there; alone it is an error."""
    with pytest.warns(RuntimeWarning, match="not finite for run 1, seed 0 at step "):
        good, bad = sweep(KEY, [RUNS[0], Run(TASK, 2, learning_rate=1e25)], **OPTIONS)
    assert_allclose(good.losses[0], swept[0][0].losses[0], rtol=2e-4)
    first = np.isnan(bad.losses[0]).argmax()
    assert 0 < first < 12
    assert_array_equal(np.isnan(bad.losses[0]), np.arange(12) >= first)
    with pytest.raises(FloatingPointError, match=f"at step {first}"):
        fit(KEY, TASK, 2, learning_rate=1e25, **OPTIONS)


class Crooked(Own):
    def sample(self, key, n):
        batch = super().sample(key, n)
        return batch._replace(target=batch.target[:, None])


test_what_cannot_be_right_is_refused = refusals(
    ("learning_rate must be .* greater than 0", lambda: Run(TASK, 1, learning_rate=0)),
    ("fits must be a list of at least one Fit", save, "fits.npz", []),
    ('objective must be "sampled"', lambda: fit(KEY, Own(), 1, objective="population")),
    (
        r"the target of the task's sample must have shape \(4,\)",
        lambda: fit(KEY, Crooked(), 1, steps=1, batch_size=4),
    ),
)


def test_a_run_has_the_paper_s_values_by_default():
    """Appendix C.1, Table 1."""
    paper = {"steps": 5000, "batch_size": 2048, "learning_rate": 5e-4}
    for function, names in ((sweep, [*paper][:2]), (Run, [*paper][2:]), (fit, paper)):
        given = inspect.signature(function).parameters
        assert all(given[name].default == paper[name] for name in names)
