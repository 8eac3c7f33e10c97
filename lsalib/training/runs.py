"""What a run is given, what comes out of it, and how that is kept in a file."""

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from lsalib import _check
from lsalib.attention import LSAParams, gram, predict
from lsalib.tasks import GaussianTask
from lsalib.theory import population_risk


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """One point of a sweep: LSA on a task.

    Args:
        task: a ``GaussianTask``, or any ``tasks.Task``.
        heads: H, the number of heads.
        guess: weights of the initial guess ``y_q = guess.x_q + bias``, (d,), or their
            start; None means zero.
        bias: its constant part; never trained.
        train_guess: whether ``guess`` is trained jointly with the weights: yq-LSA (eq.
            11).
        learning_rate: that of Adam, a number.
        init_scale: the standard deviation of the initial weights; the paper does not
            give it.
        start: initial weights of every seed, such as the ``params`` of a fit; None
            means random.
    """

    task: Any
    heads: int
    guess: Any = None  # any array-like comes in, and a NumPy array is kept
    bias: float = 0.0
    train_guess: bool = False
    learning_rate: float = 5e-4
    init_scale: float = 0.1
    start: LSAParams | None = None

    def __post_init__(self):
        if not hasattr(self.task, "dim") or not hasattr(self.task, "sample"):
            raise ValueError(
                "task must have dim and sample(key, n), "
                f"got {_check.describe(self.task)}"
            )
        d, heads = self.task.dim, _check.count("heads", self.heads)
        guess = self.guess
        fields: dict[str, Any] = {
            "heads": heads,
            "guess": np.zeros(d) if guess is None else _check.vector("guess", guess, d),
            "bias": _check.number("bias", self.bias),
        }
        for name in ("learning_rate", "init_scale"):
            fields[name] = _check.number(name, getattr(self, name), above=0.0)
        if not isinstance(self.train_guess, bool | np.bool_):
            raise ValueError(
                f"train_guess must be True or False, got {self.train_guess!r}"
            )
        if self.start is not None:
            fields["start"] = _checked_start(self.start, (heads, d + 1, d + 1))
        for name, value in fields.items():
            object.__setattr__(self, name, value)


def _checked_start(start: LSAParams, shape: tuple[int, int, int]) -> LSAParams:
    if not isinstance(start, LSAParams):
        raise ValueError(f"start must be LSAParams, got {_check.describe(start)}")
    weights: dict[str, Any] = {}
    for name, W in start._asdict().items():
        weights[name] = np.array(_check.array(f"start.{name}", W, shape), float)
        if not np.isfinite(weights[name]).all():
            raise ValueError(f"start.{name} must hold finite numbers, got {W}")
    return start._replace(**weights)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Places:
    """What the axes of a fit stand for: the numbers of its seeds, None without such an
    axis, and the steps of its snapshots.
    """

    seeds: tuple[int, ...] | None = None
    steps: tuple[int, ...] = ()


class Fit(NamedTuple):
    """A trained run: weights (H, D, D) each, the guess (d,), and the loss before each
    step, (steps,).

    From ``sweep`` every array has the seeds in front; methods then return one number
    for each. ``snapshots`` holds (params, guess) after the steps asked for, with one
    more axis behind that of the seeds, and is None without any. ``opt_state`` holds
    Adam's count of steps, means and mean squares, with which ``start_from`` goes on.
    """

    params: LSAParams
    guess: Float[Array | np.ndarray, "*seeds d"]
    losses: Float[Array | np.ndarray, "*seeds steps"]
    run: Run
    snapshots: tuple[LSAParams, Float[Array | np.ndarray, "*seeds K d"]] | None = None
    places: Any = Places()  # what its axes stand for
    opt_state: Any = None

    def __repr__(self) -> str:
        seeds = "" if self.places.seeds is None else f"seeds {[*self.places.seeds]}, "
        steps, last = np.shape(self.losses)[-1], np.asarray(self.losses)[..., -1]
        return (
            f"Fit(heads={self.run.heads}, dim={self.task.dim}, {seeds}{steps} steps, "
            f"last loss {np.array2string(last, precision=4)})"
        )

    @property
    def task(self):
        """The task it was trained on."""
        return self.run.task

    def predict(self, X, y, x_q):
        """The prediction for a context X (C, d), y (C,) and a query (d,), eqs. 6 and
        11.
        """
        params, guess, X, y, x_q = _check.floats(
            params=self.params, guess=self.guess, X=X, y=y, x_q=x_q
        )
        _check.context(X, y, _check.shape("x_q", x_q, (self.task.dim,)))
        return self._each_seed(
            lambda params, guess: _predict(params, guess, X, y, x_q, self.run.bias)
        )(params, guess)

    def population_risk(self, task: GaussianTask | None = None):
        """The exact risk (eq. 4), on the task of the training or on another one."""
        task = self.task if task is None else task
        if not isinstance(task, GaussianTask):
            raise ValueError(
                "task must be a GaussianTask for an exact risk: "
                "estimate another by metrics.sampled_risk"
            )
        one = lambda params, guess: population_risk(params, task, guess, self.run.bias)
        risks = np.asarray(self._each_seed(one)(self.params, self.guess))
        return risks if risks.ndim else float(risks)

    def seed(self, number: int) -> "Fit":
        """The fit of one seed of a sweep, by its number."""
        if self.places.seeds is None:
            raise ValueError(
                "seed(number) is for a fit of sweep with its seeds, got a single one: "
                "use it as it is"
            )
        place = _place("seed", number, self.places.seeds)
        one = jax.tree.map(lambda leaf: leaf[place], self)
        return one._replace(places=dataclasses.replace(self.places, seeds=None))

    def with_seed(self) -> "Fit":
        """The fit of a single seed with an axis for it, as that of seed 0."""
        one = jax.tree.map(lambda leaf: leaf[None], self)
        return one._replace(places=dataclasses.replace(self.places, seeds=(0,)))

    def snapshot(self, step: int) -> "Fit":
        """The fit after a step of ``snapshots``; ``losses`` stay those of the whole
        training.
        """
        if self.snapshots is None:
            raise ValueError("snapshot(step) needs snapshots: train with snapshots=")
        place = _place("step", step, self.places.steps)
        axes = (slice(None),) * (np.ndim(self.losses) - 1)
        params, guess = jax.tree.map(lambda leaf: leaf[(*axes, place)], self.snapshots)
        places = dataclasses.replace(self.places, steps=())
        # Adam's state is that of the end.
        return self._replace(
            params=params, guess=guess, snapshots=None, places=places, opt_state=None
        )

    def _each_seed(self, function: Callable) -> Callable:
        return jax.vmap(function) if np.ndim(self.losses) == 2 else function


def _place(name: str, number, numbers: tuple[int, ...]) -> int:
    if number not in numbers:
        listed = ", ".join(map(str, numbers))
        raise ValueError(f"{name} must be one of {listed}, got {number!r}")
    return numbers.index(number)


def rows(fits: Sequence[Fit]) -> list[dict[str, Any]]:
    """Results as rows, one for each run and seed, ready for ``pandas.DataFrame``.

    A row has the run's numbers, its seed, the steps, the last loss and, on a
    ``GaussianTask``, the exact risk.

    Example:
        >>> from lsalib.training import sweep
        >>> task = GaussianTask([1.0, 1.0], context_size=5)
        >>> fits = sweep(jax.random.key(0), [Run(task, heads=2)], seeds=[3, 7], steps=2)
        >>> [(row["heads"], row["seed"], row["steps"]) for row in rows(fits)]
        [(2, 3, 2), (2, 7, 2)]
    """
    table = []
    for fit in fits:
        gaussian = isinstance(fit.task, GaussianTask)
        losses = np.atleast_2d(fit.losses)
        risks = (
            np.atleast_1d(fit.population_risk()) if gaussian else [None] * len(losses)
        )
        names = ("heads", "bias", "train_guess", "learning_rate", "init_scale")
        about = {"dim": fit.task.dim} | {name: getattr(fit.run, name) for name in names}
        if gaussian:
            about |= {"context_size": fit.task.context_size}
            about |= {"noise_std": fit.task.noise_std}
        for seed, each, risk in zip(
            fit.places.seeds or [None], losses, risks, strict=True
        ):
            end = {"seed": seed, "steps": len(each), "loss": float(each[-1])}
            table.append(about | end | {"risk": None if risk is None else float(risk)})
    return table


@jax.jit
def _predict(params, guess, X, y, x_q, bias):
    return predict(params, gram(X, y), x_q, guess @ x_q + bias)


def settings(run: Run) -> dict[str, Any]:
    """All numbers of a run by name, as JSON data; a task of one's own by its type."""
    task = (
        vars(run.task)
        if isinstance(run.task, GaussianTask)
        else type(run.task).__qualname__
    )
    return jax.tree.map(
        lambda value: np.asarray(value).tolist(), vars(run) | {"task": task}
    )


def save(path: str | os.PathLike, fits: Sequence[Fit]) -> None:
    """Write fits on Gaussian tasks to one file, in NumPy's npz format; all but Adam's
    state.

    Example:
        >>> from tempfile import mkdtemp
        >>> run = Run(GaussianTask([2.0], 4), heads=1)
        >>> params = LSAParams(*np.ones((4, 1, 2, 2)))
        >>> fit = Fit(params, np.ones(1), np.ones(5), run)
        >>> save(path := f"{mkdtemp()}/fits.npz", [fit])
        >>> assert load(path)[0].run.heads == 1
    """
    if (
        isinstance(fits, Fit)
        or not fits
        or not all(isinstance(fit.task, GaussianTask) for fit in fits)
    ):
        raise ValueError(
            "fits must be a list of at least one fit on GaussianTasks, "
            f"got {_check.describe(fits)}"
        )
    about: list[dict] = []
    arrays: dict[str, Any] = {}
    for i, fit in enumerate(fits):
        about.append(settings(fit.run) | {"places": dataclasses.asdict(fit.places)})
        parts = {**fit.params._asdict(), "guess": fit.guess, "losses": fit.losses}
        if fit.snapshots is not None:
            params, parts["snapshots guess"] = fit.snapshots
            parts |= {f"snapshots {name}": W for name, W in params._asdict().items()}
        arrays |= {f"{i} {name}": part for name, part in parts.items()}
    part = Path(f"{path}.part")
    with part.open("wb") as file:
        np.savez(file, runs=json.dumps(about), **arrays)
    part.replace(path)  # an interrupted write leaves what was there


def load(path: str | os.PathLike) -> list[Fit]:
    """Read the fits of a file that ``save`` wrote, bit for bit."""
    with np.load(path) as file:
        if "runs" not in file:
            raise ValueError(
                f"path must be a file that training.save wrote, got {path}, "
                "which holds "
                f"{', '.join(file) or 'nothing'}"
            )
        about = json.loads(str(file["runs"]))
        return [_loaded(file, i, each) for i, each in enumerate(about)]


def _loaded(file, i: int, about: dict[str, Any]) -> Fit:
    places, start = about.pop("places"), about["start"]
    about |= {"task": GaussianTask(**about["task"])}
    run = Run(**about | {"start": start and LSAParams(*start)})
    weights = lambda prefix: LSAParams(
        *(file[f"{i} {prefix}{name}"] for name in LSAParams._fields)
    )
    snapshots = None
    if f"{i} snapshots guess" in file:
        snapshots = weights("snapshots "), file[f"{i} snapshots guess"]
    seeds = None if places["seeds"] is None else tuple(places["seeds"])
    numbers = Places(seeds, tuple(places["steps"]))
    parts = weights(""), file[f"{i} guess"], file[f"{i} losses"]
    return Fit(*parts, run, snapshots, numbers)
