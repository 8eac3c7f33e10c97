"""The exact risk of heads as a quadratic in the forms N_k, from dense moments; and what follows for given values."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lsalib.tasks import GaussianTask
from lsalib.theory import gram_moments
from lsalib.training import minimize


class Problem(NamedTuple):
    """E[G⊗G], what each form N_k should answer to and counts for, and the risk without heads.

    The tokens are [xi; r], with white features xi and residual labels r.
    """

    second: np.ndarray
    wanted: np.ndarray
    counts: np.ndarray
    idle: float


def problem(task: GaussianTask, guess=None, bias: float = 0.0) -> Problem:
    """The problem of heads beside a guess; the last form answers to -1 and counts for the offset squared."""
    identity = np.eye(task.dim)
    L, P = (identity if cov is None else np.asarray(cov) for cov in (task.feature_cov, task.prior_cov))
    root = np.linalg.cholesky(L)
    u = root.T @ (task.prior_mean - (0 if guess is None else guess))
    white = GaussianTask(0 * u, task.context_size, None, root.T @ P @ root, task.noise_std)
    mean, second, cross = map(np.asarray, gram_moments(white))
    wanted = np.concatenate([cross + np.multiply.outer(u, mean), -mean[None]])
    return Problem(second, wanted, np.append(np.ones(task.dim), bias**2), np.vdot(L, P) + u @ u + bias**2)


def off_by(u, C, bias=0.0, noise_std=0.0) -> Problem:
    """The problem for identity covariances and a guess whose slope is off by u."""
    return problem(GaussianTask(u, C, noise_std=noise_std), bias=bias)


def risk(heads, given: Problem):
    """The exact risk of heads (b, A)."""
    second, wanted, counts, idle = given
    N = jnp.einsum("hm,hnk->kmn", *heads)
    answers = jnp.einsum("kmn,mnpq->kpq", N, second) - 2 * wanted
    return idle + jnp.einsum("k,kmn,kmn->", counts, N, answers)


def best_keys(b, given: Problem):
    """The minimum risk with these value vectors, and the A that has it."""
    second, wanted, counts, idle = given
    H, D, K = *b.shape, len(wanted)
    read = np.einsum("hm,mnpq,gp->hngq", b, second, b).reshape(H * D, -1)
    answer = np.einsum("hm,kmn->khn", b, wanted).reshape(K, -1)
    keys = answer @ np.linalg.pinv(read, 1e-12, hermitian=True)
    return idle - counts @ np.sum(keys * answer, axis=1), keys.reshape(K, H, D).transpose(1, 2, 0)


def least_of_all(given: Problem) -> float:
    """The minimum risk of all lifts: the value vectors are a basis."""
    return best_keys(np.eye(len(given.second)), given)[0]


def orthogonal(vectors):
    """An orthonormal basis of what is orthogonal to these rows."""
    vectors = np.atleast_2d(vectors)
    return np.linalg.svd(vectors)[2][len(vectors) :]


def search(problems, counts, starts: int, scale: float = 0.3, steps: int = 300, seed: int = 0):
    """L-BFGS over all heads (b, A), (problems, counts, starts) of them; fewer heads are padded by idle ones.

    Idle heads, b = 0 and A = 0, get no gradient.
    """
    rng, most, D = np.random.default_rng(seed), max(counts), len(problems[0].second)
    used = (np.arange(most) < np.array(counts)[:, None])[:, None, :, None]
    b = scale * rng.normal(size=(len(counts), starts, most, D)) * used
    A = scale * rng.normal(size=(len(counts), starts, most, D, D)) * used[..., None]
    stacked = Problem(*map(np.stack, zip(*problems, strict=True)))

    def one(start, given):
        return minimize(lambda heads: risk(heads, given), start, steps=steps, patience=20)

    over = jax.vmap(jax.vmap(jax.vmap(one, (0, None)), (0, None)), (None, 0))
    return jax.tree.map(np.asarray, jax.jit(over)((b, A), stacked))


def hessian(b, A, given: Problem):
    """Gradient and second derivatives of the risk by the entries of b and A, which the forms are bilinear in."""
    second, wanted, counts, _ = given
    (H, D), K = b.shape, len(wanted)
    N = np.einsum("hm,hnk->kmn", b, A)
    slope = 2 * counts[:, None, None] * (np.einsum("kmn,mnpq->kpq", N, second) - wanted)
    by_b = np.einsum("xhm,hnk->xkmn", np.eye(b.size).reshape(-1, H, D), A)
    by_A = np.einsum("hm,xhnk->xkmn", b, np.eye(A.size).reshape(-1, H, D, K))
    J = np.concatenate([by_b, by_A])
    answers = np.tensordot(J, second, 2) * 2 * counts[:, None, None]
    curvature = np.tensordot(answers, J, ((1, 2, 3), (1, 2, 3)))
    mixed = np.einsum("hg,kmn->hmgnk", np.eye(H), slope).reshape(b.size, A.size)
    curvature[: b.size, b.size :] += mixed
    curvature[b.size :, : b.size] += mixed.T
    return np.tensordot(J, slope, 3), curvature


def price(z, u, C, bias=0.0):
    """What d heads pay if their value vectors miss the direction z = (x, r): (few-heads-map)."""
    d, x, r, length = len(u), z[:-1], z[-1], z[:-1] @ z[:-1]
    share, step = C / (C * d + 2), C / (C + d + 1)
    missed = share * length * u + step * r * x, bias * share * length
    width = step * r**2 * length + C / 2 * (1 - share) * length**2 + step / (2 * d) * (r**2 - length) ** 2
    return (missed[0] @ missed[0] + missed[1] ** 2) / width
