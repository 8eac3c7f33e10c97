"""Plain implementations of the paper's training, to compare with: a step called from a Python loop.

All train in float32 with Adam, from optax or PyTorch, on fresh standard normal tasks, w ~ N(w*, I).
"""

import os
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import optax

from lsalib.attention import LSAParams, embed, init, lsa
from lsalib.tasks import GaussianTask

LEARNING_RATE = 5e-4


def literal(task: GaussianTask, heads: int, batch_size: int):
    """Eqs. 2-6 literally: every column of every head is computed."""
    layer = lambda params, X, y, x_q: lsa(params, embed(X, y, x_q, 0.0))
    return _jax_stepper(jax.vmap(layer, (None, 0, 0, 0)), task, heads, batch_size)


def query_column(task: GaussianTask, heads: int, batch_size: int):
    """Only the query's column, the one that is read."""

    def predictions(params, X, y, x_q):
        Z = jnp.concatenate([X, y[..., None]], axis=-1)
        z_q = jnp.pad(x_q, ((0, 0), (0, 1)))
        queries = jnp.einsum("hij,bj->bhi", params.W_Q, z_q)
        scores = jnp.einsum("bcj,hij,bhi->bhc", Z, params.W_K, queries)
        heads_out = jnp.einsum("bhc,bcj->bhj", scores, Z) / Z.shape[1]
        return jnp.einsum("hk,hkj,bhj->b", params.W_P[:, -1], params.W_V, heads_out)

    return _jax_stepper(predictions, task, heads, batch_size)


def _jax_stepper(predictions, task: GaussianTask, heads: int, batch_size: int):
    C, d = task.context_size, task.dim
    prior_mean = jnp.asarray(task.prior_mean, jnp.float32)

    def loss(params: LSAParams, key):
        key_x, key_q, key_w = jax.random.split(key, 3)
        X = jax.random.normal(key_x, (batch_size, C, d))
        x_q = jax.random.normal(key_q, (batch_size, d))
        w = prior_mean + jax.random.normal(key_w, (batch_size, d))
        y = jnp.einsum("bcd,bd->bc", X, w)
        target = jnp.einsum("bd,bd->b", x_q, w)
        return jnp.mean((predictions(params, X, y, x_q) - target) ** 2)

    return adam_steps(loss, init(jax.random.key(0), d, heads, 0.1))


def adam_steps(loss: Callable, params) -> Callable[[int], None]:
    """A function that takes n steps of Adam on ``loss(params, key)``, each with a key of its own."""
    optimizer = optax.adam(LEARNING_RATE)

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(params, opt_state, key):
        risk, gradient = jax.value_and_grad(loss)(params, key)
        updates, opt_state = optimizer.update(gradient, opt_state)
        return optax.apply_updates(params, updates), opt_state, risk

    state = params, optimizer.init(params)

    def run(steps: int) -> None:
        nonlocal state
        for key in jax.random.split(jax.random.key(1), steps):
            *state, risk = step(*state, key)
        risk.block_until_ready()

    return run


def torch_query_column(task: GaussianTask, heads: int, batch_size: int):
    """The query's column in PyTorch; None where it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    C, d = task.context_size, task.dim
    prior_mean = torch.tensor(task.prior_mean, dtype=torch.float32, device=device)
    W_K, W_Q, W_P, W_V = (torch.nn.Parameter(0.1 * torch.randn(heads, d + 1, d + 1, device=device)) for _ in range(4))
    optimizer = torch.optim.Adam([W_K, W_Q, W_P, W_V], lr=LEARNING_RATE)

    def run(steps: int) -> None:
        for _ in range(steps):
            X = torch.randn(batch_size, C, d, device=device)
            x_q = torch.randn(batch_size, d, device=device)
            w = prior_mean + torch.randn(batch_size, d, device=device)
            Z = torch.cat([X, torch.einsum("bcd,bd->bc", X, w)[..., None]], dim=-1)
            z_q = torch.nn.functional.pad(x_q, (0, 1))
            keys = torch.einsum("hij,hik,bk->bhj", W_K, W_Q, z_q)
            scores = torch.einsum("bcj,bhj->bhc", Z, keys)
            heads_out = torch.einsum("bhc,bcj->bhj", scores, Z) / C
            prediction = torch.einsum("hk,hkj,bhj->b", W_P[:, -1], W_V, heads_out)
            loss = ((prediction - (x_q * w).sum(-1)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return run
