"""What a run is given, and what comes out of it."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float

from lsalib import _validate
from lsalib.attention import LSAParams, gram, predict
from lsalib.tasks import GaussianTask

__all__ = ["Fit", "Run"]

Scalar = Float[Array, "..."]


@jax.tree_util.register_static
@dataclass(frozen=True, eq=False)
class Run:
    """One point of a sweep.

    Args:
        task: the task distribution.
        heads: H.
        guess: weights of the initial guess ``y_q = guess.x_q + bias``, (d,), or their starting point; None means zero.
        bias: its constant part; never trained.
        train_guess: whether ``guess`` is trained along: yq-LSA (eq. 11).
        learning_rate: Adam's.
        init_scale: standard deviation of the initial weights; the paper does not give it.

    Raises:
        ValueError: if ``task`` is no GaussianTask, ``heads < 1``, ``guess`` is not of shape (d,), or a number is not
            finite or not positive.

    Example:
        >>> Run(GaussianTask([2.0, 2.0], context_size=5), heads=3).guess.tolist()
        [0.0, 0.0]
    """

    task: GaussianTask
    heads: int
    guess: npt.ArrayLike | None = None
    bias: float = 0.0
    train_guess: bool = False
    learning_rate: float = 5e-4
    init_scale: float = 0.1

    def __post_init__(self):
        if not isinstance(self.task, GaussianTask):
            raise ValueError(f"task must be a GaussianTask, got {self.task!r}")
        if not isinstance(self.train_guess, bool):
            raise ValueError(f"train_guess must be True or False, got {self.train_guess!r}")
        guess = np.zeros(self.task.dim) if self.guess is None else _validate.vector("guess", self.guess, self.task.dim)
        object.__setattr__(self, "guess", guess)
        object.__setattr__(self, "heads", _validate.count("heads", self.heads))
        object.__setattr__(self, "bias", _validate.number("bias", self.bias))
        for name in ("learning_rate", "init_scale"):
            object.__setattr__(self, name, _validate.number(name, getattr(self, name), above=0.0))


class Fit(NamedTuple):
    """A finished run: what was trained, what came out, and a predictor.

    Weights (H, D, D) each, guess (d,), and the loss before each step, (steps,); from ``sweep`` every array has the
    seeds in front. ``run`` is what was asked for: its task, heads, bias and the rest.
    """

    params: LSAParams
    guess: Float[Array, "*seeds d"]
    risk: Float[Array, "*seeds steps"]
    run: Run

    @property
    def task(self) -> GaussianTask:
        """What it was trained on."""
        return self.run.task

    @property
    def heads(self) -> int:
        """H."""
        return self.run.heads

    @property
    def bias(self) -> float:
        """The constant part of its guess."""
        return self.run.bias

    def predict(self, X: Float[Array, "C d"], y: Float[Array, " C"], x_q: Float[Array, " d"]) -> Scalar:
        """The trained layer's prediction for one context, with ``y_q = guess.x_q + bias`` (eqs. 6, 11).

        Args:
            X, y, x_q: context and query, (C, d), (C,), (d,).

        Returns:
            A scalar; of a whole ``sweep`` result one prediction a seed, (seeds,).

        Raises:
            ValueError: if a shape does not fit.

        Example:
            >>> import jax.numpy as jnp
            >>> from lsalib.attention import gd_weights
            >>> task = GaussianTask([0.0, 0.0], context_size=2)
            >>> one_step = Fit(gd_weights(jnp.zeros(2), 2.0), jnp.zeros(2), jnp.zeros(1), Run(task, heads=1))
            >>> float(one_step.predict(jnp.eye(2), jnp.array([1.0, 2.0]), jnp.ones(2)))
            3.0
        """
        one = partial(_predict, X=X, y=y, x_q=x_q, bias=self.bias)
        return one(self.params, self.guess) if np.ndim(self.guess) == 1 else jax.vmap(one)(self.params, self.guess)

    def seed(self, place: int) -> "Fit":
        """One of a sweep's repetitions, by its place among the seeds.

        Example:
            >>> two = Fit(None, np.ones((2, 3)), np.ones((2, 7)), None)
            >>> two.seed(0).risk.shape
            (7,)
        """
        # On the host: nothing is compiled for a look at a result.
        return jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf)[place]), self)


@jax.jit
def _predict(params, guess, X, y, x_q, bias):
    _validate.shape("x_q", x_q, guess.shape)
    return predict(params, gram(X, y), x_q, guess @ x_q + bias)
