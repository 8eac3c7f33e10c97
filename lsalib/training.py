"""Training in context: Adam on fresh tasks at every step, the whole run in one compiled loop."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib import _validate
from lsalib.attention import LSAParams, gram, init, predict
from lsalib.tasks import GaussianTask, sample
from lsalib.theory import population_risk

__all__ = ["OBJECTIVES", "Fit", "fit"]

OBJECTIVES = ("sampled", "population")


class Fit(NamedTuple):
    """A finished run: weights (H, D, D) each, guess (d,), and the loss before each step, (steps,)."""

    params: LSAParams
    guess: Float[Array, " d"]
    risk: Float[Array, " steps"]


def fit(
    key: PRNGKeyArray,
    task: GaussianTask,
    heads: int,
    *,
    steps: int = 5000,
    batch_size: int = 2048,
    learning_rate: float = 5e-4,
    init_scale: float = 0.1,
    guess=None,
    bias: float = 0.0,
    train_guess: bool = False,
    objective: str = "sampled",
    dtype=jnp.float32,
) -> Fit:
    """Train multi-head LSA (or, with ``train_guess``, yq-LSA) by Adam on the squared error.

    The initial guess is ``y_q = guess.x_q + bias``. Every step draws a fresh batch of tasks, so
    the loss that is recorded is an unbiased estimate of the ICL risk (eq. 4) at that step's weights.

    Args:
        key: a key of ``jax.random``; equal keys give equal runs.
        task: the task distribution.
        heads: H.
        steps, batch_size, learning_rate: the paper's values (appendix C.1, Table 1) by default.
        init_scale: standard deviation of the initial weights; the paper does not give it.
        guess: weights of the initial guess, (d,), or their starting point; None means zero.
        bias: constant part of the initial guess; never trained.
        train_guess: whether ``guess`` is trained along (eq. 11).
        objective: "sampled", a fresh batch a step, or "population", the exact risk.
        dtype: the type that training runs in.

    Returns:
        A ``Fit``; ``risk[t]`` is the loss of step t, before its update.

    Raises:
        ValueError: if a count is below 1, a number is not finite, ``guess`` is not of shape (d,) or
            the objective is unknown.

    Example:
        >>> run = fit(jax.random.key(0), GaussianTask([1.0, 1.0], context_size=5), heads=1, steps=3, batch_size=8)
        >>> run.risk.shape, run.params.W_K.shape
        ((3,), (1, 3, 3))

    Source: appendix C.1 of arXiv 2512.04268.
    """
    if objective not in OBJECTIVES:
        raise ValueError(f"objective must be one of {OBJECTIVES}, got {objective!r}")
    _validate.count("steps", steps)
    _validate.count("batch_size", batch_size)
    learning_rate = _validate.number("learning_rate", learning_rate, above=0.0)
    bias = _validate.number("bias", bias)
    guess = [0.0] * task.dim if guess is None else _validate.vector("guess", guess, task.dim)

    key_init, key_batches = jax.random.split(key)
    weights = (init(key_init, task.dim, heads, init_scale, dtype=dtype), jnp.asarray(guess, dtype))
    optimizer = optax.adam(learning_rate)

    def loss(weights, key):
        params, guess = weights
        guess = guess if train_guess else jax.lax.stop_gradient(guess)
        if objective == "population":
            return population_risk(params, task, guess, bias)
        X, y, x_q, target, _ = sample(key, task, batch_size, dtype=dtype)
        y_q = jnp.einsum("bd,d->b", x_q, guess) + bias
        prediction = jax.vmap(partial(predict, params))(jax.vmap(gram)(X, y), x_q, y_q)
        return jnp.mean((prediction - target) ** 2)

    def step(state, key):
        weights, opt_state = state
        risk, gradient = jax.value_and_grad(loss)(weights, key)
        # A frozen guess has gradient zero, and Adam leaves it where it is, bit for bit.
        # optax raises a float to the power of its step counter.
        with jax.numpy_dtype_promotion("standard"):
            updates, opt_state = optimizer.update(gradient, opt_state)
        return (optax.apply_updates(weights, updates), opt_state), risk

    @jax.jit
    def run(weights, keys):
        (weights, _), risk = jax.lax.scan(step, (weights, optimizer.init(weights)), keys)
        return Fit(*weights, risk)

    return run(weights, jax.random.split(key_batches, steps))
