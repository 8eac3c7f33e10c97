"""Brute force in NumPy: moments of small tasks by a sum over all outcomes, and minimum
risks by least squares.

Three values, -sqrt(k), 0 and sqrt(k), have mean 0, variance 1 and the fourth moment k;
with k = 3 they have the moments of a normal variable up to the fifth. The risk of
linear attention depends on its inputs only through their first four, so such sums are
exact for Gaussian tasks.
"""

from itertools import product
from typing import NamedTuple

import numpy as np

# all values of independent coordinates, (n, d), and their chances, (n,)
Values = tuple[np.ndarray, np.ndarray]
NONE: Values = np.zeros((1, 1)), np.ones(1)


def three_values(*kurtosis: float) -> Values:
    """All values of independent coordinates with these fourth moments."""
    each = [((-(k**0.5), 0.5 / k), (0, 1 - 1 / k), (k**0.5, 0.5 / k)) for k in kurtosis]
    listed = np.array([*product(*each)])
    return listed[..., 0], listed[..., 1].prod(1)


def inverse(matrix: np.ndarray) -> np.ndarray:
    return np.linalg.pinv(matrix, rcond=1e-11, hermitian=True)


class Moments(NamedTuple):
    """E[G], E[G⊗G], E[eps_k G] and E[eps eps'], with residual labels in G: tokens are
    [x; x.eps + noise].
    """

    mean: np.ndarray
    second: np.ndarray
    cross: np.ndarray
    prior: np.ndarray

    def beside_the_best_guess(self) -> "Moments":
        """A trained guess takes a constant off each answer, so that covariances replace
        second moments.
        """
        return self._replace(
            mean=0 * self.mean,
            second=self.second - np.multiply.outer(self.mean, self.mean),
        )


def moments(C: int, x: Values, eps: Values, noise: Values = NONE) -> Moments:
    """Of contexts of C tokens that are independent given the task."""
    (X, p), (w, of_w), (n, of_noise) = x, eps, noise
    labels = (w @ X.T)[..., None] + n[:, 0]
    features = np.broadcast_to(X[:, None], (*labels.shape, X.shape[1]))
    D, chance = X.shape[1] + 1, np.outer(p, of_noise).ravel()
    z = np.concatenate([features, labels[..., None]], 3).reshape(len(w), -1, D)
    pairs = np.einsum("t,etm,etn->emn", chance, z, z)
    flat = (z[..., :, None] * z[..., None, :]).reshape(-1, D * D)
    of_token = flat.T * np.outer(of_w, chance).ravel() @ flat
    of_two = np.einsum("e,emn,epq->mnpq", of_w, pairs, pairs)
    return Moments(
        np.tensordot(of_w, pairs, 1),
        (of_token.reshape(of_two.shape) + (C - 1) * of_two) / C,
        np.einsum("e,ek,emn->kmn", of_w, w, pairs),
        w.T * of_w @ w,
    )


def gaussian(
    d: int, C: int, noise_std: float = 0.0, L=None, P=None, noise_kurtosis: float = 3.0
) -> Moments:
    """The moments of a Gaussian task, by a sum over outcomes; the covariances are given
    by square roots L and P.
    """
    (x, chance), (n, of_noise) = three_values(*[3.0] * d), three_values(noise_kurtosis)
    of = lambda root: (x if root is None else x @ np.transpose(root), chance)
    return moments(C, of(L), of(P), (noise_std * n, of_noise) if noise_std else NONE)


def linear_guess(L: np.ndarray, u: np.ndarray, bias: float = 0.0) -> np.ndarray:
    """E[z z'] of z = [x_q; y_q - w*.x_q], for a guess whose slope is w* - u, and
    queries of covariance L.
    """
    reads = np.vstack([np.eye(len(u)), -np.asarray(u, float)])
    query = reads @ L @ reads.T
    query[-1, -1] += bias**2
    return query


def least(given: Moments, query: np.ndarray, values: np.ndarray | None = None) -> float:
    """The minimum risk of all lifts, or of heads with these values, (H, d + 1)."""
    values = np.eye(len(given.mean)) if values is None else values
    wanted = np.tensordot(query[:, :-1], given.cross, 1) - np.multiply.outer(
        query[:, -1], given.mean
    )
    wanted = np.einsum("hm,jmn->jhn", values, wanted).reshape(len(query), -1)
    read = np.einsum("hm,mnpq,gp->hngq", values, given.second, values).reshape(
        2 * [wanted.shape[1]]
    )
    nothing = np.vdot(query[:-1, :-1], given.prior) + query[-1, -1]
    return nothing - np.vdot(inverse(query) @ wanted @ inverse(read), wanted)


def predict(params, X, y, x_q, y_q) -> float:
    """The paper's eqs. 2 to 4 to the letter: the last entry of E + sum_h W_P W_V E M
    (E' W_K' W_Q E) / C.
    """
    E = np.vstack([np.column_stack([X.T, x_q]), np.append(y, y_q)])
    M = np.diag(np.append(np.ones(len(y)), 0.0))
    heads = zip(*map(np.asarray, params), strict=True)
    added = sum(
        W_P @ W_V @ E @ M @ (E.T @ W_K.T @ W_Q @ E) for W_K, W_Q, W_P, W_V in heads
    )
    return (E + added / len(y))[-1, -1]


def heads(b: np.ndarray, A: np.ndarray):
    """W_K, W_Q, W_P and W_V of heads with the value vectors b, (H, D), and the key
    matrices A, (H, D, D).
    """
    one = np.broadcast_to(np.eye(b.shape[1]), A.shape)
    return one, A, one, np.eye(b.shape[1])[-1][:, None] * b[:, None, :]


def random_covariances(
    rng, dim: int, size: int, ranks: tuple[int, int], noise: float, **law
):
    """Of features and weights, with these ranks; and the exact moments."""
    L, P = (
        np.linalg.qr(rng.normal(size=(dim, dim)))[0] * rng.uniform(0.6, 1.4, dim)
        for _ in "LP"
    )
    L[:, ranks[0] :], P[:, ranks[1] :] = 0, 0
    return L @ L.T, P @ P.T, gaussian(dim, size, noise, L, P, **law)
