"""Train layers of the field on one task, and compare them with exact risks.

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
    "with keys of size 1": Layer("linear", key_size=1, frozen=("guess", "state")),
    "with a trained initial state": Layer("linear", frozen=("guess",)),
    "two layers of two such heads": Layer("linear", heads=2, depth=2, causal=False, frozen=("guess",)),
    "normalized": Layer("normalized", frozen=("guess",)),
    "gated": Layer("gated", frozen=("guess",)),
    "delta rule, state zero": Layer("delta", frozen=("guess", "state")),
    "delta rule, trained state": Layer("delta", frozen=("guess",)),
}


def main(task=TASK, layers=LAYERS, steps: int = 1000) -> dict[str, Estimate]:
    options = {"steps": steps, "optimizer": optax.adam(optax.cosine_decay_schedule(1e-2, steps))}

    def trained(layer):
        def loss(params, key):
            batch = task.sample(key, 128)
            predictions = jax.vmap(layer.predict, (None, 0, 0, 0))(params, batch.X, batch.y, batch.x_q)
            return ((predictions - batch.target) ** 2).mean()

        init = lambda key: layer.init(key, task.dim)
        return partial(layer.predict, training.train(loss, None, jax.random.key(0), init=init, **options).params)

    # One function of all predictions: the layers see the same tasks.
    predictors = [trained(layer) for layer in layers.values()]
    predict = lambda *example: jnp.stack([predictor(*example) for predictor in predictors])
    risk = sampled_risk(jax.random.key(1), task, predict, batches=8)
    risks = {name: Estimate(*numbers) for name, *numbers in zip(layers, *risk, strict=True)}
    for name, (mean, error) in risks.items():
        print(f"{name:30} {mean:6.3f} ± {error:.3f}")
    print("\nexact risks")
    # The layers of ``depth_risk`` write only labels and multiply no two of them. Trained layers do, and can have less.
    exact = {
        "one head, no guess, no state": theory.least_risk(task, heads=1).risk,
        "any number of such heads": theory.optimal_risk(task),
        "best gradient step": theory.gd_risk(task),
        "two layers that write labels": theory.depth_risk(task, layers=2, guess=task.prior_mean),
        "delta rule, right state": theory.delta_rule_risk(task, start=task.prior_mean),
    }
    for name, value in exact.items():
        print(f"{name:30} {value:6.3f}")
    return risks


if __name__ == "__main__":
    main()
