"""What the appendix on few heads says of their minimum risk: against searches, random spaces and its own form."""

import numpy as np
import pytest
from few_heads_reference import best_keys, least_of_all, off_by, orthogonal, search

from lsalib import attention, tasks, theory

SETTINGS = [{"bias": 4.0}, {"bias": 4.0, "noise_std": 1.0}]
U, C, COUNTS = np.array([0.4, 1.2, -1.5]), 7, (1, 2, 3, 4)


def second_direction(b):
    """How much of a second direction, in the plane of u and the label, value vectors b leave out."""
    both = np.stack([np.append(U / np.linalg.norm(U), 0.0), np.eye(4)[3]])
    return np.linalg.svd(both @ orthogonal(b).T)[1][1]


@pytest.mark.claim("few-heads-optimum")
def test_the_best_search_is_the_exact_minimum(x64):
    """One to four heads for three features, an offset and noise; the values found miss what the theorem says."""
    ends = search([off_by(U, C, **given) for given in SETTINGS], COUNTS, starts=6)
    at = ends.value.argmin(2)[..., None]
    found, slopes = (np.take_along_axis(part, at, 2)[..., 0] for part in (ends.value, ends.gradient))
    assert np.abs(slopes).max() < 1e-5
    for row, given in zip(found, SETTINGS, strict=True):
        task = tasks.GaussianTask(U, C, noise_std=given.get("noise_std", 0.0))
        exact = [theory.least_risk(task, heads, None, given.get("bias", 0.0)).risk for heads in COUNTS]
        np.testing.assert_allclose(row, exact, atol=1e-8)
        assert (np.abs(row[:2] - exact[1:3]) > 1e-3).all()  # one head more
    rng = np.random.default_rng(0)
    for k, heads in ((k, heads) for k in range(2) for heads in (1, 2)):
        b = ends.params[0][k, heads - 1, at[k, heads - 1, 0], :heads]
        assert second_direction(b) < 1e-4 < second_direction(rng.normal(size=b.shape))


# d, C, heads, offset, noise: one feature, contexts shorter than d; and how far the guess is off.
CASES = [(1, 3, 1, 0, 0, 1), (1, 2, 1, 0.7, 0.5, 1), (4, 2, 2, 0.5, 1, 1), (4, 2, 3, 0, 0, 1), (3, 8, 1, 0.3, 1.2, 1)]
CASES += [(3, 8, 2, 1, 0, 1), (4, 9, 4, 0.6, 0.8, 1), (3, 5, 2, 0.8, 0.5, 0), (4, 3, 3, 0, 0.7, 0)]


@pytest.mark.claim("few-heads-optimum")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("case", CASES)
def test_the_cost_of_a_random_space_is_linear_in_the_angle_to_u(case, seed, x64):
    """As in the proof; no space is below the explicit weights, and the mixture against u is never better."""
    d, C, heads, bias, noise, off = case
    rng, bias, noise = np.random.default_rng(seed), float(bias), float(noise)
    u, turn, tau = rng.normal(size=d), np.linalg.qr(rng.normal(size=(d, d)))[0], 10 ** rng.uniform(-1, 1)
    toward, u = u / np.linalg.norm(u), off * u
    given = off_by(u, C, bias, noise)
    aligned = np.vstack([toward, orthogonal(toward)])

    def value(rows, sign):
        """The first row mixed with the label, and H - 1 of the others."""
        b = np.zeros((heads, d + 1))
        b[:, :d], b[0, d] = rows[:heads], sign * tau
        return best_keys(b, given)[0]

    chance, along, against = value(turn, 1), value(aligned, 1), value(aligned, -1)
    cosine = turn[0] @ toward
    np.testing.assert_allclose(chance, (along + against) / 2 + cosine * (along - against) / 2, atol=1e-10)
    assert along < against + 1e-11
    if off and d > 1:
        assert along < against - 1e-8 and abs(chance - along) > 1e-10  # the angle counts
    centered = tasks.GaussianTask(0 * u, C, noise_std=noise)
    few = theory.few_heads_weights(centered, heads, -u, bias)
    least = best_keys(np.asarray(attention.effective(few)[0]), given)[0]
    assert min(along, against, chance) > least - 1e-12 and least > least_of_all(given) - 1e-12


def constant_of_the_step(d, C, heads, var, tau, fourth=0.0):
    """Delta m Sigma^-1 c: what the regression of v_1.eps gives of a constant, times a determinant; and the bracket."""
    L, inverse = d + var, 1 + (d + 1 + var) / C
    rest = 2 * d + (2 * (L**2 + 2 * d - heads + 1) + fourth) / C
    mixed = tau * (2 / C + inverse)
    sigma = np.array([[2 / C + tau**2 * inverse, mixed], [mixed, inverse + tau**2 * rest]])
    measured = np.linalg.det(sigma) * np.array([1, tau * (L - heads + 1)]) @ np.linalg.solve(sigma, [tau, 1.0])
    bracket = 2 * d + (2 * (L**2 - L + 2 * d) + fourth) / C
    return measured, tau * (tau**2 * bracket + 2 / C * (L - heads))


@pytest.mark.claim("few-heads-optimum")
def test_the_step_of_the_mixture_gives_a_constant_of_one_sign():
    """For 4000 random settings with H <= d, and for any noise; with more heads than d it can have the other sign."""
    rng = np.random.default_rng(0)
    for _ in range(4000):
        d, C, var, tau = (
            int(rng.integers(1, 30)),
            int(rng.integers(1, 60)),
            rng.exponential(3),
            10 ** rng.uniform(-3, 3),
        )
        heads, var = int(rng.integers(1, d + 1)), var * (rng.random() < 0.7)
        for fourth in (0.0, -2 * var**2):  # Gaussian noise, and random signs
            measured, formula = constant_of_the_step(d, C, heads, var, tau, fourth)
            assert measured == pytest.approx(formula, rel=1e-6) and formula >= 0
    measured, formula = constant_of_the_step(2, 5, 4, 0.0, 0.1)
    assert measured == pytest.approx(formula, rel=1e-9) and measured < 0
