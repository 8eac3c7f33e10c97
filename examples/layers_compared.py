"""Train layers of the field side by side on the same tasks, and compare them with exact
risks.

python examples/layers_compared.py
"""

from functools import partial

import jax
import jax.numpy as jnp
import optax

from lsalib import tasks, theory, training
from lsalib.layers import Layer
from lsalib.metrics import Estimate, sampled_risk

TASK = tasks.GaussianTask([1.0] * 5, context_size=10)
LAYERS = {
    "linear attention": Layer("linear", frozen=("guess", "state")),
    "with a trained initial state": Layer("linear", frozen=("guess",)),
    "two layers that write labels": Layer("affine", heads=2, depth=2),
    "delta rule, state zero": Layer("delta", frozen=("guess", "state")),
    "delta rule, trained state": Layer("delta", frozen=("guess",)),
}


def main(task=TASK, layers=LAYERS, steps: int = 1000) -> dict[str, Estimate]:
    starts = {
        name: layer.init(jax.random.key(0), task.dim) for name, layer in layers.items()
    }

    def predict(params, X, y, x_q):
        return jnp.stack(
            [layer.predict(params[name], X, y, x_q) for name, layer in layers.items()]
        )

    def losses(params, key):
        batch = tasks.sample(key, task, 128)
        predictions = jax.vmap(predict, (None, 0, 0, 0))(
            params, batch.X, batch.y, batch.x_q
        )
        return jnp.mean((predictions - batch.target[:, None]) ** 2, axis=0)

    optimizer = optax.adam(optax.cosine_decay_schedule(1e-2, steps))
    end = training.train(
        losses, starts, jax.random.key(0), steps=steps, optimizer=optimizer
    )
    risk = sampled_risk(
        jax.random.key(1), task, partial(predict, end.params), batches=8
    )
    risks = {
        name: Estimate(*numbers) for name, *numbers in zip(layers, *risk, strict=True)
    }
    for name, (mean, error) in risks.items():
        print(f"{name:30} {mean:6.3f} ± {error:.3f}")
    print("\nexact risks")
    # Its layers write only labels and multiply no two of them. Other layers can have
    # less risk.
    exact = {
        "one head, no guess, no state": theory.least_risk(task, heads=1).risk,
        "any number of such heads": theory.optimal_risk(task),
        "best gradient step": theory.gd_risk(task),
        "two layers that write labels": theory.depth_risk(
            task, layers=2, guess=task.prior_mean
        ),
        "delta rule, right state": theory.delta_rule_risk(task, start=task.prior_mean),
    }
    for name, value in exact.items():
        print(f"{name:30} {value:6.3f}")
    return risks


if __name__ == "__main__":
    main()
