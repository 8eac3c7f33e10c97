"""Sweeps over any task, layer and optimizer: each run is what ``train`` makes of the same loss."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from refusals import refusals

from lsalib import attention, metrics
from lsalib.layers import Layer
from lsalib.tasks import Batch, GaussianTask, sample
from lsalib.training import Fit, Run, fit, load, merge, save, sweep, train

KEY = jax.random.key(0)
OPTIONS = {"steps": 12, "batch_size": 32, "seeds": 2}
TASK = GaussianTask([2.0, -1.0], context_size=4)
SINGULAR = GaussianTask([2.0, -1.0], 6, [[1.0, 1.0], [1.0, 1.0]], [[2.0, 0.0], [0.0, 0.3]], noise_std=0.5)


@dataclass(frozen=True)
class Stretched:
    """A task of one's own that is no pytree: its numbers are constants of the program."""

    width: float = 1.0
    dim: int = 2

    def sample(self, key, n):
        batch = sample(key, TASK, n)
        return batch._replace(x_q=self.width * batch.x_q)


def scaled(params, X, y, x_q):
    """Gradient descent with a step and a preconditioner."""
    return params["step"] * (X @ (params["matrix"] @ x_q)) @ y / len(y)


def scaled_init(key, dim, scale=0.3):
    return {"step": jnp.ones(()), "matrix": scale * jax.random.normal(key, (dim, dim))}


def kernel(params, X, y, x_q):
    """Softmax attention with a temperature."""
    return jax.nn.softmax(jnp.exp(params) * (X @ x_q)) @ y


def lsa(params, X, y, x_q):
    return attention.predict(params, attention.gram(X, y), x_q, 0.0)


SCHEDULE = optax.chain(
    optax.clip_by_global_norm(0.5), optax.adamw(optax.linear_schedule(0.05, 0.0, 12), weight_decay=0.1)
)
MINE = partial(Run, layer=scaled, init=scaled_init)
RUNS = {
    "schedule": MINE(TASK, optimizer=SCHEDULE),
    "matrices": MINE(TASK, optimizer=optax.contrib.muon(0.05)),
    "line search": MINE(TASK, optimizer=optax.lbfgs()),
    "covariances": MINE(SINGULAR, optimizer=SCHEDULE),
    "own task": MINE(Stretched(2.0), optimizer=SCHEDULE),
    "adam": MINE(TASK, learning_rate=0.05),
    "other layer": Run(TASK, layer=kernel, start=np.zeros(()), optimizer=optax.sgd(0.1)),
    "lsa as a layer": Run(TASK, layer=lsa, init=lambda key, dim: attention.init(key, dim, 2, 0.5)),
    "lsa": Run(TASK, heads=2, init_scale=0.5),
}


@pytest.fixture(scope="module")
def fits():
    found = sweep(KEY, list(RUNS.values()), snapshots=[0, 12], compress=False, **OPTIONS)
    return dict(zip(RUNS, found, strict=True))


def assert_close(a, b, rtol=2e-4):
    # A few operations of float32 in another order, amplified by twelve steps.
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol / 10), a, b)


def assert_equal(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.parametrize("name", [name for name in RUNS if name != "lsa"])
def test_a_run_is_what_train_makes_of_its_loss(name, fits):
    """Together with others, each run has the losses and weights of ``train``; another run is told apart."""
    run = RUNS[name]

    def loss(params, key):
        X, y, x_q, target = run.task.sample(key, OPTIONS["batch_size"])[:4]
        return ((jax.vmap(run.layer, (None, 0, 0, 0))(params, X, y, x_q) - target) ** 2).mean()

    optimizer = optax.adam(run.learning_rate) if run.optimizer is None else run.optimizer
    init = run.init and (lambda key: run.init(key, 2))
    alone = train(loss, run.start, KEY, init=init, steps=12, optimizer=optimizer, seeds=2)
    # A line search compares losses, so it amplifies rounding much more.
    rtol = 1e-2 if name == "line search" else 2e-4
    assert_close((fits[name].params, fits[name].risk), (alone.params, alone.risk), rtol)
    with pytest.raises(AssertionError):
        assert_close(fits["own task" if name == "adam" else "adam"].risk, alone.risk, rtol)


def test_all_runs_see_the_same_contexts(fits):
    """A layer that computes LSA ends where LSA's own program does, from the same start; others do not."""
    mine, same, other = (fits[name] for name in ("lsa", "lsa as a layer", "adam"))
    assert_close((mine.params, mine.risk), (same.params, same.risk))
    assert np.abs(np.asarray(mine.risk) - other.risk).min() > 1e-3


@pytest.mark.parametrize("objective", ["sampled", "population"])
def test_lsa_by_another_optimizer(objective):
    """Adam given as an optimizer is the Adam of the fast program; weight decay leaves a frozen guess alone."""
    decayed = optax.adamw(5e-4, weight_decay=5.0)
    settings = {"guess": [1.0, 0.5], "bias": 0.3}
    for trained in (False, True):
        run = partial(Run, TASK, 2, train_guess=trained, **settings)
        plain, adam, other = sweep(
            KEY, [run(), run(optimizer=optax.adam(5e-4)), run(optimizer=decayed)], objective=objective, **OPTIONS
        )
        assert_close((adam.params, adam.guess, adam.risk), (plain.params, plain.guess, plain.risk))
        np.testing.assert_allclose(adam.population_risk(), plain.population_risk(), rtol=1e-4)
        assert np.abs(np.asarray(other.params.W_V) - plain.params.W_V).max() > 1e-3
        moved = np.abs(np.asarray(other.guess) - settings["guess"]).max()
        assert moved > 1e-3 if trained else moved == 0


def test_lsa_on_a_task_of_ones_own():
    """A task that draws what a GaussianTask draws gives its numbers; the fit predicts and is measured."""
    options = {"steps": 12, "batch_size": 32, "train_guess": True, "learning_rate": 1e-2}
    own, known = fit(KEY, Stretched(), 2, **options), fit(KEY, TASK, 2, compress=False, **options)
    assert_close((own.params, own.guess, own.risk), (known.params, known.guess, known.risk))
    risk = metrics.sampled_risk(KEY, own.task, own.predict, batches=2, batch_size=2**14)
    assert abs(risk.mean - known.population_risk()) < 5 * risk.standard_error
    compressed = fit(KEY, TASK, 2, **options)
    assert np.abs(np.asarray(compressed.risk) - own.risk).max() > 1e-3, "the control: other contexts"


def groups_of(runs):
    """Which runs share a program, as a callback sees them."""
    seen = []
    sweep(KEY, runs, callback=lambda step, metrics: seen.append(metrics["runs"]), steps=1, batch_size=4)
    return seen


def test_runs_that_differ_in_numbers_share_a_program():
    """Numbers of tasks, learning rates, and optimizers that are made again; not other functions or settings."""
    tasks = [GaussianTask([mean, 1.0], 4) for mean in (0.0, 1.0)]
    alike = [MINE(task, optimizer=optax.lion(1e-2)) for task in tasks]
    alike += [MINE(TASK, optimizer=optax.lion(1e-2))]
    rates = [MINE(TASK, learning_rate=rate) for rate in (0.1, 0.2)]
    states = [MINE(TASK, optimizer=optax.inject_hyperparams(optax.rmsprop)(rate)) for rate in (0.1, 0.2)]
    own = [MINE(Stretched(), optimizer=optax.lion(1e-2)), MINE(Stretched(), optimizer=optax.lion(1e-2))]
    assert groups_of(alike + rates + states + own) == [[0, 1, 2], [3, 4], [5, 6], [7, 8]]
    others = [MINE(TASK, optimizer=optax.lion(1e-2)), MINE(TASK, optimizer=optax.lion(2e-2))]
    others += [MINE(Stretched(), optimizer=optax.lion(1e-2)), MINE(Stretched(2.0), optimizer=optax.lion(1e-2))]
    assert groups_of(others) == [[0], [1], [2], [3]]


def shipped(rule, **settings):
    """A run of a layer that is made for it alone."""
    layer = Layer(rule, **settings)
    return Run(TASK, layer=layer.predict, init=layer.init)


def test_layers_that_are_made_again_are_the_same():
    """Their methods share a program, and their runs are equal; those of other layers are not."""
    runs = [shipped("delta") for _ in range(3)]
    assert groups_of(runs) == [[0, 1, 2]] and len(set(runs)) == 1
    others = [shipped("delta"), shipped("gated"), shipped("delta", frozen=("guess",))]
    assert groups_of(others) == [[0], [1], [2]] and len(set(others)) == 3


@dataclass(frozen=True)
class Scale:
    """A layer of one's own whose method is trained; its array leaves it without a hash."""

    matrix: np.ndarray

    def predict(self, params, X, y, x_q):
        return params * y @ X @ self.matrix @ x_q


ALIKE_BY_NAME = {
    "rules": [shipped("delta"), shipped("gated")],
    "settings": [shipped("delta"), shipped("delta", causal=False)],
    "partials": [
        Run(TASK, layer=partial(kernel), start=np.zeros(())),
        Run(TASK, layer=partial(lsa), start=np.zeros(())),
    ],
    "arrays": [Run(TASK, layer=Scale(s * np.eye(2)).predict, start=np.zeros(())) for s in (1.0, 2.0)],
    "tasks": [MINE(Stretched(width)) for width in (1.0, 2.0)],
}


@pytest.mark.parametrize("runs", ALIKE_BY_NAME.values(), ids=ALIKE_BY_NAME)
def test_a_file_knows_the_object_of_a_method(runs, tmp_path):
    """Runs whose functions have the same name are refused in the wrong order, and read in the right one."""
    found = [Fit([np.ones(())], None, np.zeros(3), run) for run in runs]
    if runs[0].init is not None:
        found = [Fit(run.init(KEY, 2), None, np.zeros(3), run) for run in runs]
    save(tmp_path / "fits.npz", found)
    assert [each.run for each in load(tmp_path / "fits.npz", runs)] == runs
    for wrong, place in ((runs[::-1], 0), ([runs[0], runs[0]], 1)):
        with pytest.raises(ValueError, match=f"got another run for fit {place}"):
            load(tmp_path / "fits.npz", wrong)


class Constant:
    """Batches from NumPy's generator: a compiled program holds one of them. ``read`` says what reads the key."""

    dim = 2

    def __init__(self, read):
        self.read = read

    def sample(self, key, n):
        x = np.random.default_rng().normal(size=(n, 5, 2)).astype(np.float32)
        return self.read(key, Batch(x[:, :-1], x[:, :-1, 0], x[:, -1], x[:, -1, 0]))


@pytest.mark.parametrize("read", [lambda key, batch: batch, jax.jit(lambda key, batch: batch)], ids=["plain", "jit"])
def test_a_task_that_does_not_read_its_key_is_refused(read):
    """Under ``jit`` it would be one batch for all steps; one with a fixed design, and drawn labels, is trained."""
    for settings in ({"heads": 1}, {"layer": scaled, "init": scaled_init}):
        with pytest.raises(
            ValueError, match=r"task must draw from the key in sample\(key, n\), got a Constant in run 0"
        ):
            fit(KEY, Constant(read), steps=2, batch_size=4, **settings)
    drawn = jax.jit(lambda key, batch: batch._replace(target=jax.random.normal(key, batch.target.shape)))
    assert fit(KEY, Constant(drawn), 1, steps=2, batch_size=4).risk.shape == (2,)


def test_fits_are_kept_continued_and_looked_at(fits, tmp_path, unchecked):
    """Files, merging, snapshots and warm starts; without its functions a fit cannot be read."""
    runs, found = list(RUNS.values()), list(fits.values())
    save(tmp_path / "all.npz", found)
    assert_equal(load(tmp_path / "all.npz", runs), found)
    with pytest.raises(ValueError, match=r"runs must be given to read .* functions of the run of fit 0"):
        load(tmp_path / "all.npz")
    with pytest.raises(ValueError, match="runs must be those of the 9 fits"):
        load(tmp_path / "all.npz", runs[::-1])
    assert_equal(merge([found[0::2], found[1::2]], runs), found)
    one = fits["schedule"].seed(1)
    one.save(tmp_path / "one.npz")
    read = Fit.load(tmp_path / "one.npz", RUNS["schedule"])
    x = [[1, 2], [0, 1]], [1, -2], [2, 1]
    expected = scaled(jax.tree.map(np.asarray, one.params), *map(np.float32, x))
    assert float(read.predict(*x)) == pytest.approx(float(expected), rel=1e-5)
    assert fits["schedule"].predict(*x).shape == (2,) and read.guess is None
    assert_equal(one.snapshot(1).params, one.params)
    warm = fit(KEY, TASK, layer=scaled, start=one, optimizer=SCHEDULE, steps=1, snapshots=[0])
    assert_equal(warm.snapshot(0).params, one.params)
    assert MINE(TASK, optimizer=SCHEDULE) == RUNS["schedule"] != MINE(TASK, optimizer=optax.lion(1e-2))


def test_a_run_that_diverges_leaves_the_others_as_they_are():
    """Among runs of one program, each with an optimizer of its own."""
    runs = [MINE(TASK, learning_rate=rate) for rate in (0.05, 1e30, 0.1)]
    with pytest.warns(RuntimeWarning, match="run 1, seed 0 at step"):
        found = sweep(KEY, runs, **OPTIONS)
    alone = sweep(KEY, runs[::2], **OPTIONS)
    assert_close([each.risk for each in found[::2]], [each.risk for each in alone])
    assert np.isnan(found[1].risk).any() and all(np.isfinite(W).all() for W in found[1].params.values())


vector = Run(TASK, layer=lambda params, X, y, x_q: params * y[:2], start=np.zeros(()))
test_settings_that_do_not_go_together_are_refused = refusals(
    (lambda: Run(TASK), "heads must be the number of heads of LSA, got None; another layer is given as layer="),
    (lambda: Run(TASK, 2, init=scaled_init), "init must be left out without a layer"),
    (lambda: MINE(TASK, heads=2), "heads must be left out with a layer, got 2"),
    (lambda: MINE(TASK, guess=[1.0, 2.0]), "guess must be left out with a layer"),
    (lambda: Run(TASK, layer=scaled), "init or start must say where a layer begins, got neither"),
    (lambda: MINE(TASK, start=np.zeros(())), "init or start must say where a layer begins, got both"),
    (lambda: Run(TASK, layer="delta", start=np.zeros(())), "layer must be a function that can be hashed, got 'delta'"),
    (lambda: MINE(TASK, optimizer="adam"), "optimizer must be an optax.GradientTransformation, got 'adam'"),
    (lambda: MINE(TASK, optimizer=SCHEDULE, learning_rate=0.1), "learning_rate must be left to the optimizer, got 0.1"),
    (lambda: Run([1.0], 2), r"task must have dim and sample\(key, n\), got \[1.0\]"),
    (lambda: sweep(KEY, [vector], steps=1), r"layer must return a scalar for one example, got shape \(2,\)"),
    (
        lambda: sweep(KEY, [MINE(TASK)], objective="population"),
        'objective must be "sampled" for run 0, since its layer',
    ),
    (lambda: fit(KEY, Stretched(), 1, objective="population"), 'objective must be "sampled" for run 0, since its task'),
    (lambda: fit(KEY, TASK, layer=scaled, start=np.arange(3), steps=1), "start must be a pytree of float arrays"),
    (lambda: Fit(None, None, np.zeros(3), vector).population_risk(), "known for LSA on GaussianTasks and mixtures"),
)
