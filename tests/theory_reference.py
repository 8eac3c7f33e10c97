"""Independent derivations of the numbers of ``lsalib.theory``: sampling, quadrature and dense quadratic forms."""

from functools import partial
from itertools import product
from statistics import NormalDist

import jax
import jax.numpy as jnp
import numpy as np

from lsalib.attention import LSAParams, embed, gram, lsa
from lsalib.tasks import GaussianTask, sample
from lsalib.theory import gram_moments, optimal_preconditioner


def make_task(seed: int, dim: int, context_size: int, noise_std: float = 0.0, covariances: bool = True) -> GaussianTask:
    """A task with a random prior mean and, unless told otherwise, two random covariances."""
    rng = np.random.default_rng(seed)
    prior_mean, roots = rng.normal(size=dim), rng.normal(size=(2, dim, dim))
    covs = [root @ root.T / dim + 0.3 * np.eye(dim) for root in roots] if covariances else (None, None)
    return GaussianTask(prior_mean, context_size, *covs, noise_std=noise_std)


# Nothing about it is special.
GENERAL = GaussianTask(
    [1.0, -2.0, 0.5],
    context_size=9,
    feature_cov=[[1.0, 0.4, 0.0], [0.4, 2.0, -0.3], [0.0, -0.3, 0.5]],
    prior_cov=[[0.5, 0.1, 0.2], [0.1, 1.0, 0.0], [0.2, 0.0, 2.0]],
    noise_std=0.7,
)
TASKS = {
    "isotropic": make_task(0, 3, 4, covariances=False),
    "noisy": make_task(1, 3, 2, noise_std=0.8, covariances=False),
    "general": make_task(2, 3, 4),
    "general, noisy": make_task(3, 3, 3, noise_std=1.1),
    "one feature": make_task(4, 1, 1, noise_std=0.5),
}


def make_guess(task: GaussianTask):
    return 0.4 * np.random.default_rng(100).normal(size=task.dim)


def make_params(seed: int, dim: int, heads: int, scale: float = 0.5) -> LSAParams:
    weights = scale * np.random.default_rng(seed).normal(size=(4, heads, dim + 1, dim + 1))
    return LSAParams(*map(jnp.asarray, weights))


@jax.jit
def dense_form(M, guess, bias, moments, w, L, P):
    """``dense_risk`` for arrays alone."""
    mean, second, cross = moments
    d = len(w)
    # f - w.x_q = sum_j (guess_j + <G, N_j> - w_j) x_q[j] + bias + <G, bias M_d>
    N = M[:d] + guess[:, None, None] * M[d][None]
    on_mean = jnp.einsum("jmn,mn->j", N, mean)
    with_w = jnp.outer(guess, w) + jnp.einsum("jmn,imn->ji", N, cross)
    pairs = jnp.einsum("jmn,mnpq,kpq->jk", N, second, N) + jnp.outer(guess, guess) + jnp.outer(w, w) + P
    pairs += jnp.outer(guess, on_mean) + jnp.outer(on_mean, guess) - with_w - with_w.T
    constant = 1 + 2 * jnp.vdot(M[d], mean) + jnp.einsum("mn,mnpq,pq->", M[d], second, M[d])
    return jnp.vdot(L, pairs) + bias**2 * constant


def dense_risk(M, task: GaussianTask, guess, bias: float = 0.0):
    """The risk of lifted parameters straight from E[G], E[G⊗G] and E[w_i G], in the task's own coordinates."""
    query_cov = task.feature_cov if task.query_cov is None else task.query_cov
    covs = (np.eye(task.dim) if cov is None else cov for cov in (query_cov, task.prior_cov))
    return dense_form(M, guess, bias, gram_moments(task), task.prior_mean, *covs)


def products(moments, c, M):
    """E[v v'] for the vector with the entries v_j = c_j + <G, M_j>."""
    flat, mean = M.reshape(len(M), -1), moments.mean.ravel()
    second = moments.second.reshape(mean.size, -1)
    mixed = np.outer(flat @ mean, c)
    return flat @ second @ flat.T + mixed + mixed.T + np.outer(c, c)


def exact_sides(task: GaussianTask, M, query, N=None):
    """R(f), R* and E (f - f*)^2 of a layer with the lift M, for a query of any distribution and any guess.

    Both enter through ``query`` alone, the second moments of [x_q; y_q]. N is the preconditioner of f*, by default the
    best one.
    """
    d, moments = task.dim, gram_moments(task)
    best_N = optimal_preconditioner(task)
    A = np.pad((best_N if N is None else N).T, (0, 1))
    rho = np.append(-task.prior_mean, 1.0)  # y_q - w*.x_q, from the token; the residual label, from a token
    with_eps = moments.cross - np.multiply.outer(task.prior_mean, moments.mean)
    mixed = np.zeros((d + 1, d + 1))
    mixed[:, :-1] = np.tensordot(M, with_eps, ((1, 2), (1, 2)))
    P, best = (
        np.pad(part, (0, 1)) for part in (task.prior_cov, task.prior_cov - best_N @ task.feature_cov @ task.prior_cov)
    )
    risk = products(moments, rho, M) - mixed - mixed.T + P
    away = products(moments, rho, M - np.einsum("m,nj->jmn", rho, A))
    return [np.vdot(query, part) for part in (risk, best, away)]


def sampled_gram(seed: int, task: GaussianTask, count: int):
    """Draws of G and of w, (count, D, D) and (count, d)."""
    X, y, _, _, w = sample(jax.random.key(seed), task, count)
    return np.asarray(jax.vmap(gram)(X, y)), np.asarray(w)


@jax.jit
@partial(jax.vmap, in_axes=(None, 0, 0, 0, 0))
def lsa_errors(weights, X, y, x_q, target):
    """Squared errors, a batch of them, of the paper's formula to the letter; weights are ``(params, guess, bias)``."""
    params, guess, bias = weights
    return (lsa(params, embed(X, y, x_q, guess @ x_q + bias)) - target) ** 2


def batch_of(seed: int, task: GaussianTask, count: int = 20_000):
    """X, y, x_q and target of so many tasks."""
    return tuple(map(np.asarray, sample(jax.random.key(seed), task, count)[:4]))


def largest_z(draws, exact) -> float:
    """The largest |mean - exact| in standard errors over all entries; entries that never vary must be right."""
    draws = np.asarray(draws).reshape(len(draws), -1)
    error, spread = draws.mean(0) - np.ravel(exact), draws.std(0) / np.sqrt(len(draws))
    fixed = spread == 0
    assert np.all(error[fixed] == 0)
    return float(np.max(np.abs(error[~fixed]) / spread[~fixed]))


def z_bound(entries: int, level: float = 1e-6) -> float:
    """What ``largest_z`` over so many entries stays under, but for a chance of ``level`` (Bonferroni)."""
    return NormalDist().inv_cdf(1 - level / (2 * entries))


def gauss_hermite(dim: int, nodes: int = 3):
    """Points and weights that integrate N(0, I) exactly up to degree 5 in each coordinate."""
    x, weight = np.polynomial.hermite_e.hermegauss(nodes)
    grid = np.array(list(product(range(nodes), repeat=dim)))
    return x[grid], np.prod(weight[grid] / weight.sum(), axis=1)


def root(cov, dim: int):
    """A square root of a covariance, singular or not; None stands for the identity."""
    values, vectors = np.linalg.eigh(np.eye(dim) if cov is None else cov)
    return vectors * np.sqrt(np.maximum(values, 0))


def three_values(*kurtosis):
    """All values of independent coordinates with these fourth moments, (n, d), and their chances."""
    each = [((-(k**0.5), 0.5 / k), (0, 1 - 1 / k), (k**0.5, 0.5 / k)) for k in kurtosis]
    listed = np.array([*product(*each)])
    return listed[..., 0], listed[..., 1].prod(1)


def listed_moments(task: GaussianTask, features=None, noise=None, weights=None):
    """E[G], E[G⊗G] and E[w_i G] by brute force: all values of a token's features and noise, with their chances.

    They are Gaussian unless they are given as (values, chances); those of the weights are before their covariance.
    """
    points, weight = gauss_hermite(task.dim)
    x, odds = (points @ root(task.feature_cov, task.dim).T, weight) if features is None else features
    hermite = gauss_hermite(1)
    n, of_noise = (task.noise_std * hermite[0][:, 0], hermite[1]) if noise is None else noise
    x, n, odds = np.repeat(x, len(n), axis=0), np.tile(n, len(x)), np.outer(odds, of_noise).ravel()
    mean, second, cross = 0, 0, 0
    for eps, chance in zip(*((points, weight) if weights is None else weights), strict=True):
        w = task.prior_mean + root(task.prior_cov, task.dim) @ eps
        z = np.column_stack([x, x @ w + n])
        pair = np.einsum("t,tm,tn->mn", odds, z, z)
        four = np.einsum("t,tm,tn,tp,tq->mnpq", odds, z, z, z, z, optimize=True)
        mean = mean + chance * pair
        both = four + (task.context_size - 1) * np.multiply.outer(pair, pair)
        second = second + chance * both / task.context_size
        cross = cross + chance * np.multiply.outer(w, pair)
    return mean, second, cross
