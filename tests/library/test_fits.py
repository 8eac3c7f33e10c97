"""What a training leaves: fits that are kept, compared, tested on other tasks, and trained on."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refusals

from lsalib import attention, metrics, theory
from lsalib.mixtures import MixtureTask
from lsalib.tasks import GaussianTask
from lsalib.training import Fit, Run, Snapshots, fit, load, merge, save, sweep

KEY = jax.random.key(0)
TASK = GaussianTask([2.0, -1.0], context_size=4)
OPTIONS = {"steps": 12, "batch_size": 32}
GENERAL = GaussianTask([2.0, -1.0], 9, [[1.0, 0.4], [0.4, 2.0]], [[2.0, 0.0], [0.0, 0.3]], noise_std=0.5)
RUNS = [Run(TASK, 2, train_guess=True, bias=2.0), Run(GENERAL, 3, guess=[1.0, 0.5]), Run(TASK, 1, learning_rate=1e-2)]


@pytest.fixture(scope="module")
def fits():
    return sweep(KEY, RUNS, seeds=3, snapshots=[0, 5, 12], **OPTIONS)


def assert_equal(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_what_is_saved_is_what_was_trained(fits, tmp_path):
    """All fits of a sweep, or one of them, come back bit for bit; another seed is seen."""
    save(tmp_path / "new" / "all.npz", fits)
    assert_equal(load(tmp_path / "new" / "all.npz"), fits)
    one = fits[1].seed(2)
    one.save(tmp_path / "one.npz")
    assert_equal(Fit.load(tmp_path / "one.npz"), one)
    x = jnp.ones((4, 2)), jnp.ones(4), jnp.ones(2)
    assert float(Fit.load(tmp_path / "one.npz").predict(*x)) == float(one.predict(*x))
    # The control: the numbers of another seed are seen.
    with pytest.raises(AssertionError):
        assert_equal(Fit.load(tmp_path / "one.npz"), fits[1].seed(1))


def test_double_precision_outlives_a_session_without_it(tmp_path):
    """Weights in float64 are read as float64."""
    with jax.enable_x64(True):
        double = fit(KEY, TASK, 1, dtype=jnp.float64, **OPTIONS)
        double.save(tmp_path / "a.npz")
        params = jax.tree.map(np.asarray, double.params)
    assert_equal(Fit.load(tmp_path / "a.npz").params, params)


def test_other_and_damaged_files_are_refused(fits, tmp_path):
    """By the path and what it should be; a file of several fits says how to read it."""
    save(tmp_path / "all.npz", fits)
    whole = (tmp_path / "all.npz").read_bytes()
    for name, content in {"empty": b"", "text": b"something else", "half": whole[:-200]}.items():
        (tmp_path / name).write_bytes(content)
    np.savez(tmp_path / "arrays.npz", a=np.ones(2))
    for name in ("empty", "text", "half", "arrays.npz", "missing.npz", ""):
        with pytest.raises(ValueError, match=rf"path must be a file that save wrote, got .*{name}"):
            load(tmp_path / name)
    with pytest.raises(ValueError, match=r"with 3: use training\.load"):
        Fit.load(tmp_path / "all.npz")


def test_jobs_that_share_the_runs_give_the_sweep(fits, tmp_path):
    """Each knows only its part, and saves it; what is merged is the whole, up to the order of sums."""
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    for jobs in (1, 2, 3):
        for i in range(jobs):
            save(tmp_path / f"{i}.npz", sweep(KEY, RUNS[i::jobs], seeds=3, snapshots=[0, 5, 12], **OPTIONS))
        parts = [load(tmp_path / f"{i}.npz") for i in range(jobs)]
        merged = merge((part for part in parts), (run for run in RUNS))
        assert [each.run for each in merged] == RUNS
        jax.tree.map(close, merged, fits)
        with pytest.raises(ValueError, match="runs must be those that were trained, got 2 for 3 fits"):
            merge(parts, RUNS[:2])
        if jobs == 2:
            with pytest.raises(ValueError, match=r"in the order of their i, got \[1, 2\] fits"):
                merge(parts[::-1])
    with pytest.raises(ValueError, match="run 0 is another one than the merged fit's"):
        merge(parts[::-1], RUNS)


MODES = MixtureTask([TASK, GaussianTask([-2.0, 1.0], context_size=4)], [0.25, 0.75])


def test_mixtures_are_equal_by_value():
    """So are runs on them: results on a mixture are merged for the same one made again, not for another."""
    again = lambda weights, mode=-2.0: MixtureTask([TASK, GaussianTask([mode, 1.0], context_size=4)], weights)
    same = again(np.array([0.25, 0.75]))
    assert same == MODES and hash(same) == hash(MODES) and jax.tree.map(lambda leaf: leaf, MODES) == MODES
    others = [again([0.75, 0.25]), again([0.25, 0.75], -3.0), MixtureTask([TASK]), TASK]
    assert all(other != MODES for other in others)
    trained = fit(KEY, MODES, 1, steps=3, batch_size=8)
    assert merge([[trained]], [Run(same, 1)]) == [trained]
    with pytest.raises(ValueError, match="run 0 is another one than the merged fit's"):
        merge([[trained]], [Run(others[1], 1)])
    assert jax.jit(lambda task: task == task)(MODES) and jax.vmap(lambda w: again(w).weights[0])(np.eye(2)).shape == (
        2,
    )


def test_a_file_knows_the_mixture_of_its_runs(tmp_path):
    """Another mixture has another risk for the same weights, and is refused."""
    trained = fit(KEY, MODES, 1, steps=3, batch_size=8)
    trained.save(tmp_path / "fit.npz")
    assert Fit.load(tmp_path / "fit.npz", Run(MODES, 1)).population_risk() == trained.population_risk()
    other = MixtureTask([TASK, GaussianTask([-20.0, 1.0], context_size=4)], [0.25, 0.75])
    assert trained.population_risk(other) > 2 * trained.population_risk()
    with pytest.raises(ValueError, match="got another run for fit 0"):
        Fit.load(tmp_path / "fit.npz", Run(other, 1))


def test_equal_runs_are_equal_and_others_are_not(unchecked):
    """Whatever types its numbers came in, a run equals another with the same values, and no other."""
    same = Run(GaussianTask(np.int64([2, -1]), 4), np.int64(2), guess=[0, 0], bias=0, train_guess=np.bool_(False))
    plain = Run(TASK, 2)
    assert same == plain and hash(same) == hash(plain) and len({same, plain}) == 1
    params = fit(KEY, TASK, 2, **OPTIONS).params
    changed = [{"heads": 3}, {"bias": 0.1}, {"guess": [1.0, 0.0]}, {"train_guess": True}, {"init_scale": 0.2}]
    changed += [{"learning_rate": 1e-3}, {"start": params}, {"task": GENERAL}]
    others = [Run(**{"task": TASK, "heads": 2} | change) for change in changed]
    assert all(other != plain for other in [*others, "a run"])
    assert Run(TASK, 2, start=params) == Run(TASK, 2, start=jax.tree.map(jnp.array, params))


def test_the_risk_is_that_of_the_weights_with_their_guess(fits):
    """On the run's task and on another, for all seeds at once and for one; samples tell it from a forgotten guess."""
    for each, task in product(fits, (None, GaussianTask([0.0, 3.0], 7, noise_std=0.2))):
        risks = each.population_risk(task)
        for place in range(3):
            one = each.seed(place)
            alone = theory.population_risk(one.params, task or one.task, one.guess, one.bias)
            np.testing.assert_allclose([one.population_risk(task), risks[place]], float(alone), rtol=1e-5)
    one = fits[0].seed(0)
    sampled = metrics.sampled_risk(KEY, one.task, one.predict, batches=4, batch_size=2**14)
    assert abs(sampled.mean - one.population_risk()) < 5 * sampled.standard_error
    forgotten = float(theory.population_risk(one.params, one.task))
    assert abs(sampled.mean - forgotten) > 5 * sampled.standard_error, "the control: without bias and guess"


def test_a_layer_trained_on_a_mixture_has_an_exact_risk():
    """That of its weights and its guess, averaged over the components; one component alone has another."""
    trained = fit(KEY, MODES, 1, guess=[1.0, 0.5], steps=3, batch_size=8)
    each = [float(theory.population_risk(trained.params, task, trained.guess)) for task in MODES.tasks]
    assert trained.population_risk() == pytest.approx(0.25 * each[0] + 0.75 * each[1], rel=1e-6)
    assert trained.population_risk(TASK) == pytest.approx(each[0], rel=1e-6)
    assert abs(each[0] - each[1]) > 0.1


def test_a_context_comes_as_the_user_has_it(fits, unchecked):
    """The whole layer in NumPy's float64 is the reference; one fit, and a whole sweep result."""
    X, y, x_q = [[1, 2], [0, 1], [3, -1]], [1, -2, 0], [2, 1]
    for each in (fits[0], fits[0].seed(0)):
        found = np.atleast_1d(each.predict(X, y, x_q))
        one = fits[0].seed(0)
        W_K, W_Q, W_P, W_V = (np.asarray(W, np.float64) for W in one.params)
        Z, z = np.c_[X, y], np.r_[x_q, np.asarray(one.guess) @ x_q + one.bias]
        heads = [W_P[h] @ W_V[h] @ Z.T @ Z @ W_K[h].T @ W_Q[h] @ z / 3 for h in range(2)]
        assert found[0] == pytest.approx(z[-1] + sum(head[-1] for head in heads), rel=1e-5)
        arrays = np.atleast_1d(each.predict(jnp.array(X, float), np.array(y), np.array(x_q)))
        np.testing.assert_array_equal(found, arrays)


def test_a_run_keeps_its_guess():
    """It keeps a copy that nobody can write to."""
    guess = np.array([1.0, 2.0])
    run = Run(TASK, 2, guess=guess)
    guess[0] = 5.0
    assert run == Run(TASK, 2, guess=[1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        run.guess[0] = 5.0


def test_a_warm_start_goes_on_from_the_weights_and_is_saved(tmp_path):
    """A start may be a fit or its weights."""
    first = fit(KEY, TASK, 2, train_guess=True, **OPTIONS)
    warm = fit(KEY, TASK, 2, train_guess=True, start=first, snapshots=[0], **OPTIONS)
    warm.save(tmp_path / "warm.npz")
    assert_equal(Fit.load(tmp_path / "warm.npz"), warm)
    assert_equal(warm.snapshot(0).params, first.params)
    np.testing.assert_array_equal(warm.snapshot(0).guess, first.guess)
    from_weights = fit(KEY, TASK, 2, train_guess=True, start=first.params, guess=first.guess, **OPTIONS)
    assert_equal(from_weights.params, warm.params)
    assert np.abs(np.asarray(warm.params.W_K) - first.params.W_K).max() > 1e-4


def test_snapshots_are_shorter_trainings(fits):
    """Each is what a training of so many steps ends with; a negative place counts from the end, under jit, too."""
    shorter = sweep(KEY, RUNS, seeds=3, **OPTIONS | {"steps": 5})
    for mine, other in zip(fits, shorter, strict=True):
        assert mine.snapshots.params.W_K.shape[:3] == (3, 3, mine.heads)
        assert_equal(mine.snapshot(2).params, mine.params)
        assert_equal(mine.snapshot(1).params, other.params)
        np.testing.assert_array_equal(mine.seed(1).snapshot(1).guess, np.asarray(mine.snapshots.guess)[1, 1])
        assert np.isfinite(mine.snapshot(0).population_risk()).all()
    assert_equal((fits[0].seed(-1), fits[0].snapshot(-3)), (fits[0].seed(np.int64(2)), fits[0].snapshot(0)))
    look = lambda fit: fit.seed(1).snapshot(2)
    assert_equal(jax.jit(look)(fits[1]), look(fits[1]))


single = lambda: Fit(None, np.ones(2), np.ones(4), RUNS[0])
ready = lambda: single()._replace(params=attention.init(KEY, 2, 1, 0.1))
whole = lambda: Fit(None, np.ones((3, 2)), np.ones((3, 4)), RUNS[0], Snapshots(None, np.ones((3, 5, 2))))
test_confused_uses_are_refused = refusals(
    (lambda: single().seed(0), "is for a result of sweep, got a single fit: use it as it is"),
    *(
        (lambda at=at: whole().seed(at), r"place must be a whole number from -3 to 2, got ")
        for at in (3, -4, 1.0, True, np.True_, None, [0, 1], slice(2))
    ),
    *(
        (lambda at=at: whole().snapshot(at), r"place must be a whole number from -5 to 4, got ")
        for at in (5, -6, 1.0, [0])
    ),
    (lambda: single().population_risk(GaussianTask([1.0] * 3, 4)), "task must have d = 2, as in training, got d = 3"),
    (lambda: ready().predict([[1, 2]], [1], [1, 2, 3]), r"x_q must have shape \(2,\), got shape \(3,\)"),
    (lambda: ready().predict([[1, 2, 3]], [1], [1, 2]), r"x_q must have shape \(3,\), got shape \(2,\)"),
    (lambda: merge([single(), single()]), "parts must be one list of fits from each job, got"),
    (lambda: merge(3), "parts must be one list of fits from each job, got"),
    (lambda: merge([[1], [2]]), "parts must be one list of fits from each job, got"),
    (lambda: single().snapshot(0), "needs snapshots, got a fit without: ask for some with snapshots="),
    (lambda: save("a.npz", []), "fits must be a sequence of at least one Fit, got a list"),
    (lambda: save("a.npz", single()), "fits must be a sequence of at least one Fit, got a Fit"),
    (lambda: merge([[single()], [single(), single()]]), r"parts must be .* got \[1, 2\] fits"),
    (lambda: theory.population_risk(single(), TASK), r"its risk: fit\.population_risk"),
    (lambda: metrics.sampled_risk(KEY, TASK, single()), r"\.predict"),
)
