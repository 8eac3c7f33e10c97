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
# A layer reads this many contexts of so many tokens.
CONTEXTS, TOKENS = 64, 512


def task(d: int = 10, C: int = 10) -> GaussianTask:
    return GaussianTask([2.0] * d, C)


TASK = task()


def library(runs: list[Run], objective: str) -> Callable[[int], object]:
    return lambda steps: sweep(
        jax.random.key(0), runs, steps=steps, objective=objective
    )


def repeated(call: Callable, argument, steps: int) -> None:
    jax.block_until_ready([call(argument) for _ in range(steps)])


def mean_square(predict: Callable, batch):
    """The error of a prediction from one context, over a batch of them."""
    each = jax.vmap(predict)(batch.X, batch.y, batch.x_q)
    return jnp.mean((each - batch.target) ** 2)


def plain_jax(heads: int) -> Callable[[int], object]:
    """A compiled step, batch first, as one writes it down; the host calls it again and
    again.
    """
    optimizer = optax.adam(RATE)

    def loss(params, key):
        predict = lambda X, y, x_q: attention.predict(
            params, attention.gram(X, y), x_q, 0.0
        )
        return mean_square(predict, sample(key, TASK, BATCH))

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
            values = torch.einsum("bcj,bhj->bhc", Z, keys) / C
            answer = torch.einsum("hk,hkj,bhc,bcj->b", W_P[:, -1], W_V, values, Z)
            optimizer.zero_grad()
            ((answer - (x_q * w).sum(-1)) ** 2).mean().backward()
            optimizer.step()

    return run


def recurrent(rule: str, *, plain: bool) -> Callable[[int], object]:
    """Value and gradient of one layer's loss: ours, or a scan as one writes it down."""
    layer, d = Layer(rule), TASK.dim
    batch = sample(jax.random.key(0), task(d, TOKENS), CONTEXTS)

    def scan(params, X, y, x_q):
        one_head = jax.tree.map(lambda W: W[0, 0], params._replace(guess=None))
        W_K, W_Q, W_V, W_P, _, start, step, gate = one_head

        def write(state, token):
            key, value = token
            state = state if gate is None else gate * state
            return state + step * jnp.outer(value - state @ key, key), None

        Z = jnp.concatenate([X, y[:, None]], axis=1)
        state, _ = jax.lax.scan(write, start, (Z @ W_K.T, Z @ W_V.T))
        z_q = jnp.append(x_q, x_q @ params.guess)
        return z_q[-1] + W_P[-1] @ state @ W_Q @ z_q

    predict = scan if plain else layer.predict
    loss = lambda params: mean_square(partial(predict, params), batch)
    params = layer.init(jax.random.key(1), d)
    return partial(repeated, jax.jit(jax.value_and_grad(loss)), params)


def peaks() -> dict[str, Callable[[int], object]]:
    """A million normals, a product of two matrices, and a copy, alone."""
    n = 1024
    white = {"noisy": False, "compress": False, "dtype": jnp.float32}
    normals = lambda key: draw(key, 10, 10, n * n // 120, **white).tokens
    large = jnp.ones((16, n, n))  # 64 MB: no cache holds it
    calls = {
        "normals": (jax.jit(normals), jax.random.key(0)),
        "product": (jax.jit(lambda A: A @ A), jnp.ones((n, n))),
        "copy": (jax.jit(lambda A: A + 1), large),
    }
    return {name: partial(repeated, *call) for name, call in calls.items()}


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


def measured(name: str) -> str:
    """One table: a step of training by the size of the task and the number of runs, the
    layers, and the machine's own peaks.
    """
    sizes = {"": TASK, ", d = C = 50": task(50, 50), ", C = 100": task(C=100)}
    sizes[", C = 10,000"] = task(C=10_000)
    runs = {"1": [Run(TASK, 1)]}
    runs |= {f"11{size}": [Run(each, 11)] for size, each in sizes.items()}
    for number in (12, 100):
        rates = [RATE + k * 1e-6 for k in range(number)]
        runs[f"11, {number} runs"] = [
            Run(TASK, 11, learning_rate=rate) for rate in rates
        ]
    steps = {
        f"ours, {what}, H = {heads}": library(each, what)
        for heads, each in runs.items()
        for what in ("sampled", "population")
    }
    for heads in (1, 11):
        steps[f"plain JAX, sampled, H = {heads}"] = plain_jax(heads)
        if torch := plain_torch(heads):
            steps[f"plain PyTorch, sampled, H = {heads}"] = torch
    for rule in ("delta", "gated_delta"):
        steps[f"plain scan, {rule}"] = recurrent(rule, plain=True)
        steps[f"ours, {rule}"] = recurrent(rule, plain=False)
    times = medians(steps | peaks(), 0.3)
    peak = {"normals": times["normals"] / 2**20, "product": times["product"] / 2**30}
    floors = {
        f"ours, sampled, H = 11{size}": least(peak, each)
        for size, each in sizes.items()
    }
    rows = [
        [
            case,
            f"{1e3 * seconds:.3f}",
            f"{floors[case] / seconds:.0%}" if case in floors else "–",
        ]
        for case, seconds in times.items()
    ]
    return f"""# Speed

{sentence(origin(name, "jax", "jaxlib", "optax", "numpy", "torch"))}
JAX runs on {jax.devices()[0].device_kind}.

Medians of blocks that take turns, without compilation; float32, batch {BATCH},
d = C = 10 unless a row says otherwise. “Of the peak” is the time that the step's
normals and products alone would take at this machine's own rates, divided by the time
of the step. The layers: value and gradient, {CONTEXTS} contexts of {TOKENS} tokens. The
last three rows: 2^20 normals, a product of two 1024 by 1024 matrices, a copy of 64 MB.

{table(["", "ms", "of the peak"], rows)}"""
