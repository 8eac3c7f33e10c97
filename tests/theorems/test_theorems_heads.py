"""How many heads the minimum risk needs, and what is lost without the right guess."""

import numpy as np
import pytest
from book_task import (
    GD_RISK,
    GD_STEP,
    MISSED,
    UU,
    UW,
    W,
    beta,
    heads_error,
    lift_gradient,
    number,
    target,
    y_q,
)
from dense import gaussian, heads, inverse, least, linear_guess, predict
from symbolic import C, all_zero, certify, d, mean, same, without_noise
from theory_reference import BIAS, GUESS, TASKS

from lsalib import theory


def dimension(d: int, H: int) -> int:
    """The rank of the derivative of H heads -> symmetric parts of the lift, at random
    heads.
    """
    rng, D = np.random.default_rng(d), d + 1
    b, A = rng.normal(size=(H, D)), rng.normal(size=(H, D, D))
    lift = lambda b, A: np.einsum("...hm,...hnj->...jmn", b, A)
    # A bilinear map: its derivative in a direction is its value there.
    M = np.concatenate(
        [
            lift(np.eye(b.size).reshape(-1, H, D), A),
            lift(b, np.eye(A.size).reshape(-1, H, D, D)),
        ]
    )
    return np.linalg.matrix_rank((M + M.swapaxes(-1, -2)).reshape(len(M), -1))


@pytest.mark.claim("thm1-construction", kind="brute force")
def test_d_plus_one_heads_have_every_lift_and_fewer_do_not():
    """The construction predicts as the lift does, d heads do not; those of d heads or
    fewer have fewer dimensions.
    """
    rng, d, C = np.random.default_rng(0), 3, 4
    M, X, y = rng.normal(size=(d + 1,) * 3), rng.normal(size=(C, d)), rng.normal(size=C)
    x_q, y_q = rng.normal(size=d), 0.7
    z, z_q = np.column_stack([X, y]), np.append(x_q, y_q)
    lifted = y_q + np.einsum("mn,jmn,j", z.T @ z / C, M, z_q)
    b, A = np.eye(d + 1), M.transpose(1, 2, 0)  # the head h reads the rows h of all M_j
    assert predict(heads(b, A), X, y, x_q, y_q) == pytest.approx(lifted, rel=1e-12)
    assert abs(predict(heads(b[1:], A[1:]), X, y, x_q, y_q) - lifted) > 1e-2
    for d, H in ((1, 1), (2, 1), (2, 2), (2, 3), (4, 2), (4, 4), (4, 5)):
        assert ((d + 1) ** 2 * (d + 2) // 2 > dimension(d, H)) == (H <= d)


@pytest.mark.claim(
    "thm2-exact-gap",
    "gd-strict-lower-bound",
    "fig3-linear-gap",
    "fig4-guess-slope",
    "fig4-bias-slope",
    "lemma1-nonconvex",
    kind="certificate",
)
def test_the_risk_of_d_heads():
    """At d explicit heads the gradient by the lift is zero, and the risk is that of one
    step and 2(|u|² + β²)/(Cd + 2).

    In the lift the risk is convex, so this is the minimum risk of all numbers of heads.
    """
    assert all_zero(lift_gradient(heads_error))
    assert not all_zero(lift_gradient(lambda: heads_error(share=1 / d)))
    gap = 2 * (MISSED + beta**2) / (C * d + 2)
    least_risk = without_noise(mean(heads_error() * heads_error()))
    certify(least_risk, GD_RISK + gap, GD_RISK + gap.subs(C, C + 1))
    task = TASKS["isotropic"]
    stated = number(GD_RISK + gap, task, GUESS, BIAS)
    assert theory.optimal_risk(task, GUESS, BIAS) == pytest.approx(stated, rel=1e-12)
    slope = 2 / (C * d + 2)
    assert same(least_risk.subs({UU: 0, UW: 0, beta: 0}) - GD_RISK, slope * W)
    assert same(least_risk.subs({W: 0, UW: 0, beta: 0}) - GD_RISK, slope * UU)
    assert same(least_risk.subs({W: 0, UW: 0, UU: 0}) - GD_RISK, slope * beta**2)
    # Half-way between these heads and the same with two signs turned is the zero map,
    # which is worse.
    zero_map = mean((y_q() - target()) * (y_q() - target()))
    above = d * GD_STEP + (MISSED + beta**2) * C * d / (C * d + 2)
    certify(zero_map - least_risk, above, above - d * GD_STEP)


def excess_of_d_heads(distance: float, dim: int, size: int, var: float) -> float:
    """How far d heads stay above all lifts, for noisy labels and a guess this far off,
    by a scan of one number.
    """
    given, query = (
        gaussian(dim, size, var**0.5),
        linear_guess(np.eye(dim), distance * np.eye(dim)[0]),
    )
    value = lambda share: np.vstack(
        [np.append(np.eye(dim)[0], share), np.eye(dim, dim + 1)[1:]]
    )
    return min(
        least(given, query, value(share)) for share in np.geomspace(1e-2, 1e2, 2001)
    ) - least(given, query)


@pytest.mark.claim("sharp-head-count", "thm1-saturation", kind="brute force")
def test_the_sharp_head_count():
    """Without noise as many heads as the rank of the features are needed; with noise d
    are enough up to a distance.
    """
    rng = np.random.default_rng(1)
    for dim, size, rank in ((1, 4, 1), (2, 3, 2), (3, 2, 3), (3, 4, 2)):
        U, P = rng.normal(size=(2, dim, dim))
        U = np.linalg.qr(U)[0] * [1.5, 0.7, 1.0][:dim]
        U[:, rank:] = 0
        given, u = (
            gaussian(dim, size, L=U, P=P),
            U @ inverse(U.T @ U) @ rng.normal(size=dim),
        )
        features, label = np.pad(U.T[:rank], ((0, 0), (0, 1))), np.eye(dim + 1)[-1:]
        for slope, bias in ((u, 0.0), (u, 0.8), (0 * u, 0.8)):
            query = linear_guess(U @ U.T, slope, bias)
            lowest = least(given, query)
            assert least(given, query, features) == pytest.approx(lowest, rel=1e-9)
            fewer = [features[1:], label, *rng.normal(size=(20, rank - 1, dim + 1))]
            assert min(least(given, query, values) for values in fewer) > lowest + 1e-6
        right = linear_guess(U @ U.T, 0 * u)
        assert least(given, right, label) == pytest.approx(
            least(given, right), rel=1e-9
        )
    # With label noise: the distance from which on d heads are not enough, with the best
    # step and the stand-in for 1.
    for dim, size, var in ((1, 3, 1.0), (2, 4, 2.0)):
        K = 2 * dim + 2 / size * ((dim + var) ** 2 + dim)
        left = 1 / (1 + size * dim / 2 + var**2 / K)
        step = size / (size + dim + 1 + var)
        distance = step / (2 * left * np.sqrt((size / 2 - var / K) * var / K))
        assert excess_of_d_heads(0.95 * distance, dim, size, var) < 1e-7
        assert excess_of_d_heads(1.05 * distance, dim, size, var) > 1e-5
