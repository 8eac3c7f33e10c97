"""Train layers of the field on one task, and compare them with exact risks.

python examples/layers_compared.py
"""

import jax
import jax.numpy as jnp
import optax

from lsalib import metrics, tasks, theory, training
from lsalib.layers import Layer

TASK = tasks.GaussianTask([1.0] * 5, context_size=10)
LAYERS = {
    "linear attention": Layer("linear", frozen=("guess", "state")),
    "with a trained initial state": Layer("linear", frozen=("guess",)),
    "gated": Layer("gated", frozen=("guess",)),
    "delta rule, state zero": Layer("delta", frozen=("guess", "state")),
    "delta rule, trained state": Layer("delta", frozen=("guess",)),
}


def train(layer: Layer, steps: int):
    """The layer's weights after training on fresh samples."""

    def loss(params, key):
        batch = tasks.sample(key, TASK, 128)
        predictions = jax.vmap(layer.predict, (None, 0, 0, 0))(params, batch.X, batch.y, batch.x_q)
        return ((predictions - batch.target) ** 2).mean()

    optimizer = optax.adam(optax.cosine_decay_schedule(1e-2, steps))
    start = layer.init(jax.random.key(0), TASK.dim)
    return training.train(loss, start, jax.random.key(1), steps=steps, optimizer=optimizer).params


def main(steps: int = 1000) -> dict[str, tuple[float, float]]:
    trained = {name: train(layer, steps) for name, layer in LAYERS.items()}

    def predict(X, y, x_q):  # all layers see the same tasks
        return jnp.stack([LAYERS[name].predict(params, X, y, x_q) for name, params in trained.items()])

    risks = metrics.sampled_risk(jax.random.key(2), TASK, predict, batches=8)
    found = dict(zip(LAYERS, zip(*risks, strict=True), strict=True))
    for name, (mean, error) in found.items():
        print(f"{name:30} {mean:6.3f} ± {error:.3f}")
    print("\nexact risks")
    exact = {
        "one head, no guess, no state": theory.least_risk(TASK, heads=1).risk,
        "best gradient step": theory.gd_risk(TASK),
        "delta rule, right state": theory.delta_rule_risk(TASK, start=TASK.prior_mean),
    }
    for name, value in exact.items():
        print(f"{name:30} {value:6.3f}")
    return found


if __name__ == "__main__":
    main()
