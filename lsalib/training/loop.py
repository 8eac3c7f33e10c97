"""The compiled loop behind every training."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lsalib.training.records import PIECE, Record, State, Trained, finite, spread


def make_program(loss, optimizer, batch_axes: int, *, together: bool = False):
    """Steps ``begin`` to ``end - 1`` of ``loss(params, data, key)``: the state after
    them, and their losses. ``together`` says that loss and optimizer take all seeds at
    once.
    """
    optimizer = optax.with_extra_args_support(optimizer)

    def update(data, state: State, key):
        def total(params):
            losses = loss(params, data, key)
            return jnp.sum(losses), jnp.asarray(losses)

        (value, losses), grads = jax.value_and_grad(total, has_aux=True)(state.params)
        # Adam raises a float to the power of its integer count, which a strict setting
        # would refuse.
        with jax.numpy_dtype_promotion("standard"):
            updates, opt_state = optimizer.update(
                grads,
                state.opt_state,
                state.params,
                value=value,
                grad=grads,
                value_fn=lambda params: total(params)[0],
            )
        return State(optax.apply_updates(state.params, updates), opt_state), losses

    update_all = update if together else jax.vmap(update, (None, 0, 0))

    @jax.jit
    def program(state, data, keys, begin, end):
        def step(t, carry):
            # The key of a step depends on its number alone, so a training can go on at
            # any step.
            state, losses = carry
            at_t = jax.vmap(jax.random.fold_in, (0, None))(keys, t)
            state, each = update_all(data, state, at_t)
            return spread(state, batch_axes), losses.at[t - begin].set(each)

        each = jax.eval_shape(update_all, data, state, keys)[1]
        losses = jnp.zeros((PIECE, *each.shape), each.dtype)
        # The ends are traced, so the same program runs however a training is cut into
        # pieces: one that was resumed is the same bit for bit.
        carry = jax.lax.fori_loop(begin, end, step, (state, losses))
        return spread(carry, 0)  # so that every process has all of it

    return program


def advance(
    program, data, state: State, keys, batch_axes: int, settings: dict, record: Record
) -> tuple[Trained, np.ndarray]:
    """The end on the host, and the step at which each seed or run diverged, or -1."""
    losses = jax.eval_shape(program, state, data, keys, 0, 1)[1]
    record.begin(jax.device_get(state), losses, batch_axes, settings)
    for stop in record.stops():
        piece = program(record.state, data, keys, record.at, stop)
        record.add(stop, *jax.device_get(piece))
        if not finite(record.losses[stop - 1], batch_axes).any():
            break
    return record.end()
