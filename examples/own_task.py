"""Train yq-LSA on features with heavy tails: by ``fit``, and with your own loss and
optimizer by ``train``.

python examples/own_task.py
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import optax

from lsalib import attention, metrics, tasks, theory, training


@dataclass(frozen=True)
class StudentTask:
    """Features from a multivariate t distribution with covariance I; task weights
    around ``mean`` in every entry.

    The squared error of attention is of fourth order in each token, so its variance,
    and with it the standard error, exists only for more than eight degrees of freedom.
    """

    dim: int = 5
    context_size: int = 10
    freedom: int = 10
    mean: float = 1.0

    def sample(self, key, n):
        key_x, key_w = jax.random.split(key)
        normal = jax.random.normal(
            key_x, (n, self.context_size + 1, self.dim + self.freedom)
        )
        chi_square = (normal[..., self.dim :] ** 2).sum(-1, keepdims=True)
        x = normal[..., : self.dim] * jnp.sqrt((self.freedom - 2) / chi_square)
        w = self.mean + jax.random.normal(key_w, (n, self.dim))
        y = jnp.einsum("nci,ni->nc", x, w)
        return tasks.Batch(x[:, :-1], y[:, :-1], x[:, -1], y[:, -1], w)


def main(
    task=StudentTask(), heads: int = 2, steps: int = 3000
) -> dict[str, metrics.Estimate]:
    key, options = (
        jax.random.key(0),
        {"steps": steps, "batch_size": 256, "learning_rate": 3e-3},
    )
    fit = training.fit(key, task, heads, train_guess=True, **options)

    def start(key):
        return attention.init(key, task.dim, heads), jnp.zeros(task.dim)

    def huber(params, key):
        batch = task.sample(key, 256)
        predictions = jax.vmap(attention.yq_lsa, (None, None, 0, 0, 0))(
            *params, batch.X, batch.y, batch.x_q
        )
        return optax.huber_loss(predictions, batch.target, delta=3.0).mean()

    optimizer = optax.adamw(optax.cosine_decay_schedule(1e-2, steps), weight_decay=1e-4)
    end = training.train(huber, None, key, init=start, steps=steps, optimizer=optimizer)
    risks = {}
    for name, params in {
        "squared error": (fit.params, fit.guess),
        "Huber loss": end.params,
    }.items():
        predict = lambda X, y, x_q, params=params: attention.yq_lsa(*params, X, y, x_q)
        risks[name] = risk = metrics.sampled_risk(
            jax.random.key(1), task, predict, batches=8
        )
        print(
            f"trained with the {name}: squared error on new tasks {risk.mean:.3f} ± "
            f"{risk.standard_error:.3f}"
        )
        print(f"    the learned guess: {params[1].round(2)}")
    print(f"best gradient step from the right guess, exact: {best_step(task):.3f}")
    gaussian = tasks.GaussianTask([task.mean] * task.dim, task.context_size)
    print(f"the same with Gaussian features: {theory.yq_risk(gaussian):.3f}")
    return risks


def best_step(task: StudentTask) -> float:
    """``E[x x^T x x^T] = k (d + 2) I`` with k = (f - 2)/(f - 4); k is 1 for normal
    features.
    """
    fourth = (task.freedom - 2) / (task.freedom - 4) * (task.dim + 2)
    return task.dim * (1 - 1 / (1 + (fourth - 1) / task.context_size))


if __name__ == "__main__":
    main()
