"""Tasks of finitely many outcomes, all of them listed with their chances: no formula for a moment is needed.

Three values, -sqrt(3), 0 and sqrt(3), have the moments of a normal variable up to the fifth. The risk of linear
attention depends on its inputs only through their first four, so that such sums are exact for Gaussian tasks, too.
"""

from typing import NamedTuple

import numpy as np

NORMAL = (-(3**0.5), 0.0, 3**0.5), (1 / 6, 2 / 3, 1 / 6)
SIGNS = (-1.0, 1.0), (0.5, 0.5)
SKEWED = (-0.5, 2.0), (0.8, 0.2)  # mean 0, variance 1
OFF_CENTER = (0.0, 3.0), (0.8, 0.2)
ZERO, ONE = ((0.0,), (1.0,)), ((1.0,), (1.0,))


def outcomes(variable, count):
    """All values of so many independent copies of a variable, (n, count), and their chances, (n,)."""
    values, chances = (np.array(np.meshgrid(*[part] * count, indexing="ij")).reshape(count, -1).T for part in variable)
    return values, chances.prod(1)


class Contexts(NamedTuple):
    """All outcomes of a task: features X, residual labels r and deviations eps of the weights, with their chances."""

    X: np.ndarray  # (n, C, d)
    r: np.ndarray  # (n, C)
    eps: np.ndarray  # (n, d)
    chance: np.ndarray  # (n,)

    @property
    def s(self):
        return np.einsum("nc,ncd->nd", self.r, self.X) / self.X.shape[1]

    def moments(self):
        """E[s s'] and E[eps s']."""
        return (self.chance * self.s.T) @ self.s, (self.chance * self.eps.T) @ self.s

    def preconditioner(self):
        """N of the best step, by least squares; singular moments included."""
        square, mixed = self.moments()
        return mixed @ np.linalg.pinv(square, rcond=1e-10)

    def step(self):
        """N s for each outcome."""
        return self.s @ self.preconditioner().T

    def grams(self, w_star=0.0):
        """G for each outcome, with the labels y = r + w*.x."""
        labels = self.r + self.X @ (w_star + np.zeros(self.X.shape[2]))
        z = np.concatenate([self.X, labels[..., None]], axis=2)
        return np.einsum("nci,ncj->nij", z, z) / z.shape[1]


def contexts(d, C, x=NORMAL, eps=NORMAL, noise=SIGNS, level=0.7, size=ONE, flip=ONE, U=None, T=None) -> Contexts:
    """All contexts with features size U xi, weights flip T g and noise flip level n.

    The variables xi, g and n are of the kinds x, eps and noise; ``level`` is a number, or a function of the features.
    """
    parts = [outcomes(*each) for each in ((x, C * d), (eps, d), (noise, C), (size, 1), (flip, 1))]
    at = np.indices([len(chance) for _, chance in parts]).reshape(5, -1)
    xi, g, n, size, flip = (values[i] for (values, _), i in zip(parts, at, strict=True))
    chance = np.prod([chances[i] for (_, chances), i in zip(parts, at, strict=True)], axis=0)
    X = size[:, :, None] * xi.reshape(-1, C, d) @ np.transpose(np.eye(d) if U is None else U)
    deviations = flip * g @ np.transpose(np.eye(d) if T is None else T)
    noise = flip * (level(X) if callable(level) else level) * n
    return Contexts(X, np.einsum("ncd,nd->nc", X, deviations) + noise, deviations, chance)
