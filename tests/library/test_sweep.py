"""Sweeps: each run as if it were alone, padding that stays zero, and checkpoints."""

import io
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsalib import _files, _npz, _progress
from lsalib.tasks import GaussianTask
from lsalib.training import Run, checkpoint, fit, schedule, sweep

COV = [[1.0, 0.4], [0.4, 2.0]]
PLAIN = GaussianTask([2.0, -1.0], context_size=4)
# One run, and others that differ from it in one thing.
RUNS = {
    "plain": Run(PLAIN, 2),
    "heads": Run(PLAIN, 5),
    "prior mean": Run(GaussianTask([0.0, 3.0], context_size=4), 2),
    "guess": Run(PLAIN, 2, guess=[1.0, 0.5]),
    "bias": Run(PLAIN, 2, bias=0.7),
    "trained guess": Run(PLAIN, 2, train_guess=True),
    "learning rate": Run(PLAIN, 2, learning_rate=5e-3),
    "scale": Run(PLAIN, 2, init_scale=0.5),
    "context": Run(GaussianTask([2.0, -1.0], context_size=30), 2),
    "covariance": Run(GaussianTask([2.0, -1.0], context_size=9, feature_cov=COV), 2),
    "noise": Run(GaussianTask([2.0, -1.0], context_size=9, noise_std=0.5), 2),
    "dimension": Run(GaussianTask([1.0, 0.0, -1.0], context_size=4), 2),
}
OPTIONS = {"steps": 25, "batch_size": 64}


def fields(run):
    return {name: value for name, value in vars(run).items() if name not in ("task", "heads")}


def assert_close(a, b, rtol=1e-4, atol=2e-6):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)


def assert_equal(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("objective", ["sampled", "population"])
def test_every_run_is_what_fit_gives(objective):
    """Together with others, a run has the result that it has alone, up to the order of sums."""
    fits = sweep(jax.random.key(0), list(RUNS.values()), objective=objective, **OPTIONS)
    together = dict(zip(RUNS, fits, strict=True))
    for name, run in RUNS.items():
        alone = fit(jax.random.key(0), run.task, run.heads, objective=objective, **fields(run), **OPTIONS)
        assert_close(together[name].seed(0), alone)
    # Negative control: what tells the runs apart is seen by the same comparison.
    for name in set(RUNS) - {"plain", "heads", "dimension"}:
        with pytest.raises(AssertionError):
            assert_close(together[name], together["plain"])


def test_seeds_are_repetitions_with_tasks_of_their_own():
    """All runs of a seed see the same tasks; a seed alone is what it is among others."""
    runs = [Run(PLAIN, h, init_scale=1e-6) for h in (2, 5)]
    two, five = sweep(jax.random.key(1), runs, seeds=4, **OPTIONS)
    assert two.risk.shape == (4, 25) and two.guess.shape == (4, 2) and five.params.W_K.shape == (4, 5, 3, 3)
    # Without weights the first loss is that of the guess.
    first = np.asarray(two.risk)[:, 0]
    np.testing.assert_allclose(first, np.asarray(five.risk)[:, 0], rtol=1e-6)
    assert len(np.unique(first)) == 4
    again = sweep(jax.random.key(1), runs, seeds=[2], **OPTIONS)
    assert_close([two.seed(2), five.seed(2)], [alone.seed(0) for alone in again])
    assert_close(two.seed(0), fit(jax.random.key(1), PLAIN, 2, init_scale=1e-6, **OPTIONS))


class Stop(Exception):
    pass


@pytest.fixture
def stopping(monkeypatch):
    """Sweeps that stop after their second stored state."""
    save, count = checkpoint.Checkpoint.save, iter(range(100))

    def save_then_stop(self, *new):
        save(self, *new)
        if next(count) == 1:
            raise Stop

    monkeypatch.setattr(checkpoint.Checkpoint, "save", save_then_stop)
    return monkeypatch


TWO_GROUPS = [RUNS["plain"], RUNS["heads"], RUNS["dimension"]]
# A layer and an optimizer of their own, and context sizes that share a program.
OWN = Run(PLAIN, layer=lambda w, X, y, x_q: w @ x_q * y.mean(), start=np.ones(2), optimizer=optax.adamw(1e-2))
MANY_SIZES = [OWN, *(Run(GaussianTask([2.0, -1.0], C), 2) for C in (1, 2, 3, 4, 4))]


@pytest.mark.parametrize(
    ("objective", "runs"),
    [("sampled", TWO_GROUPS), ("population", TWO_GROUPS), ("sampled", MANY_SIZES)],
    ids=["sampled", "population", "own layer"],
)
def test_a_stopped_sweep_goes_on_bit_for_bit_and_is_extended(objective, runs, tmp_path, stopping):
    """Extended, it is what a longer sweep had been; the beginning is not trained again."""
    options = OPTIONS | {"objective": objective, "seeds": 4, "compress": False}
    whole = sweep(jax.random.key(2), runs, **options)
    stored = options | {"checkpoint": tmp_path / "sweep", "checkpoint_every": 10}
    with pytest.raises(Stop):
        sweep(jax.random.key(2), runs, **stored)
    stopping.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["sweep"]
    assert_equal(sweep(jax.random.key(2), runs, **stored), whole)
    longer = sweep(jax.random.key(2), runs, **options | {"steps": 40})
    assert_equal(sweep(jax.random.key(2), runs, **stored | {"steps": 40}), longer)
    stopping.setattr(schedule, "run_steps", None)
    assert_equal(sweep(jax.random.key(2), runs, **stored | {"steps": 40}), longer)
    with pytest.raises(ValueError, match="steps must be at least 40, which the checkpoint has reached, got 25"):
        sweep(jax.random.key(2), runs, **stored)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_checkpoint_of_another_sweep_is_refused_and_kept(tmp_path):
    """Every number that tells two sweeps apart is compared, and named where it differs."""
    stored = OPTIONS | {"checkpoint": tmp_path / "a", "seeds": [0, 1]}
    start = fit(jax.random.key(5), PLAIN, 2, **OPTIONS).params
    mine = Run(PLAIN, 2, start=start)  # from a fixed start nothing but the numbers of the seeds tells them apart
    sweep(jax.random.key(0), [mine], **stored)
    before = contents(tmp_path / "a")
    changes = {"batch_size": 32, "seeds": [2, 3], "objective": "population", "compress": False}
    cases = [(0, mine, {name: value}, name) for name, value in changes.items()]
    cases += [(1, mine, {}, "key"), (0, RUNS["plain"], {}, "runs"), (0, RUNS["bias"], {}, "runs")]
    for key, run, change, said in cases:
        message = rf"checkpoint must belong to this training, got .* of a training with another .*{said}"
        with pytest.raises(ValueError, match=message):
            sweep(jax.random.key(key), [run], **stored | change)
    assert contents(tmp_path / "a") == before


def test_damaged_and_foreign_files_are_refused_and_kept(tmp_path):
    """Nothing is overwritten but the part of a first write that was broken off."""
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / ".training.json.12.34.part").write_text("{")
    begin = lambda path=folder: sweep(jax.random.key(0), [RUNS["plain"]], **OPTIONS | {"checkpoint": path})
    assert_equal(begin(), sweep(jax.random.key(0), [RUNS["plain"]], **OPTIONS))
    for name in ("0-state.npz", "0-losses-0.npz"):
        whole = (folder / name).read_bytes()
        for damaged in (whole[: len(whole) // 2], b"", b"something else"):
            (folder / name).write_bytes(damaged)
            with pytest.raises(ValueError, match=rf"checkpoint must be whole, got .*{name} cannot be read"):
                begin()
            assert (folder / name).read_bytes() == damaged
        (folder / name).write_bytes(whole)
    (folder / "0-losses-0.npz").unlink()
    with pytest.raises(ValueError, match="checkpoint must be whole"):
        begin()
    (folder / "training.json").write_text("[1]")
    with pytest.raises(ValueError, match="checkpoint must be a folder that a training wrote"):
        begin()
    (folder / "training.json").unlink()
    for path in (folder, folder / "0-state.npz"):
        with pytest.raises(ValueError, match=r"checkpoint must be a folder that a training wrote, .* another path"):
            begin(path)


def test_a_write_that_breaks_off_keeps_the_last_state(tmp_path, monkeypatch):
    """The disk is full at some write: with the losses stored and the state not, the state before still counts."""
    stored = OPTIONS | {"checkpoint": tmp_path / "a", "checkpoint_every": 10}
    expected, write = sweep(jax.random.key(0), [RUNS["plain"]], **OPTIONS), _npz._files.write
    for allowed in (0, 1, 2, 3):
        left = iter(range(allowed))

        def full_disk(path, content, left=left):
            if next(left, None) is None:
                raise OSError("no space left")
            write(path, content)

        with monkeypatch.context() as patched:
            patched.setattr(_npz._files, "write", full_disk)
            with pytest.raises(OSError, match="no space left"):
                sweep(jax.random.key(0), [RUNS["plain"]], **stored)
    assert_equal(sweep(jax.random.key(0), [RUNS["plain"]], **stored), expected)


def test_an_array_is_kept_as_it_reads():
    """However it lies in memory, and in whatever type."""
    array = np.arange(6.0).reshape(2, 3)
    types = [np.array([-0.0, np.nan, 1.5]).astype(t) for t in (np.float16, np.float32, jnp.bfloat16)]
    for x in (array, array.T, array[:, ::2], array[::-1], np.array(3), *types):
        back = _npz.unpack(_npz.pack({"x": x}))[0]["x"]
        assert back.dtype == x.dtype and back.shape == x.shape
        assert back.tobytes() == np.ascontiguousarray(x).tobytes()


def test_two_threads_that_write_one_file_do_not_mix(tmp_path, monkeypatch):
    """Each is held until the other has written, too: a part that they shared would be gone for the second."""
    both = threading.Barrier(2, timeout=60)
    monkeypatch.setattr(_files.os, "fsync", lambda descriptor: both.wait())
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda content: _files.write(tmp_path / "a", content), (b"one", b"two")))
    assert (tmp_path / "a").read_bytes() in (b"one", b"two")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("key", "dtype", "longest", "programs"),
    [("threefry2x32", jnp.float32, 5, 1), ("threefry2x32", jnp.float64, 30, 2), ("rbg", jnp.float32, 5, 5)],
)
def test_context_sizes_that_share_a_program_train_as_alone(key, dtype, longest, programs):
    """Contexts of five sizes are padded by zeros; each run has the draws and the losses that it has alone.

    One program serves all, unless the longest context is far from the others; keys of rbg need one for each.
    """
    with jax.enable_x64(dtype == jnp.float64):
        key = jax.random.key(0, impl=key)
        size = lambda C, noise: GaussianTask([2.0, -1.0, 0.5], context_size=C, noise_std=noise)
        sizes = 1, 2, 3, 4, longest
        runs = [Run(size(sizes[i % 5], 0.1 * (i % 3)), 1 + i % 2, learning_rate=1e-2) for i in range(15)]
        options = {"steps": 10, "batch_size": 15, "seeds": 2, "compress": False, "dtype": dtype}
        groups = []
        fits = sweep(key, runs, callback=lambda step, metrics: groups.append(metrics["runs"]), **options)
        assert sorted(np.concatenate(groups)) == list(range(15))
        assert len(groups) == 2 * programs, "with noise and without"
        # Sums with zeros in them, and tokens that are scaled: a few roundings, amplified by ten steps.
        close = {"rtol": 1e-4, "atol": 2e-6} if dtype == jnp.float32 else {"rtol": 1e-11, "atol": 1e-13}
        for i in (0, 1, 4):
            assert_close(fits[i], sweep(key, [runs[i]], **options)[0], **close)
        with pytest.raises(AssertionError):
            assert_close(fits[1].risk, sweep(key, [runs[3]], **options)[0].risk, **close)


def test_a_context_of_p_tokens_is_trained_on_as_it_is():
    """Compressed, the last number of its diagonal would have one degree of freedom: none that the sampler draws."""
    task = GaussianTask([2.0, -1.0], context_size=2)
    longer = GaussianTask([2.0, -1.0], context_size=3)
    risk = lambda task, compress: fit(jax.random.key(0), task, 1, steps=3, batch_size=8, compress=compress).risk
    np.testing.assert_array_equal(risk(task, True), risk(task, False))
    assert np.abs(np.asarray(risk(longer, True)) - risk(longer, False)).max() > 1e-3, "the control"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_on_a_terminal_only(monkeypatch, tmp_path):
    """It goes on where a resumed run was, and the pace counts only the steps of this sitting."""

    def shown(stream, **options):
        monkeypatch.setattr(_progress.sys, "stderr", stream)
        return sweep(jax.random.key(0), [RUNS["plain"]], **OPTIONS | options), stream.getvalue()

    result, silent = shown(io.StringIO())
    same, said = shown(Terminal())
    assert silent == "" and "25/25 steps" in said and said.endswith("\n")
    assert_equal(same, result)  # cut into pieces for the bar, it is still the same, bit for bit
    for steps in (10, 20):
        _, said = shown(Terminal(), steps=steps, checkpoint=tmp_path / "a")
    assert said.split("steps")[-2].endswith("20/20 ")
    _, said = shown(Terminal(), callback=lambda step, metrics: True, callback_every=10)
    assert "10/25 steps" in said and said.endswith("\n"), "what ends early leaves the line, too"
    # Of a hundred steps 90 were there before, 5 took 5 s: 5 are left, and 5 s.
    seconds, stream = iter([0.0, 5.0]), Terminal()
    monkeypatch.setattr(_progress, "time", SimpleNamespace(perf_counter=lambda: next(seconds)))
    monkeypatch.setattr(_progress.sys, "stderr", stream)
    _progress.Progress(100, done=90).add(5)
    assert "95/100 steps, 5 s, 5 s left" in stream.getvalue()
