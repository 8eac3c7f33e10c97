"""One gradient step from the prior mean: in one head, its risk, and that it is the
optimum beside a trained guess.
"""

import numpy as np
import pytest
import sympy
from book_task import (
    GD_RISK,
    GD_STEP,
    MISSED,
    NOISY_STEP,
    Gxy,
    Gyy,
    S,
    W,
    a,
    b,
    beta,
    delta,
    dot,
    j,
    loop,
    number,
    paired,
    q,
    s,
    target,
    w,
    y_q,
)
from dense import (
    gaussian,
    inverse,
    least,
    linear_guess,
    predict,
    random_covariances,
    three_values,
)
from symbolic import (
    GENERAL,
    C,
    Law,
    all_zero,
    at_infinity,
    certify,
    d,
    eps,
    inner,
    mean,
    query,
    same,
    sigma2,
    trace,
)
from sympy import Function, Matrix, Rational
from theory_reference import TASKS, gauss_hermite

from lsalib import attention, estimators, theory
from lsalib.tasks import GaussianTask

eta, kurtosis, cumulant = sympy.symbols("eta kurtosis cumulant")
wa, wj = mean(w(a)), mean(w(j))


@pytest.mark.claim("gd-in-one-head", kind="brute force")
def test_gd_in_one_head(x64):
    """The weights of eq. 7 with the guess w⋆.x_q take a gradient step, if the factor
    1/C stands once.
    """
    rng, dim, size, step = np.random.default_rng(0), 3, 5, 0.7
    w_star, X, y, x_q = (
        rng.normal(size=shape) for shape in (dim, (size, dim), size, dim)
    )
    moved = w_star - step / size * X.T @ (X @ w_star - y)
    guess = w_star @ x_q
    found = float(estimators.one_step_gd(X, y, x_q, w_star, step))
    assert found == pytest.approx(x_q @ moved, rel=1e-12)
    layer = attention.gd_weights(w_star, step)
    of = lambda layer, y_q: predict(layer, X, y, x_q, y_q) - x_q @ moved
    assert abs(of(layer, guess)) < 1e-12 < 1e-3 < abs(of(layer, 0.0))
    assert abs(of(layer._replace(W_P=layer.W_P / size), guess)) > 1e-3


def step_error(step=eta):
    """The error of one gradient step from the prior mean."""
    return step * dot(query, s) - dot(query, eps)


@pytest.mark.claim("exact-gd-risk", kind="certificate")
def test_exact_gd_risk():
    """The risk of one gradient step for all covariances and noise; its best step for
    identity covariances.
    """
    squares = (1 + 1 / C) * trace("LLLP") + (trace("LP") + sigma2) * trace("LL") / C
    risk = trace("LP") - 2 * eta * trace("LLP") + eta**2 * squares
    certify(mean(step_error() * step_error(), GENERAL), risk)
    best = sympy.solve(risk.diff(eta), eta)[0]
    white = dict.fromkeys(map(trace, ("LLLP", "LLP", "LP", "LL")), d)
    certify(best.subs(white), NOISY_STEP)
    exact = risk.subs(white | {eta: GD_STEP, sigma2: 0})
    certify(exact, GD_RISK)
    for task in TASKS.values():
        stated = number(risk, task, eta=0.3), number(risk.subs(eta, best), task)
        found = theory.gd_risk(task, 0.3), theory.gd_risk(task)
        np.testing.assert_allclose(found, stated, rtol=1e-10)
        assert theory.optimal_step(task) == pytest.approx(number(best, task))


@pytest.mark.claim("thm4-stationary", "thm4-residual-order", kind="certificate")
def test_the_gradient_at_a_gradient_step():
    """By b, a_j, a_{d+1} and v, for every step size and noise: zero at the best step,
    of order (d+1)/C at step 1.
    """
    valued = lambda entry, last: eta * (last - dot(entry, w))
    error = lambda: (
        dot(w, query)
        + dot(query, lambda c: valued(lambda e: S(c, e), Gxy(c)))
        - target()
    )
    by_b = dot(lambda c: S(a, c), query), dot(Gxy, query)
    by_key = valued(lambda c: S(a, c), Gxy(a)), valued(Gxy, Gyy())
    ways = [
        *by_b,
        *(token * part for token in (query(j), dot(w, query)) for part in by_key),
        query(j),
    ]
    gradient = Matrix([mean(error() * way) for way in ways])

    def stated(step):
        off = eta / step - 1
        return Matrix(
            [0, d * off, *(eta * off * e for e in (delta(a, j), wj, wa, W)), 0]
        )

    assert all_zero(gradient - stated(NOISY_STEP))
    assert not all_zero(gradient - stated(GD_STEP))
    certify(1 / GD_STEP - 1, (d + 1) / C)  # without noise, at step 1


@pytest.mark.claim(
    "right-triangle",
    "pythagoras-general",
    "conjecture-global-optimum",
    "lemma2-nonconvex",
    "predecessor-uniform",
    kind="certificate",
)
def test_the_error_of_the_best_step_is_orthogonal():
    """To all that a guess and any heads add, for features of any kurtosis and noise of
    any fourth cumulant: so the step is the optimum.

    Half-way between it and the same with two signs turned the risk is higher by d times
    the step. Features that are uniform in [-1, 1] have kurtosis 9/5.
    """
    law = Law(kurtosis=kurtosis, noise_cumulant=cumulant)
    best = C / (C + d + kurtosis - 2 + sigma2)
    added = [
        lambda: query(j),
        lambda: query(j) * S(a, b),
        lambda: query(j) * s(a),
        lambda: query(j) * q(),
    ]
    off = lambda step: [mean(step_error(step) * part(), law) for part in added]
    assert all_zero(off(best)) and not all_zero(off(best.subs(kurtosis, 3)))
    risk = mean(step_error(best) * step_error(best), law)
    certify(risk, d * (1 - best))
    certify(mean(dot(query, eps) * dot(query, eps)) - risk, d * best)
    # Their variance is 1/3.
    fifth, uniform = Rational(1, 5), {kurtosis: Rational(9, 5), sigma2: 0}
    certify(3 * best.subs(uniform), 3 * C / (C + d - fifth))
    least_risk = d * (d - fifth) / (C + d - fifth) / 3
    certify(risk.subs(uniform) / 3, least_risk)


@pytest.mark.claim("prior-shift", kind="certificate")
def test_a_prior_that_moves():
    """At a prior mean moved by m: the risks of the best step from the old one, and of
    the d heads with any guess.

    Also for any prior covariance and preconditioner, in coordinates in which features
    are white.
    """
    m, N, law = Function("m"), Function("N"), Law(prior="P")
    of = lambda left, word="": inner(left, word, "m")
    moved = lambda k: eps(k) + m(k)
    step = lambda: dot(
        query, lambda k: GD_STEP * dot(lambda c: S(k, c), moved) - moved(k)
    )
    certify(mean(step() * step()), GD_RISK * (1 + of("m") / d))
    general = lambda w: (
        paired(N, lambda c, k: query(c) * dot(lambda e: S(k, e), w)) - dot(query, w)
    )
    squares = [mean(general(w) * general(w), law) for w in (moved, eps)]
    price = of("m") - 2 * of("m", "N") + (1 + 1 / C) * of("m", "NN")
    certify(squares[0] - squares[1], price + trace("NN") / C * of("m"))
    heads = lambda: (
        general(moved) + (y_q() - dot(w, query)) * (1 - C / (C * d + 2) * loop(S))
    )
    more, error = mean(heads() * heads(), law) - squares[0], MISSED + beta**2
    certify(more, 2 / (C * d + 2) * (error + 2 * of("w") - 2 * of("g")))


@pytest.mark.claim("guess-from-n-tasks", kind="brute force")
def test_a_guess_from_n_tasks():
    """No layer is better than the average's step; what one head pays more, times n, by
    the delta method for large n.
    """
    for D, size, n in ((2, 1, 1), (2, 3, 4), (3, 1, 9)):
        risk, step, one = D * (D + 1) / (size + D + 1), size / (size + D + 1), np.eye(D)
        given = gaussian(D, size, P=np.sqrt(1 + 1 / n) * one).beside_the_best_guess()
        lowest = least(given, linear_guess(one, np.zeros(D)))
        assert lowest == pytest.approx((1 + 1 / n) * risk) and abs(lowest - risk) > 1e-2
        X, of_X = three_values(*[3.0] * D * size)
        # their sixth moments are those of normal variables
        eps, of_eps = gauss_hermite(D, 4)
        X = X.reshape(-1, size, D)
        tokens = np.stack([np.dstack([X, X @ e]) for e in eps])
        G = np.einsum("extm,extn->exmn", tokens, tokens) / size
        error = step * G[..., -1, :D] - eps[:, None]
        # The derivatives of b' G A + v by b, the columns of A and v, at the step.
        by_A = np.einsum("exm,jk->exmjk", G[..., -1, :], one)
        by_v = np.broadcast_to(one, (*G.shape[:2], D, D))
        by_A = by_A.reshape(*G.shape[:2], -1, D)
        J = np.concatenate([step * G[..., :D], by_A, by_v], axis=2)
        score = np.einsum("x,expk,exk->ep", of_X, J, error)
        curvature = np.einsum("e,x,expk,exrk->pr", of_eps, of_X, J, J, optimize=True)
        paid = np.trace(inverse(curvature) @ (score.T * of_eps @ score)) / risk
        head = size * D * (D - 1) * (D + 2) / ((D + 1) * (size + D + 1) ** 2)
        skew = step * (D - 1) ** 2 * (D + 2) / (D * (D + 1) * (size + D + 2) - 2)
        assert paid == pytest.approx(1 + head + skew, rel=1e-9)
        assert abs(paid / (1 + head) - 1) > 1e-3


@pytest.mark.claim("trained-guess-weights", kind="brute force")
def test_the_weights_of_the_optimum():
    """Of b, A and v a scale and a column of A are free at the step, nothing else; for d
    = 1 another head equals it.
    """

    def read(b, A, v):
        """The symmetric forms of the query's coordinates, and the guess."""
        forms = np.multiply.outer(A[:, :-1] + np.outer(A[:, -1], v), b)
        return np.concatenate([(forms + forms.swapaxes(0, 2)).ravel(), v])

    for dim in (2, 3, 5):
        w_star = np.random.default_rng(dim).normal(size=dim)
        A = np.diag(np.append(np.ones(dim), 0.0))
        flat = np.concatenate([-w_star, [1.0], A.ravel(), w_star])

        def moved(way, flat=flat, A=A, dim=dim):
            # An imaginary step gives exact derivatives of a polynomial.
            b, keys, v = np.split(flat + 1e-30j * way, [dim + 1, dim + 1 + A.size])
            return read(b, keys.reshape(A.shape), v).imag * 1e30

        rank = np.linalg.matrix_rank([moved(way) for way in np.eye(len(flat))])
        assert len(flat) - rank == 1 + (dim + 1)
    rho, one = np.array([-2.0, 1.0]), np.array([1.0, 0.0])
    exchanged = [
        read(b, np.outer(keys, one), np.array([2.0]))
        for b, keys in ((rho, one), (one, rho))
    ]
    np.testing.assert_allclose(*exchanged)


@pytest.mark.claim("preconditioned-optimum", "exact-stationarity", kind="brute force")
def test_the_preconditioned_optimum():
    """For covariances of any rank, with noise and without, no guess and heads are
    better than the preconditioned step.

    Its gradient by the lift is zero; both fail without the 1/C of equal pairs.
    """
    rng = np.random.default_rng(0)
    cases = (
        (1, 1, (1, 1), 0),
        (2, 1, (2, 2), 0.8),
        (2, 3, (1, 2), 0.5),
        (3, 2, (3, 3), 0),
        (3, 4, (2, 1), 1.2),
    )
    for dim, size, ranks, noise in cases:
        L, P, given = random_covariances(rng, dim, size, ranks, noise)
        lowest = least(given.beside_the_best_guess(), linear_guess(L, np.zeros(dim)))
        for equal_pairs in (1, 0):
            V = (1 + equal_pairs / size) * L @ P @ L + (
                np.trace(L @ P) + noise**2
            ) / size * L
            N = P @ L @ inverse(V)
            risk = np.trace(
                L @ (P - 2 * N @ L @ P + N @ given.second[:-1, -1, :-1, -1] @ N.T)
            )
            gradient = np.tensordot(
                L, np.tensordot(N, given.second[:-1, -1], 1) - given.cross, 1
            )
            right = np.abs(gradient).max() < 1e-10 and abs(risk - lowest) < 1e-10
            assert right == bool(equal_pairs)
            task = GaussianTask(np.ones(dim), size, L, P, noise)
            off = np.abs((theory.optimal_preconditioner(task) - N) @ L).max()
            assert (off < 1e-9) == bool(equal_pairs)
        assert theory.yq_risk(task) == pytest.approx(lowest, rel=1e-9)


# Along a direction in which L P has the eigenvalue p, with tau for tr(L P) + sigma^2.
p, tau = sympy.symbols("p tau", positive=True)
SHARE = C * p / ((C + 1) * p + tau)


@pytest.mark.claim("ltb-optimum", "ltb-newton", kind="certificate")
def test_the_best_step_along_each_direction():
    """The risk of a step with any preconditioner, its minimum along each direction, and
    the share of a Newton step.
    """
    # features are white without loss of generality
    N, law = Function("N"), Law(prior="P")
    error = lambda: paired(N, lambda c, e: query(c) * s(e)) - dot(query, eps)
    squares = (1 + 1 / C) * trace("NNP") + (trace("P") + sigma2) * trace("NN") / C
    risk = squares - 2 * trace("NP") + trace("P")
    certify(mean(error() * error(), law), risk)
    along = (1 + 1 / C) * eta**2 * p + tau * eta**2 / C - 2 * eta * p + p
    certify(sympy.solve(along.diff(eta), eta)[0], SHARE)
    least = along.subs(eta, SHARE)
    certify(least, p * (p + tau) / ((C + 1) * p + tau))
    assert same(least.subs({p: 1, tau: d}) * d, GD_RISK) and same(at_infinity(SHARE), 1)


@pytest.mark.claim("lemma3-inclusion", kind="brute force")
def test_lemma3_inclusion(x64):
    """A block for every yq-LSA by the formulas; the factor W_3 in the keys breaks it.

    The converse is tested with the block's risk.
    """
    rng, dim, H = np.random.default_rng(0), 3, 2
    (K, Q, P, V), v = rng.normal(size=(4, H, dim + 1, dim + 1)), rng.normal(size=dim)
    context = rng.normal(size=(5, dim)), rng.normal(size=5), rng.normal(size=dim)
    stated = predict((K, Q, P, V), *context, v @ context[-1])
    found = attention.yq_lsa(attention.LSAParams(K, Q, P, V), v, *context)
    assert float(found) == pytest.approx(stated, rel=1e-10)
    W_1 = np.block([[np.eye(dim), v[:, None]], [v, v @ v + 1]])
    W_3 = np.block([[np.eye(dim), np.zeros((dim, 1))], [v, 0.0]])

    def block(K):
        layer = attention.LSAParams(K, Q @ W_3, np.linalg.inv(W_1) @ P, V)
        mlp = W_1, np.eye(dim + 1)
        return float(attention.linear_transformer_block(layer, *mlp, *context))

    assert block(K) == pytest.approx(stated, rel=1e-10)
    assert abs(block(K @ W_3) - stated) > 1e-3


@pytest.mark.claim("right-triangle", "pythagoras-general", kind="brute force")
def test_pythagoras_for_any_joint_law():
    """The risk is that of the best step plus the mean squared distance from it, for any
    layer, one query, and outcomes of features, weights and noise at random.

    Not if the weights and noise are not symmetric, nor with another preconditioner.
    """
    rng, size, dim = np.random.default_rng(0), 3, 2
    for symmetric, best in ((True, True), (False, True), (True, False)):
        X, signed = rng.normal(size=(30, size, dim)), rng.normal(size=(30, dim + size))
        if symmetric:
            X, signed = np.concatenate([X, X]), np.concatenate([signed, -signed])
        eps, noise = signed[:, :dim], signed[:, dim:]
        r = np.einsum("nid,nd->ni", X, eps) + noise
        s = np.einsum("nid,ni->nd", X, r) / size
        S = np.einsum("nid,nie->nde", X, X) / size
        q, wanted = np.mean(r**2, axis=1), eps @ rng.normal(size=dim)
        known = np.column_stack([np.ones(len(X)), S.reshape(len(X), -1), s, q])
        layer = known @ rng.normal(size=known.shape[1])
        # The query's answer by the preconditioner that solves the normal equations.
        step = s @ (np.linalg.lstsq(s, wanted)[0] if best else rng.normal(size=dim))
        risk, least_risk, distance = (
            np.mean(error**2) for error in (layer - wanted, step - wanted, layer - step)
        )
        equal = risk == pytest.approx(least_risk + distance, rel=1e-12)
        assert equal == (symmetric and best)
