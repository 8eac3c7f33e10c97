"""What a run is given, what comes out of it, and how that is kept in a file."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from lsalib import _check
from lsalib.attention import LSAParams, gram, predict
from lsalib.tasks import GaussianTask, check_any_task, check_task
from lsalib.theory import population_risk
from lsalib.training.records import read, write


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
    """

    task: Any
    heads: int
    guess: Any = None  # any array-like comes in, and a NumPy array is kept
    bias: float = 0.0
    train_guess: bool = False
    learning_rate: float = 5e-4
    init_scale: float = 0.1

    def __post_init__(self):
        check_any_task(self.task)
        d = self.task.dim
        guess = np.zeros(d) if self.guess is None else self.guess
        self.__dict__.update(
            heads=_check.count("heads", self.heads),
            guess=_check.vector("guess", guess, d),
            bias=_check.number("bias", self.bias),
            train_guess=bool(
                _check.choice("train_guess", self.train_guess, (False, True))
            ),
            learning_rate=_check.number("learning_rate", self.learning_rate, above=0.0),
            init_scale=_check.number("init_scale", self.init_scale, above=0.0),
        )


class Fit(NamedTuple):
    """A trained run: weights (H, D, D) each, the guess (d,), and the loss before each
    step, (steps,).

    From ``sweep`` every array has the seeds in front; methods then return one number
    for each. ``snapshots`` holds (params, guess) after the steps asked for, with one
    more axis behind that of the seeds, and is None without any. ``opt_state`` holds
    Adam's count of steps, means and mean squares, with which ``start_from`` goes on.
    ``seeds`` and ``steps`` are the numbers of the seeds, None without an axis for them,
    and of the steps of the snapshots.
    """

    params: LSAParams
    guess: Float[Array | np.ndarray, "*seeds d"]
    losses: Float[Array | np.ndarray, "*seeds steps"]
    run: Run
    snapshots: tuple[LSAParams, Float[Array | np.ndarray, "*seeds K d"]] | None = None
    opt_state: Any = None
    seeds: tuple[int, ...] | None = None
    steps: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return (
            f"Fit(heads={self.run.heads}, dim={self.task.dim}, seeds={self.seeds}, "
            f"steps={np.shape(self.losses)[-1]}, "
            f"last loss {np.asarray(self.losses).round(4).T[-1]!s})"
        )

    @property
    def task(self):
        """The task it was trained on."""
        return self.run.task

    def predict(self, X, y, x_q):
        """The prediction for a context X (C, d), y (C,) and a query (d,), eqs. 6 and
        11.
        """
        return self._each_seed(
            lambda params, guess: _predict(params, guess, X, y, x_q, self.run.bias)
        )

    def population_risk(self):
        """The exact risk (eq. 4) on the task of the training."""
        risks = self._each_seed(
            lambda params, guess: population_risk(
                params, self.task, guess, self.run.bias
            )
        )
        return np.asarray(risks) if risks.ndim else float(risks)

    def seed(self, number: int) -> "Fit":
        """The fit of one seed of a sweep, by its number."""
        numbers = self.seeds or ()
        place = numbers.index(_check.choice("seed", number, numbers))
        return jax.tree.map(lambda leaf: leaf[place], self)._replace(seeds=None)

    def snapshot(self, step: int) -> "Fit":
        """The fit after a step of ``snapshots``; ``losses`` stay those of the whole
        training.
        """
        place = self.steps.index(_check.choice("step", step, self.steps))
        axis = np.ndim(self.losses) - 1
        params, guess = jax.tree.map(lambda x: x.take(place, axis), self.snapshots)
        # Adam's state is that of the end, so it is left out.
        return Fit(params, guess, self.losses, self.run, seeds=self.seeds)

    def _each_seed(self, function: Callable):
        each = jax.vmap(function) if self.seeds else function
        return each(self.params, self.guess)


jax.tree_util.register_dataclass(
    Fit,
    data_fields=["params", "guess", "losses", "snapshots", "opt_state"],
    meta_fields=["run", "seeds", "steps"],
)


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
        numbers = (vars(fit.task) if gaussian else {}) | vars(fit.run)
        about = {name: each for name, each in numbers.items() if np.isscalar(each)}
        losses = np.atleast_2d(fit.losses)
        risks = np.ravel(fit.population_risk()).tolist() if gaussian else None
        for s, seed in enumerate(fit.seeds or [None]):
            row = {
                "dim": fit.task.dim,
                "seed": seed,
                "steps": len(losses[s]),
                "loss": float(losses[s, -1]),
                "risk": risks and risks[s],
            }
            table.append(about | row)
    return table


@_check.compiled
def _predict(params, guess, X, y, x_q, bias):
    _check.context(X, y, _check.shape("x_q", x_q, guess.shape))
    return predict(params, gram(X, y), x_q, guess @ x_q + bias)


def settings(run: Run) -> dict[str, Any]:
    """All numbers of a run by name; a task of one's own by its type."""
    task: Any = type(run.task).__qualname__
    if isinstance(run.task, GaussianTask):
        task = vars(run.task)
    return vars(run) | {"task": task}


def save(path: str | Path, fits: Sequence[Fit]) -> None:
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
    _check.listed("fits", fits, Fit)
    for fit in fits:
        check_task(fit.task, "; no other is saved")
    about = [settings(fit.run) | {"numbers": [fit.seeds, fit.steps]} for fit in fits]
    write(path, about, [fit._replace(opt_state=None) for fit in fits])


def load(path: str | Path) -> list[Fit]:
    """Read the fits of a file that ``save`` wrote, bit for bit."""
    about, leaves = read(path)
    fits = []
    for each in about:
        seeds, steps = each.pop("numbers")
        run = Run(**each | {"task": GaussianTask(**each["task"])})
        array: Any = 0  # in the place of each
        params = LSAParams(*[array] * 4)
        snapshots, seeds = (params, array) if steps else None, seeds and tuple(seeds)
        steps = tuple(steps)
        fits.append(Fit(params, array, array, run, snapshots, None, seeds, steps))
    return jax.tree.unflatten(jax.tree.structure(fits), leaves)
