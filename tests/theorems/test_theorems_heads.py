"""How many heads the minimum risk needs, and what is lost without the right guess."""

import numpy as np
import pytest
import sympy
from book_task import (
    GD_RISK,
    GD_STEP,
    MISSED,
    beta,
    heads_error,
    lift_gradient,
    number,
    target,
    y_q,
)
from dense import gaussian, heads, inverse, least, linear_guess, predict
from symbolic import C, Law, all_zero, certify, d, mean, without_noise
from theory_reference import BIAS, GUESS, TASKS, lifted

from lsalib import theory
from lsalib.attention import LSAParams
from lsalib.tasks import GaussianTask

kurtosis = sympy.Symbol("kurtosis", positive=True)


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
    "kurtosis-law",
    kind="certificate",
)
def test_the_risk_of_d_heads(x64):
    """At d explicit heads the gradient by the lift is zero, and the risk is that of one
    step and 2(|u|² + β²)/(Cd + 2); and as stated for independent coordinates of any
    fourth moment. The library says so, too.

    In the lift the risk is convex, so this is the minimum risk of all numbers of heads.
    """
    law, names = Law(kurtosis=kurtosis), sympy.symbols("step share")
    best = C / (C + d + kurtosis - 2), C / (C * d + kurtosis - 1)
    constants = dict(zip(names, best, strict=True))
    error = lambda: heads_error(*names)  # so that less is multiplied out
    gradient = list(lift_gradient(error, law))
    assert all_zero(entry.subs(constants) for entry in gradient)
    wrong = {name: value.subs(kurtosis, 3) for name, value in constants.items()}
    assert not all_zero(entry.subs(wrong) for entry in gradient)
    gap = (kurtosis - 1) * (MISSED + beta**2) / (C * d + kurtosis - 1)
    risk, plain = d * (1 - best[0]) + gap, {kurtosis: 3}
    found = without_noise(mean(error() * error(), law)).subs(constants)
    certify(found, risk)
    normal = 2 * (MISSED + beta**2) / (C * d + 2)
    certify(risk.subs(plain), GD_RISK + normal)
    assert gap.subs(kurtosis, 1) == 0  # random signs
    # Half-way between these heads and the same with two signs turned is the zero map,
    # which is worse.
    zero_map = mean((y_q() - target()) * (y_q() - target()))
    above = d * GD_STEP + (MISSED + beta**2) * C * d / (C * d + 2)
    certify(zero_map - risk.subs(plain), above)
    task, one = TASKS["isotropic"], np.eye(3)
    stated = number(risk.subs(plain), task, GUESS, BIAS)
    assert theory.optimal_risk(task, GUESS, BIAS) == pytest.approx(stated, rel=1e-12)
    of = {"kurtosis": 1.8}
    fourth = sum(
        np.einsum(f"{pairs}->ijkl", one, one) for pairs in ("ij,kl", "ik,jl", "il,jk")
    )
    fourth[(range(3),) * 4] += of["kurtosis"] - 3
    rho = np.append(-task.prior_mean, 1.0)
    step, share = (number(each, task, **of) for each in best)
    add, correct = (
        np.einsum(f"hm,n->{to}", np.eye(3, 4), rho) for to in ("hnm", "hmn")
    )
    M = lifted(LSAParams(*heads(np.eye(3, 4), step * add - share * correct)))
    quadratic = theory.lifted_risk(task, GUESS, BIAS, fourth=fourth)
    np.testing.assert_allclose(quadratic.gradient(M), 0, atol=1e-10)
    stated = number(risk, task, GUESS, BIAS, **of)
    np.testing.assert_allclose(quadratic.value(M), stated, rtol=1e-10)
    gaussian_features = theory.lifted_risk(task, GUESS, BIAS)
    assert np.abs(gaussian_features.gradient(M)).max() > 1e-2


@pytest.mark.claim("sharp-head-count", "thm1-saturation", kind="brute force")
def test_the_sharp_head_count():
    """Without noise as many heads as the rank of the features are needed; with noise d
    are enough up to a distance, by the library's risks.
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
        tasks = [
            GaussianTask(part * distance * np.eye(dim)[0], size, noise_std=var**0.5)
            for part in (0.95, 1.05)
        ]
        near, far = (
            theory.least_risk(task, dim).risk - theory.optimal_risk(task)
            for task in tasks
        )
        assert near < 1e-7 and far > 1e-5
