"""Training steps a second: the library's loop beside plain steps in JAX and PyTorch."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from lsalib import attention
from lsalib.tasks import GaussianTask, sample
from lsalib.training import Run, sweep
from studies.benchmarks.measuring import medians, origin, sentence, table

BATCH, RATE = 2048, 5e-4
TASK, LONG = GaussianTask([2.0] * 10, 10), GaussianTask([2.0] * 10, 10_000)
SWEEP = [Run(TASK, heads) for heads in range(1, 13)]


def library(runs: list[Run], objective: str) -> Callable[[int], object]:
    return lambda steps: sweep(
        jax.random.key(0), runs, steps=steps, objective=objective
    )


def plain_jax(heads: int) -> Callable[[int], object]:
    """A compiled step, batch first, as one writes it down; the host calls it again and
    again.
    """
    optimizer = optax.adam(RATE)

    def loss(params, key):
        batch = sample(key, TASK, BATCH)
        predict = lambda X, y, x_q: attention.predict(
            params, attention.gram(X, y), x_q, 0.0
        )
        return jnp.mean(
            (jax.vmap(predict)(batch.X, batch.y, batch.x_q) - batch.target) ** 2
        )

    @jax.jit
    def step(params, state, key):
        value, gradient = jax.value_and_grad(loss)(params, key)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(params, updates), state, value

    def run(steps: int) -> None:
        params = attention.init(jax.random.key(0), TASK.dim, heads, 0.1)
        state = optimizer.init(params)
        for key in jax.random.split(jax.random.key(1), steps):
            params, state, value = step(params, state, key)
        jax.block_until_ready(value)

    return run


def plain_torch(heads: int) -> Callable[[int], object] | None:
    """The same in PyTorch; None where it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    C, d = TASK.context_size, TASK.dim
    mean = torch.tensor(TASK.prior_mean, dtype=torch.float32)
    W_K, W_Q, W_P, W_V = (
        torch.nn.Parameter(0.1 * torch.randn(heads, d + 1, d + 1)) for _ in range(4)
    )
    optimizer = torch.optim.Adam([W_K, W_Q, W_P, W_V], lr=RATE)

    def run(steps: int) -> None:
        for _ in range(steps):
            X, x_q, w = (
                torch.randn(BATCH, C, d),
                torch.randn(BATCH, d),
                mean + torch.randn(BATCH, d),
            )
            Z = torch.cat([X, torch.einsum("bcd,bd->bc", X, w)[..., None]], dim=-1)
            keys = torch.einsum(
                "hij,hik,bk->bhj", W_K, W_Q, torch.nn.functional.pad(x_q, (0, 1))
            )
            values = (
                torch.einsum("bhc,bcj->bhj", torch.einsum("bcj,bhj->bhc", Z, keys), Z)
                / C
            )
            answer = torch.einsum("hk,hkj,bhj->b", W_P[:, -1], W_V, values)
            optimizer.zero_grad()
            ((answer - (x_q * w).sum(-1)) ** 2).mean().backward()
            optimizer.step()

    return run


def measured(name: str, quick: bool) -> str:
    """A table: one run, twelve runs at once, and a long context."""
    makers: dict[str, Callable] = {
        "plain step in JAX, H = 1": lambda: plain_jax(1),
        "plain step in JAX, H = 11": lambda: plain_jax(11),
        "plain step in PyTorch, H = 1": lambda: plain_torch(1),
        "plain step in PyTorch, H = 11": lambda: plain_torch(11),
        "sampled, H = 1": lambda: library([Run(TASK, 1)], "sampled"),
        "sampled, H = 11": lambda: library([Run(TASK, 11)], "sampled"),
        "sampled, H = 11, C = 10,000": lambda: library([Run(LONG, 11)], "sampled"),
        "sampled, 12 runs": lambda: library(SWEEP, "sampled"),
        "exact, H = 1": lambda: library([Run(TASK, 1)], "population"),
        "exact, H = 11": lambda: library([Run(TASK, 11)], "population"),
        "exact, 12 runs": lambda: library(SWEEP, "population"),
    }
    runs = {case: run for case, make in makers.items() if (run := make())}
    times = medians(runs, *((2, 0.05) if quick else (5, 1.0)))
    base = times["plain step in JAX, H = 11"]
    rows = [
        [case, f"{1e3 * each:.3f}", f"{base / each:.1f}"]
        for case, each in times.items()
    ]
    return f"""# Speed of training

{sentence(origin(name, "jax", "jaxlib", "optax", "numpy", "torch"))}
JAX runs on {jax.devices()[0].device_kind}.

Medians of blocks that take turns, without compilation; float32, batch {BATCH},
d = C = 10 unless a row says otherwise. The twelve runs have 1 to 12 heads.

{table(["", "ms a step", "times as fast as the plain step in JAX, H = 11"], rows)}"""
