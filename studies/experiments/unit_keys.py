"""Delta heads with keys of length one: what a trained initial state, the right guess,
or neither can reach.

Adam takes long to make keys long enough, so the risk of a fixed sample of tasks is
minimized by BFGS, with the best read-out at every step; the result is tested on new
tasks. Half of the searches begin near the descent on features.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize

from studies.experiments.experiment import Experiment, risk

PRIOR_MEAN, STARTS = 2.0, 4
TASKS, TESTS, STEPS = 5000, 400_000, 300


class Setting(NamedTuple):
    """d, C and H, and where the tasks' mean can be kept: the right guess, a trained
    initial state, or nowhere.
    """

    dim: int
    length: int
    heads: int
    start: str


SETTINGS = [
    Setting(2, 8, 1, "state"),
    Setting(2, 8, 1, "guess"),
    Setting(2, 8, 2, "guess"),
    Setting(2, 8, 1, "none"),
    Setting(10, 10, 1, "state"),
    Setting(10, 10, 1, "guess"),
]


def draw(seed, setting: Setting, count: int):
    """Features (C, d, count) and weights (d, count); the last axis is the fast one."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(setting.length, setting.dim, count))
    return jnp.array(features), jnp.array(
        PRIOR_MEAN + rng.normal(size=(setting.dim, count))
    )


def states(params: dict, X, w):
    """The rows of the last states that a prediction reads, (H n, count)."""
    tokens = jnp.concatenate([X, (X * w).sum(1, keepdims=True)], 1)
    keys = jnp.einsum("hnj,tjb->thnb", params["K"], tokens)
    keys = keys / jnp.sqrt(jnp.square(keys).sum(2, keepdims=True))
    values = jnp.einsum("hj,tjb->thb", params["b"], tokens)
    s = jnp.broadcast_to(params["start"][..., None], keys.shape[1:])
    for k, v in zip(keys, values, strict=True):
        s = s + (params["step"][:, None] * (v - (s * k).sum(1)))[:, None] * k
    return s.reshape(-1, s.shape[-1])


def searched(setting: Setting, seed: int) -> list[float]:
    """The risk on new tasks where one search ends, and its standard error."""
    d, _, H, start = setting
    rng = np.random.default_rng([seed, 1])
    shapes = {"K": (H, d + 1, d + 1), "b": (H, d + 1), "start": (H, d + 1)}
    begin = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    # near the descent on residual labels; the other searches begin anywhere
    if seed % 2:
        begin["K"] = np.eye(d + 1) + 0.1 * begin["K"]
        begin["b"] = np.append(np.full(d, -PRIOR_MEAN), 1) + 0.1 * begin["b"]
    begin["step"] = np.ones(H)
    flat, params_of = ravel_pytree(begin)
    X, w = draw([seed, 0], setting, TASKS)
    offset = PRIOR_MEAN if start == "guess" else 0.0

    def params(flat):
        own = params_of(flat)
        return own if start == "state" else own | {"start": jnp.zeros((H, d + 1))}

    def read_out(s):
        gram = s @ s.T
        return jnp.linalg.solve(
            gram + 1e-10 * jnp.trace(gram) * jnp.eye(len(s)), s @ (w - offset).T
        )

    @jax.jit
    @jax.value_and_grad
    def loss(flat):
        s = states(params(flat), X, w)
        # The read-out is the best one, so its change does not change the risk.
        missed = jax.lax.stop_gradient(read_out(s)).T @ s - (w - offset)
        return jnp.square(missed).sum(0).mean()

    end = minimize(
        loss,
        flat,
        jac=True,
        method="BFGS",
        options={"maxiter": STEPS, "gtol": 1e-7},
    ).x
    Q, squares = read_out(states(params(end), X, w)), []
    for part in range(8):
        tests = draw([seed, 2, part], setting, TESTS // 8)
        missed = Q.T @ states(params(end), *tests) - (tests[1] - offset)
        squares.append(np.square(missed).sum(0))
    return risk(np.concatenate(squares))


def run(settings=SETTINGS, starts: int = STARTS) -> dict[str, np.ndarray]:
    """``risk`` (settings, starts, 2): the end of each search and its standard error."""
    with jax.enable_x64(True):
        return {
            "risk": np.array(
                [
                    [searched(setting, seed) for seed in range(starts)]
                    for setting in settings
                ]
            )
        }


EXPERIMENT = Experiment(
    "delta heads with keys of length one, with a trained state, the right guess, "
    "or neither",
    run,
    partial(run, SETTINGS[:1], 1),
    rtol=0.3,
)
