"""Training steps of the field's layers, beside plain implementations: ratios of speeds, measured in one run."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from lsalib.layers import Layer
from lsalib.layers.layer import RULES
from lsalib.tasks import GaussianTask
from studies.benchmarks.measuring import medians, origin, sentence, table
from studies.benchmarks.references import adam_steps

BATCH, TASK = 2048, GaussianTask([2.0] * 10, context_size=10)


def plain(rule: str, params, X, y, x_q):
    """One layer for a whole batch, as one would write it down: all states in full, the recurrence as a loop."""
    Z = jnp.concatenate([X, y[..., None]], axis=-1)
    guess = x_q @ params.guess
    z_q = jnp.concatenate([x_q, guess[:, None]], axis=-1)
    W_K, W_Q, W_V, W_P = (W[0] for W in (params.W_K, params.W_Q, params.W_V, params.W_P))
    keys, values = jnp.einsum("hnj,bcj->cbhn", W_K, Z), jnp.einsum("hmj,bcj->cbhm", W_V, Z)
    queries = jnp.einsum("hnj,bj->bhn", W_Q, z_q)
    if rule == "softmax":
        weights = jax.nn.softmax(jnp.einsum("cbhn,bhn->cbh", keys, queries) * keys.shape[-1] ** -0.5, axis=0)
        outputs = jnp.einsum("cbh,cbhm->bhm", weights, values)
        return guess + jnp.einsum("hjm,bhm->bj", W_P, outputs)[:, -1]
    if rule == "normalized":
        keys, queries = jax.nn.elu(keys) + 1, jax.nn.elu(queries) + 1
        values = jnp.concatenate([values, jnp.ones_like(values[..., :1])], axis=-1)
    step = {"linear": 1 / len(keys)}.get(rule, 1.0) if params.step is None else params.step[0][:, None, None]
    gate = 1.0 if params.gate is None else params.gate[0][:, None, None]

    def token(S, each):
        key, value = each
        S = gate * S
        error = value - jnp.einsum("bhmn,bhn->bhm", S, key) if "delta" in rule else value
        return S + step * error[..., None] * key[..., None, :], None

    start = jnp.broadcast_to(params.state[0], (len(X), *params.state.shape[1:]))
    S, _ = jax.lax.scan(token, start, (keys, values))
    outputs = jnp.einsum("bhmn,bhn->bhm", S, queries)
    if rule == "normalized":
        outputs = outputs[..., :-1] / outputs[..., -1:]
    return guess + jnp.einsum("hjm,bhm->bj", W_P, outputs)[:, -1]


def stepper(layer: Layer, predictions: Callable) -> Callable[[int], None]:
    """A function that takes n steps of Adam, each on a fresh batch."""

    def loss(params, key):
        batch = TASK.sample(key, BATCH)
        return jnp.mean((predictions(params, batch.X, batch.y, batch.x_q) - batch.target) ** 2)

    return adam_steps(loss, layer.init(jax.random.key(0), TASK.dim, scale=0.05))


def steps_per_second(heads: int, blocks: int, seconds: float) -> str:
    runs: dict[tuple[str, str], Callable[[int], object]] = {}
    for rule in RULES:
        forms = {"chunks": Layer(rule, heads), "token by token": Layer(rule, heads, chunk=None)}
        for name, layer in forms.items():
            if (rule, name) != ("softmax", "token by token"):
                runs[rule, name] = stepper(layer, jax.vmap(layer.predict, (None, 0, 0, 0)))
        runs[rule, "plain"] = stepper(forms["chunks"], partial(plain, rule))
    times = medians(runs, blocks, seconds)
    over = lambda rule, name: f"{times[rule, 'plain'] / times[rule, name]:.2f}" if (rule, name) in times else "–"
    speed = lambda rule: f"{1 / times[rule, 'plain']:,.1f}"
    rows = [[rule, speed(rule), over(rule, "chunks"), over(rule, "token by token")] for rule in RULES]
    header = ["rule", "plain, steps/s", "lsalib over it, chunks", "lsalib over it, token by token"]
    return f"## Heads: {heads}\n\n{table(header, rows)}"


def measured(name: str, quick: bool) -> str:
    head = f"""# Layers of the field

{sentence(origin(name, "jax", "jaxlib", "optax", "numpy"))} JAX runs on {jax.devices()[0].device_kind}.

Training steps of one layer, d = C = 10, batch {BATCH}, float32. Each is measured beside a plain implementation in JAX
that keeps all states in full and loops over the tokens. Their blocks take turns; the ratios are of medians. Other
programs may have run at the same time, so only the ratios count.
"""
    return "\n".join([head, *(steps_per_second(heads, *((2, 0.05) if quick else (5, 0.2))) for heads in (1, 4))])
