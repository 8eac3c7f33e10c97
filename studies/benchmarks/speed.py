"""What a training step and a recurrent layer cost, beside plain code in JAX, and beside
the least time that this machine could take.
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
    """A million normals, and a product of two matrices, alone."""
    n = 1024
    white = {"noisy": False, "compress": False, "dtype": jnp.float32}
    normals = jax.jit(lambda key: draw(key, 10, 10, n * n // 120, **white).tokens)
    product = jax.jit(lambda A: A @ A)

    def repeated(call, argument, steps):
        jax.block_until_ready([call(argument) for _ in range(steps)])

    return {
        "normals": partial(repeated, normals, jax.random.key(0)),
        "product": partial(repeated, product, jnp.ones((n, n))),
    }


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
    steps: dict[str, Callable] = {}
    objectives = ("sampled", "population")
    for heads in (1, 11):
        steps[f"plain JAX, sampled, H = {heads}"] = plain_jax(heads)
        for what in objectives:
            steps[f"ours, {what}, H = {heads}"] = library([Run(TASK, heads)], what)
    sizes = {", d = C = 50": task(50, 50), ", C = 100": task(C=100)}
    sizes[", C = 10,000"] = task(C=10_000)
    runs = {size: [Run(each, 11)] for size, each in sizes.items()}
    for number in (12, 100):
        rates = [RATE + k * 1e-6 for k in range(number)]
        runs[f", {number} runs"] = [Run(TASK, 11, learning_rate=rate) for rate in rates]
    for label, each in runs.items():
        for what in objectives:
            steps[f"ours, {what}, H = 11{label}"] = library(each, what)
    for rule in ("delta", "gated_delta"):
        steps[f"plain scan, {rule}"] = recurrent(rule, plain=True)
        steps[f"ours, {rule}"] = recurrent(rule, plain=False)
    times = medians(steps | peaks(), 0.3)
    peak = {"normals": times["normals"] / 2**20, "product": times["product"] / 2**30}
    floors = {
        f"ours, sampled, H = 11{size}": least(peak, each)
        for size, each in ({"": TASK} | sizes).items()
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

{sentence(origin(name, "jax", "jaxlib", "optax", "numpy"))}
JAX runs on {jax.devices()[0].device_kind}.

Medians of blocks that take turns, without compilation; float32, batch {BATCH},
d = C = 10 unless a row says otherwise. “Of the peak” is the time that the step's
normals and products alone would take at this machine's own rates, divided by the time
of the step. The layers: value and gradient, {CONTEXTS} contexts of {TOKENS} tokens. The
last two rows: 2^20 normals, a product of two 1024 by 1024 matrices.

{table(["", "ms", "of the peak"], rows)}"""
