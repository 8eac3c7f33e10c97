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
                f"task must have dim and sample(key, n), got {_check.describe(self.task)}"
            )
        d, heads = self.task.dim, _check.count("heads", self.heads)
        guess = (
            np.zeros(d) if self.guess is None else _check.vector("guess", self.guess, d)
        )
        kept: dict[str, Any] = {
            "heads": heads,
            "guess": guess,
            "bias": _check.number("bias", self.bias),
        }
        kept |= {
            name: _check.number(name, getattr(self, name), above=0.0)
            for name in ("learning_rate", "init_scale")
        }
        if self.start is not None:
            if not isinstance(self.start, LSAParams):
                raise ValueError(
                    f"start must be LSAParams, got {_check.describe(self.start)}"
                )
            shape, each = (heads, d + 1, d + 1), self.start._asdict().items()
            weights: dict[str, Any] = {
                k: np.array(_check.array(f"start.{k}", W, shape), float)
                for k, W in each
            }
            kept["start"] = self.start._replace(**weights)
        for name, value in kept.items():
            object.__setattr__(self, name, value)


class Fit(NamedTuple):
    """A trained run: weights (H, D, D) each, the guess (d,), and the loss before each
    step, (steps,).

    From ``sweep`` every array has the seeds in front; methods then return one number
    for each. ``snapshots`` holds (params, guess) after the steps asked for, with one
    more axis behind that of the seeds, and is None without any.
    """

    params: LSAParams
    guess: Float[Array | np.ndarray, "*seeds d"]
    losses: Float[Array | np.ndarray, "*seeds steps"]
    run: Run
    snapshots: tuple[LSAParams, Float[Array | np.ndarray, "*seeds K d"]] | None = None

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
                "task must be a GaussianTask for an exact risk: estimate another by metrics.sampled_risk"
            )
        one = lambda params, guess: population_risk(params, task, guess, self.run.bias)
        risks = np.asarray(self._each_seed(one)(self.params, self.guess))
        return risks if risks.ndim else float(risks)

    def seed(self, place: int) -> "Fit":
        """The fit of one seed of a sweep, by its place."""
        if np.ndim(self.losses) == 1:
            raise ValueError(
                "seed(place) is for a fit of sweep with its seeds, got a single one: use it as it is"
            )
        return jax.tree.map(lambda leaf: leaf[place], self)

    def snapshot(self, place: int) -> "Fit":
        """The fit at one of its snapshots; ``losses`` stay those of the whole training."""
        if self.snapshots is None:
            raise ValueError("snapshot(place) needs snapshots: train with snapshots=")
        leading = (slice(None),) * (np.ndim(self.losses) - 1)
        params, guess = jax.tree.map(
            lambda leaf: leaf[(*leading, place)], self.snapshots
        )
        return self._replace(params=params, guess=guess, snapshots=None)

    def _each_seed(self, function: Callable) -> Callable:
        return jax.vmap(function) if np.ndim(self.losses) == 2 else function


@jax.jit
def _predict(params, guess, X, y, x_q, bias):
    return predict(params, gram(X, y), x_q, guess @ x_q + bias)


def settings(run: Run) -> dict[str, Any]:
    """All numbers of a run by name, as JSON data, and a task of one's own by its type."""
    task = (
        vars(run.task)
        if isinstance(run.task, GaussianTask)
        else type(run.task).__qualname__
    )
    return jax.tree.map(
        lambda value: np.asarray(value).tolist(), vars(run) | {"task": task}
    )


def save(path: str | os.PathLike, fits: Sequence[Fit]) -> None:
    """Write fits on Gaussian tasks to one file, in NumPy's npz format.

    Example:
        >>> from tempfile import mkdtemp
        >>> fit = Fit(LSAParams(*np.ones((4, 1, 2, 2))), np.ones(1), np.ones(5), Run(GaussianTask([2.0], 4), heads=1))
        >>> save(path := f"{mkdtemp()}/fits.npz", [fit])
        >>> assert load(path)[0].run.heads == 1
    """
    if isinstance(fits, Fit) or not all(
        isinstance(fit.task, GaussianTask) for fit in fits
    ):
        raise ValueError(
            f"fits must be a list of fits on GaussianTasks, got {_check.describe(fits)}"
        )
    arrays = {
        f"{i} {j}": leaf
        for i, fit in enumerate(fits)
        for j, leaf in enumerate(jax.tree.leaves(fit))
    }
    part = Path(f"{path}.part")
    with part.open("wb") as file:
        np.savez(file, runs=json.dumps([settings(fit.run) for fit in fits]), **arrays)
    part.replace(path)  # an interrupted write leaves what was there


def load(path: str | os.PathLike) -> list[Fit]:
    """Read the fits of a file that ``save`` wrote, bit for bit."""
    fits = []
    with np.load(path) as file:
        for i, given in enumerate(json.loads(str(file["runs"]))):
            start = given["start"] and LSAParams(*given["start"])
            run = Run(**given | {"task": GaussianTask(**given["task"]), "start": start})
            leaves = [file[f"{i} {j}"] for j in range(11) if f"{i} {j}" in file]
            *weights, guess, losses = leaves[:6]
            snapshots = (LSAParams(*leaves[6:10]), leaves[10]) if leaves[6:] else None
            fits.append(Fit(LSAParams(*weights), guess, losses, run, snapshots))
    return fits
