"""The compiled loop behind every training."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lsalib.training.records import PIECE, Record, Schedule, State, Trained, spread


def make_program(loss, optimizer, batch_axes: int, *, together: bool = False):
    """Steps ``begin`` to ``end - 1`` of ``loss(params, data, key)``: the state after
    them, and their losses. ``together`` says that the loss takes all seeds at once.
    """
    optimizer = optax.with_extra_args_support(optimizer)

    def update(data, state: State, key):
        def total(params):
            each = loss(params, data, key)
            if not jax.tree_util.all_leaves([each]):
                raise ValueError(
                    "loss must return a float scalar or one array of them, "
                    f"got {each!r}"
                )
            return jnp.sum(each), jnp.asarray(each)

        (value, each), grads = jax.value_and_grad(total, has_aux=True)(state.params)
        extra = {
            "value": value,
            "grad": grads,
            "value_fn": lambda params: total(params)[0],
        }
        # Adam raises a float to the power of its integer count, which a strict setting
        # would refuse.
        with jax.numpy_dtype_promotion("standard"):
            updates, opt_state = optimizer.update(
                grads, state.opt_state, state.params, **extra
            )
        return State(optax.apply_updates(state.params, updates), opt_state), each

    def update_together(data, state: State, keys):
        def total(params):
            each = loss(params, data, keys)
            return jnp.sum(each), each

        (_, each), grads = jax.value_and_grad(total, has_aux=True)(state.params)
        with jax.numpy_dtype_promotion("standard"):
            updates, opt_state = jax.vmap(optimizer.update)(
                grads, state.opt_state, state.params
            )
        return State(optax.apply_updates(state.params, updates), opt_state), each

    @jax.jit
    def program(state, data, keys, begin, end):
        if together:
            update_all = partial(update_together, data)
        else:
            update_all = jax.vmap(partial(update, data))

        def step(t, carry):
            # The key of a step depends on its number alone, so a training can go on at
            # any step.
            state, losses = carry
            at_t = jax.vmap(jax.random.fold_in, (0, None))(keys, t)
            state, each = update_all(state, at_t)
            return state, losses.at[t - begin].set(each)

        each = jax.eval_shape(update_all, state, keys)[1]
        losses = jnp.zeros((PIECE, *each.shape), each.dtype)
        # The ends are traced, so the same program runs however a training is cut into
        # pieces: one that was resumed is the same bit for bit.
        state, losses = jax.lax.fori_loop(begin, end, step, (state, losses))
        return spread(jax.lax.with_sharding_constraint, state, batch_axes), losses

    return program


def advance(
    program, state: State, data, keys, batch_axes: int, settings, how: Schedule
) -> tuple[Trained, np.ndarray]:
    """The end on the host, and the step at which each seed or run diverged, or -1.

    The first ``batch_axes`` axes of all arrays are those of seeds and runs. A
    checkpoint must agree with ``settings``.
    """
    how, state = how.checked(), jax.device_get(state)
    losses = jax.eval_shape(program, state, data, keys, 0, 1)[1]
    record = Record(state, losses, batch_axes, how, settings)
    state = spread(jax.device_put, record.state, batch_axes)
    with record.bar():
        while (stop := record.next_stop()) is not None:
            state, losses = program(state, data, keys, record.at, stop)
            record.add(stop, state, losses)
    return record.end()
