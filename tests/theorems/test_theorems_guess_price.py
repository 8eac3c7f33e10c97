"""What a wrong guess costs, for other covariances, other features and noisy labels."""

import numpy as np
import pytest
import sympy
from book_task import S, a, b, loop, q
from dense import least, linear_guess, random_covariances
from symbolic import C, Law, all_zero, certify, d, mean, same, sigma2
from sympy import Matrix, Symbol

from lsalib import theory
from lsalib.tasks import GaussianTask

kurtosis, cumulant = sympy.symbols("kurtosis kappa4", positive=True)


@pytest.mark.claim("universality", "exact-multihead-risk", kind="brute force")
def test_the_price_of_a_guess_of_any_form():
    """Over all heads, a guess costs its squared error over 1 + C rank/2 + σ⁴/K,
    singular covariances included.

    Only second moments with the query count: any guess is a slope, and a remainder that
    acts as an offset.
    """
    rng = np.random.default_rng(0)
    cases = (
        (1, 3, 1, 1, 0, 3),
        (2, 2, 1, 2, 0, 3),
        (2, 4, 2, 1, 0.7, 3),
        (3, 2, 3, 3, 0, 3),
        (3, 3, 2, 3, 1.1, 6),
    )
    for dim, size, rank, of_prior, noise, fourth in (*cases, (2, 2, 2, 2, 0.9, 1)):
        L, P, given = random_covariances(
            rng, dim, size, (rank, of_prior), noise, noise_kurtosis=fourth
        )
        best = least(given, linear_guess(L, np.zeros(dim)))
        square, spread = np.trace(L @ P @ L @ P), np.trace(L @ P) + noise**2
        K = 2 * square + (2 * (square + spread**2) + (fourth - 3) * noise**4) / size
        share = lambda rank, K=K, size=size, noise=noise: (
            1 / (1 + size * rank / 2 + noise**4 / K)
        )
        task = GaussianTask(np.zeros(dim), size, L, P, noise)
        extra = (fourth - 3.0) * noise**4
        constant = theory.constant_regression(task, noise_cumulant=extra)
        assert constant.error == pytest.approx(share(rank), rel=1e-9)
        # Least squares for 1 on the entries of S and q has these coefficients.
        used = np.zeros((dim + 1, dim + 1))
        used[:dim, :dim], used[dim, dim] = constant.features, constant.residual
        left = np.einsum("mn,mnpq,pq->", used, given.second, used)
        left += 1 - 2 * np.vdot(used, given.mean)
        assert left == pytest.approx(constant.error, rel=1e-9)
        for slope, offset in ((1, 0.0), (1, 0.8), (0, 0.8)):
            guess = slope * rng.normal(size=dim)
            token = linear_guess(L, -guess, offset)
            lowest = least(given, token)
            if fourth == 3:
                stated = theory.optimal_risk(task, guess, offset)
                assert lowest == pytest.approx(stated, rel=1e-8)
            paid = (lowest - best) / token[-1, -1]
            assert paid == pytest.approx(share(rank), rel=1e-7)
            # Controls: another rank, no noise.
            assert abs(paid / share(rank + 1) - 1) > 1e-2
            assert not noise or abs(paid / share(rank, noise=0) - 1) > 1e-4


@pytest.mark.claim("price-general", kind="certificate")
def test_price_general():
    """The normal equations for independent coordinates and noise of any fourth moments,
    and how much noise can do.
    """
    law = Law(kurtosis=kurtosis, noise_cumulant=cumulant)
    own = 2 * sigma2**2 + cumulant
    V = 2 * d * (C + d + kurtosis - 2) / C + 4 * sigma2 * d / C + own / C
    share = 1 / (1 + C * d / (kurtosis - 1) + sigma2**2 / V)
    e, f, m = sympy.symbols("e f m")  # so that less is multiplied out
    left = lambda: 1 - e * (m * loop(S) + f * (q() - loop(S)))
    first, by_features, by_label = (
        mean(left() * entry, law) for entry in (1, S(a, b), q())
    )
    constants = {e: share, f: sigma2 / V, m: C / (kurtosis - 1)}
    assert all_zero([by_features.subs(constants), by_label.subs(constants)])
    assert not same(by_label.subs(constants | {f: sigma2 / V.subs(cumulant, 0)}), 0)
    certify(first.subs(constants), share)
    # Gaussian features of any covariance: Gaussian noise takes off less than 1/(rank +
    # 1), random signs nearly all.
    rank, square, spread = sympy.symbols("rank square spread", positive=True)
    V = 2 * (1 + 1 / C) * square + 2 * spread * (spread + 2 * sigma2) / C + own / C
    taken, bound = (
        1 - (1 + C * rank / 2) / (1 + C * rank / 2 + sigma2**2 / V),
        C / (C * (rank + 1) + 2),
    )
    terms = lambda f: [
        sympy.Poly(part, C, rank, square, spread, sigma2, cumulant).coeffs()
        for part in sympy.fraction(f)
    ]
    positive = lambda f: all(c > 0 for part in terms(sympy.cancel(f)) for c in part)
    assert positive(bound - taken) and positive(1 / (rank + 1) - bound)
    signs = taken.subs(cumulant, -2 * sigma2**2)
    assert not positive(bound - signs) and sympy.limit(signs, sigma2, sympy.oo) == 1


@pytest.mark.claim("kurtosis-family", kind="certificate")
def test_kurtosis_family():
    """What C tokens leave of the constant follows from what one token leaves.

    For second moments of six products of features at random, and for the share of
    independent coordinates of any kurtosis for all d.
    """
    share = lambda one, size=C: one / (one + size * (1 - one))
    rng = np.random.default_rng(0)
    multiple = lambda explained, size=C: size / (1 + (size - 1) * explained)
    for size in (1, 4):
        root, best = rng.normal(size=(6, 6)), rng.normal(size=6)
        second = root @ root.T
        first = second @ best  # best solves the equations of one token
        every = (second + (size - 1) * np.outer(first, first)) / size
        solved = lambda other: every @ best * multiple(best @ first, other)
        np.testing.assert_allclose(solved(size), first, rtol=1e-11)
        assert np.abs(solved(size + 1) - first).max() > 1e-2
    e = Symbol("explained")
    certify(1 - multiple(e) * e, share(1 - e))
    # Independent coordinates without noise, as in ``test_price_general``.
    listed = (kurtosis - 1) / (C * d + kurtosis - 1)
    certify(share(listed.subs(C, 1)), listed)


@pytest.mark.claim("constant-coordinate", kind="brute force")
def test_constant_coordinate():
    """With a constant in every token two heads take the best step in every context; one
    head lacks a direction.
    """
    rng = np.random.default_rng(0)
    for dim in (1, 2, 3):
        N, root = rng.normal(size=(dim + 1, dim + 1)), rng.normal(size=(dim + 2, 4))
        w, x_q, y_q = rng.normal(size=dim), rng.normal(size=dim), rng.normal()
        z_q, token, residual = np.array([*x_q, 1, y_q]), np.eye(dim + 2), root @ root.T
        token[-1, :dim] = w  # from [x; 1; r] to [x; 1; y]
        rho, one = np.linalg.inv(token)[-1], np.eye(dim + 2)[dim]
        step = w @ x_q + z_q[:-1] @ N @ residual[:-1, -1]
        both = (rho, np.pad(N.T, (0, 1))), (one, -np.outer(one, rho))
        found = []
        for constant in (1.0, 2.0):
            residual[dim, dim] = constant
            G = token @ residual @ token.T
            found.append(y_q + sum(value @ G @ A @ z_q for value, A in both))
        assert found[0] == pytest.approx(step, rel=1e-12) and abs(found[1] - step) > 0.1
    # A head's form of one coordinate has rank two at most, the wanted form three.
    v_x, v_0, c = sympy.symbols("v_x v_0 c")
    v, e_0, e_r = Matrix([v_x, v_0, 0]), Matrix([0, 1, 0]), Matrix([0, 0, 1])
    certify(((e_r * v.T + v * e_r.T) / 2 + c * e_0 * e_0.T).det(), -(v_x**2) * c / 4)
