"""What a training step and a recurrent layer cost, beside plain code in JAX and in
PyTorch, and beside the least time that this machine could take.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import optax

from lsalib import attention
from lsalib._draw import draw
from lsalib.layers import Layer
from lsalib.tasks import GaussianTask, sample
from lsalib.training import Run, sweep
from studies.benchmarks.measuring import medians, origin, sentence, table

BATCH, RATE = 2048, 5e-4
SWEEP = [1, 12, 100]  # runs at once
# A layer reads this many contexts of so many tokens.
CONTEXTS, TOKENS = 64, 512


def task(d: int = 10, C: int = 10) -> GaussianTask:
    return GaussianTask([2.0] * d, C)


TASK = task()


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


def recurrent(rule: str, *, plain: bool) -> Callable[[int], object]:
    """Value and gradient of one layer's loss: ours, or a scan with the batch first."""
    layer, d = Layer(rule), TASK.dim
    batch = sample(jax.random.key(0), task(d, TOKENS), CONTEXTS)
    params = layer.init(jax.random.key(1), d)

    def scan(params, X, y, x_q):
        Z = jnp.concatenate([X, y[..., None]], axis=-1)
        keys, values = Z @ params.W_K[0, 0].T, Z @ params.W_V[0, 0].T
        gate = params.gate[0, 0] if rule == "gated_delta" else 1.0

        def write(state, token):
            key, value = token
            state = gate * state
            missed = value - jnp.einsum("bij,bj->bi", state, key)
            step = params.step[0, 0]
            return state + step * missed[:, :, None] * key[:, None], None

        start = jnp.broadcast_to(params.state[0, 0], (CONTEXTS, d + 1, d + 1))
        tokens = keys.swapaxes(0, 1), values.swapaxes(0, 1)
        state, _ = jax.lax.scan(write, start, tokens)
        query = jnp.append(x_q, (x_q @ params.guess)[:, None], axis=1)
        read = jnp.einsum("bij,bj->bi", state, query @ params.W_Q[0, 0].T)
        return query[:, -1] + read @ params.W_P[0, 0, -1]

    predict = scan if plain else jax.vmap(layer.predict, (None, 0, 0, 0))
    loss = lambda params: jnp.mean(
        (predict(params, batch.X, batch.y, batch.x_q) - batch.target) ** 2
    )
    step = jax.jit(jax.value_and_grad(loss))
    return lambda steps: jax.block_until_ready([step(params) for _ in range(steps)])


def peaks() -> dict[str, Callable[[int], object]]:
    """A million normals, a product of two matrices, and a copy, alone."""
    n = 1024
    keys, square = jax.random.key(0), jnp.ones((n, n))
    normals = jax.jit(lambda key: draw(key, 10, 10, n * n // 120, **WHITE).tokens)
    product = jax.jit(lambda A: A @ A)
    copy = jax.jit(lambda A: A + 1)
    large = jnp.ones((16, n, n))  # 64 MB: no cache holds it
    calls = {"normals": (normals, keys), "product": (product, square)}
    calls["copy"] = copy, large

    def repeated(call, argument, steps):
        jax.block_until_ready([call(argument) for _ in range(steps)])

    return {name: partial(repeated, *each) for name, each in calls.items()}


WHITE = {"noisy": False, "compress": False, "dtype": jnp.float32}


def least(rates: dict[str, float], task: GaussianTask) -> float:
    """Seconds that one sampled step needs at the peaks: its normals, and three times
    (value and gradient) the products of a Gram matrix and of a prediction from it.
    """
    d, C = task.dim, task.context_size
    tokens, D = min(C, d), d + 1
    drawn = C * d if C <= d else d * (d - 1) // 2
    products = (tokens + D) * D * (D + 1) / 2
    return BATCH * (
        (drawn + 2 * d) * rates["normals"] + 3 * products * rates["product"]
    )


def measured(name: str, quick: bool) -> str:
    """One table: a step of training by the size of the task and the number of runs, the
    layers, and the machine's own peaks.
    """
    both = ("sampled", "population")
    steps: dict[str, Callable] = {}
    for heads in (1, 11):
        steps[f"plain JAX, sampled, H = {heads}"] = plain_jax(heads)
        if torch := plain_torch(heads):
            steps[f"plain PyTorch, sampled, H = {heads}"] = torch
        for what in both:
            runs = [Run(TASK, heads)]
            steps[f"ours, {what}, H = {heads}"] = library(runs, what)
    sizes = {"d = C = 50": task(50, 50), "C = 100": task(C=100)}
    sizes["C = 10,000"] = task(C=10_000)
    for size, each in sizes.items():
        for what in both:
            steps[f"ours, {what}, H = 11, {size}"] = library([Run(each, 11)], what)
    for number in SWEEP[1:]:
        for what in both:
            runs = [Run(TASK, 11, learning_rate=RATE + k * 1e-6) for k in range(number)]
            steps[f"ours, {what}, H = 11, {number} runs"] = library(runs, what)
    for rule in ("delta", "gated_delta"):
        steps[f"plain scan, {rule}"] = recurrent(rule, plain=True)
        steps[f"ours, {rule}"] = recurrent(rule, plain=False)
    times = medians(steps | peaks(), *((2, 0.02) if quick else (5, 0.3)))
    rates = {"normals": times["normals"] / 2**20, "product": times["product"] / 2**30}
    sizes |= {"": TASK}
    floors = {
        f"ours, sampled, H = 11{size and ', '}{size}": least(rates, each)
        for size, each in sizes.items()
    }
    rows = []
    for case, seconds in times.items():
        share = f"{floors[case] / seconds:.0%}" if case in floors else "–"
        rows.append([case, f"{1e3 * seconds:.3f}", share])
    return f"""# Speed

{sentence(origin(name, "jax", "jaxlib", "optax", "numpy", "torch"))}
JAX runs on {jax.devices()[0].device_kind}.

Medians of blocks that take turns, without compilation; float32, batch {BATCH},
d = C = 10 unless a row says otherwise. “Of the peak” is the time that the step's
normals and products alone would take at this machine's own rates, divided by the time
of the step. The layers: value and gradient, {CONTEXTS} contexts of {TOKENS} tokens. The
last three rows: 2^20 normals, a product of two 1024 by 1024 matrices, a copy of 64 MB.

{table(["", "ms", "of the peak"], rows)}"""
