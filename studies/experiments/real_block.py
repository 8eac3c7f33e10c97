"""The layers that are really used, piece by piece: which piece supplies the constant
that attention lacks?

Every row adds a piece to the row above, as in DeltaNet (Yang, Wang, Zhang et al. 2024)
and Gated DeltaNet (Yang, Kautz and Hatamizadeh 2025), and is trained with the right
guess of the tasks' mean weights and with a guess of zero.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from studies.experiments import experiment
from studies.experiments.experiment import Experiment, on_new_tasks, risk

DIM, LENGTH, PRIOR_MEAN, SEEDS, TAPS = 10, 10, 2.0, 3, 4
STEPS, BATCH, LEARNING_RATE, TESTS = 5000, 2048, 1e-2, 500 * 2048
PIECES = ["plain", "convolution", "SiLU", "output norm", "gate and step", "output gate"]


class Setting(NamedTuple):
    """The last of the pieces that a head has, and the guess in each entry."""

    last: str
    guess: float

    def has(self, piece: str) -> bool:
        return PIECES.index(piece) <= PIECES.index(self.last)


SETTINGS = [Setting(piece, guess) for piece in PIECES for guess in (PRIOR_MEAN, 0.0)]


def start(key, dim: int = DIM) -> dict[str, jax.Array]:
    """All weights of a head; a setting leaves some unused.

    Filters begin near the token itself, gates near 1.
    """
    n = dim + 1
    shapes = (
        dict.fromkeys("KQVG", (n, n))
        | dict.fromkeys(("p", "step", "gate"), (n,))
        | {"taps": (3 * n, TAPS)}
    )
    keys = jax.random.split(key, len(shapes))
    params = {
        name: jax.random.normal(key, shape) / shape[-1] ** 0.5
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }
    params |= {name: 0.1 * params[name] for name in ("taps", "step", "gate")}
    params["taps"] += jnp.eye(TAPS)[0]
    return params | {"eta": jnp.array(0.5), "A": jnp.array(0.0), "dt": jnp.array(-4.0)}


def unit(entries):
    return entries * jax.lax.rsqrt(jnp.square(entries).sum(0) + 1e-12)


def entries(has, weights, taps, tokens) -> list:
    """Linear in the tokens, then filtered by each entry's own taps, then SiLU; one
    (entries, batch) for each token.
    """
    out = [weights @ token for token in tokens]
    if has("convolution"):
        out = [
            sum(taps[:, t, None] * out[i - t] for t in range(min(i + 1, TAPS)))
            for i in range(len(out))
        ]
    return [jax.nn.silu(each) for each in out] if has("SiLU") else out


def head(has, own, tokens):
    """What the query, the last of the tokens, reads of one head; the initial state is
    zero.

    Token i writes its value less what its key reads, times the step. Later tokens read
    that by the product of the keys.
    """
    *context, query = tokens
    taps, steps = jnp.split(own["taps"], 3), [own["eta"]] * len(context)
    readers = [unit(k) for k in entries(has, own["K"], taps[0], context)]
    values = entries(has, own["V"], taps[1], context)
    q = entries(has, own["Q"], taps[2], tokens[-TAPS:])[-1]
    readers.append(unit(q) if has("output norm") else q)
    written: list = []
    fades: list = []
    if has("gate and step"):
        steps = [jax.nn.sigmoid(own["step"] @ token) for token in context]
        rate = jnp.exp(own["A"])
        fades = [
            jnp.exp(-rate * jax.nn.softplus(own["gate"] @ token + own["dt"]))
            for token in context
        ]
    for i, reader in enumerate(readers):
        if fades[i:]:
            written = [fades[i] * u for u in written]
        seen = sum(
            ((k * reader).sum(0) * u for k, u in zip(readers, written, strict=False)),
            jnp.zeros(()),
        )
        if i < len(context):
            written.append(steps[i] * (values[i] - seen))
    if has("output norm"):
        seen = seen * jax.lax.rsqrt(jnp.square(seen).mean(0) + 1e-5)
    if has("output gate"):
        seen = seen * jax.nn.silu(own["G"] @ query)
    return own["p"] @ seen


def draw(key, dim: int, length: int, count: int):
    """New tasks, the last axis the fast one: features (C + 1, d, count) and labels."""
    features, weights = jax.random.split(key)
    X = jax.random.normal(features, (length + 1, dim, count))
    w = PRIOR_MEAN + jax.random.normal(weights, (dim, count))
    return X, (X * w).sum(1)


def errors(setting: Setting, params, key):
    """Squared errors on new tasks."""
    X, labels = draw(key, DIM, LENGTH, BATCH)
    guess = setting.guess * X[-1].sum(0)
    tokens = [
        *jnp.concatenate([X, jnp.append(labels[:-1], guess[None], 0)[:, None]], 1)
    ]
    return jnp.square(guess + head(setting.has, params, tokens) - labels[-1])


def trained(errors, init, seeds: int, steps: int) -> list:
    """The last weights of each seed. One seed after the other computes its loss and
    gradient: side by side they take six times as long here.
    """
    both = jax.custom_batching.sequential_vmap(
        jax.value_and_grad(lambda params, key: errors(params, key).mean())
    )
    loss = jax.custom_vjp(lambda params, key: both(params, key)[0])
    loss.defvjp(
        both,
        lambda slope, given: (jax.tree.map(lambda leaf: given * leaf, slope), None),
    )
    return experiment.trained(loss, init, seeds, steps, LEARNING_RATE)


def tested(errors, ends: list, batches: int) -> list[list[float]]:
    """The risk of each seed on new tasks, and its standard error."""
    test = jax.jit(errors)
    return [risk(on_new_tasks(partial(test, params), batches)) for params in ends]


def run(settings=SETTINGS, seeds: int = SEEDS) -> dict[str, np.ndarray]:
    """``risk`` (settings, seeds, 2)."""
    risks = []
    for setting in settings:
        of_setting = partial(errors, setting)
        ends = trained(of_setting, start, seeds, STEPS)
        risks.append(tested(of_setting, ends, TESTS // BATCH))
    return {"risk": np.array(risks)}


EXPERIMENT = Experiment(
    "the block that is really used, piece by piece, with the right guess and with a "
    "guess of zero",
    run,
    partial(run, SETTINGS[:1], 1),
    rtol=5e-2,
)
