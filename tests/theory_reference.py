"""Independent derivations of the numbers of ``lsalib.theory`` in NumPy: brute-force
moments, and risks from them.
"""

from functools import cache
from itertools import product
from statistics import NormalDist

import jax
import numpy as np
from dense import moments, three_values

from lsalib.tasks import GaussianTask, sample


def make_task(
    seed: int, dim: int, context_size: int, noise_std: float = 0.0, ranks=(None, None)
) -> GaussianTask:
    """A task with a random prior mean and two random covariances, singular ones if
    ranks are given.
    """
    rng = np.random.default_rng(seed)
    prior_mean, roots = rng.normal(size=dim), rng.normal(size=(2, dim, dim))
    covs = [root @ root.T / dim + 0.3 * np.eye(dim) for root in roots]
    covs = [
        cov if k is None else root[:, :k] @ root[:, :k].T
        for cov, root, k in zip(covs, roots, ranks, strict=True)
    ]
    return GaussianTask(prior_mean, context_size, *covs, noise_std=noise_std)


# Nothing about it is special.
GENERAL = GaussianTask(
    [1.0, -2.0, 0.5],
    context_size=9,
    feature_cov=[[1.0, 0.4, 0.0], [0.4, 2.0, -0.3], [0.0, -0.3, 0.5]],
    prior_cov=[[0.5, 0.1, 0.2], [0.1, 1.0, 0.0], [0.2, 0.0, 2.0]],
    noise_std=0.7,
)
# All of three features, so that they share their programs.
TASKS = {
    "isotropic": GaussianTask([1.0, 2.0, -1.0], 5),
    "isotropic, noisy": GaussianTask(
        [1.0, 2.0, -1.0], 2, 2 * np.eye(3), 0.3 * np.eye(3), 0.7
    ),
    "general": make_task(2, 3, 4),
    "general, noisy": make_task(3, 3, 3, noise_std=1.1),
    "singular features": make_task(4, 3, 5, noise_std=1.5, ranks=(2, None)),
    "singular prior": make_task(5, 3, 4, ranks=(None, 1)),
}
GUESS, BIAS = np.array([0.4, -0.3, 0.9]), 0.8


def lifted(params) -> np.ndarray:
    """M_j = sum_h b_h a_hj^T for the last rows b_h of W_P W_V and A_h = W_K^T W_Q."""
    W_K, W_Q, W_P, W_V = (np.asarray(W, np.float64) for W in params)
    return np.einsum("hi,him,hkn,hkj->jmn", W_P[:, -1], W_V, W_K, W_Q)


def covs(task: GaussianTask):
    """Both covariances as matrices."""
    return tuple(
        np.eye(task.dim) if cov is None else np.asarray(cov)
        for cov in (task.feature_cov, task.prior_cov)
    )


def coefficients(M, guess, bias):
    """The rows n_k of ``f = sum_k t_k n_k.phi``; t = [x_q; 1], phi = [1; vec G]."""
    c = np.append(guess, bias)
    forms = np.concatenate([M[:-1], 0 * M[-1:]]) + np.multiply.outer(c, M[-1])
    return np.column_stack([c, forms.reshape(len(c), -1)])


def products(n, moments):
    """E[v v'] for the vector with the entries v_k = n_k.phi."""
    first = moments[0].reshape(1, -1)
    second = moments[1].reshape(first.size, -1)
    return n @ np.block([[np.ones((1, 1)), first], [first.T, second]]) @ n.T


def dense_risk(M, task: GaussianTask, guess, bias, moments) -> float:
    """The risk of lifted parameters straight from E[G], E[G⊗G] and E[w_i G], in the
    task's own coordinates.
    """
    (L, P), w, n = covs(task), task.prior_mean, coefficients(M, guess, bias)
    pairs = products(n, moments)
    with_w = n[:-1] @ np.column_stack([w, moments[2].reshape(len(w), -1)]).T
    return (
        np.vdot(L, pairs[:-1, :-1] - with_w - with_w.T + np.outer(w, w) + P)
        + pairs[-1, -1]
    )


def dense_distance(one, two, task: GaussianTask, moments) -> float:
    """The mean squared distance of two layers, each given by its lift, its guess and
    its bias.
    """
    pairs = products(coefficients(*one) - coefficients(*two), moments)
    return np.vdot(covs(task)[0], pairs[:-1, :-1]) + pairs[-1, -1]


def largest_z(draws, exact) -> float:
    """The largest |mean - exact| in standard errors over all entries; entries that
    never vary must be right.
    """
    draws = np.asarray(draws).reshape(len(draws), -1)
    error, spread = draws.mean(0) - np.ravel(exact), draws.std(0) / np.sqrt(len(draws))
    fixed = spread == 0
    assert np.all(error[fixed] == 0)
    return float(np.max(np.abs(error[~fixed]) / spread[~fixed]))


def z_bound(entries: int, level: float = 1e-6) -> float:
    """What ``largest_z`` over so many entries stays under, but for a chance of
    ``level`` (Bonferroni).
    """
    return NormalDist().inv_cdf(1 - level / (2 * entries))


def batch_of(seed: int, task: GaussianTask, count: int = 20_000):
    """X, y, x_q, target and w of so many tasks."""
    return tuple(map(np.asarray, sample(jax.random.key(seed), task, count)))


def gauss_hermite(dim: int, nodes: int = 3):
    """Points and weights that integrate N(0, I) exactly, with three nodes up to degree
    5 in each coordinate.
    """
    x, weight = np.polynomial.hermite_e.hermegauss(nodes)
    grid = np.array([*product(zip(x, weight / weight.sum(), strict=True), repeat=dim)])
    return grid[..., 0], grid[..., 1].prod(1)


def root(cov, dim: int):
    """A square root of a covariance, singular or not; None stands for the identity."""
    values, vectors = np.linalg.eigh(np.eye(dim) if cov is None else cov)
    return vectors * np.sqrt(np.maximum(values, 0))


def listed_moments(task: GaussianTask, features=None):
    """E[G], E[G⊗G] and E[w_i G] by brute force; features are Gaussian unless all of
    their values are given.
    """
    (points, chance), (n, of_noise) = three_values(*[3.0] * task.dim), three_values(3.0)
    x = (
        (points @ root(task.feature_cov, task.dim).T, chance)
        if features is None
        else features
    )
    w = task.prior_mean + points @ root(task.prior_cov, task.dim).T
    return moments(task.context_size, x, (w, chance), (task.noise_std * n, of_noise))[
        :3
    ]


@cache
def moments_of(name: str):
    """The listed moments of a task of the table."""
    return listed_moments(TASKS[name])
