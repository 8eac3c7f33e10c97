"""What the page on depth says of one size holds at others, and what it leaves to be checked."""

import numpy as np
import pytest
from scipy.special import roots_genlaguerre
from test_depth import attend, law, traces

from lsalib import tasks, theory
from lsalib.book import stored
from studies.experiments import depth

SETTINGS = [(length, C) for C in (1, 2, 3, 6, 24) for length in (0.0, 1.0, 5.0)]
DIRECTION = np.array([0.6, -0.8])


def price(layers, d, C):
    return theory.depth_price(tasks.GaussianTask(np.zeros(d), C), layers)


def label_heads(c, f, alpha, u):
    """d heads, through which labels gain c s.x, f t y and alpha t u.x."""
    d, heads = len(u), []
    for h in range(d):
        P, Q = np.zeros((2, d + 1, d + 1))
        P[-1, h], Q[-1, h], Q[h, -1] = 1, c, f / d
        Q[h, :d] = alpha * u / d
        heads.append((P, Q))
    return heads


def two_layers(u, C):
    """The layers of the theorem's proof, by its equations."""
    d, k = len(u), C * len(u) / 2
    step, D = C / (C + d + 1), C * C + (d + 3) * C + (d - 1) * (d + 4)
    c1, c2 = sorted(np.roots([1, -2 * step, -C * C / D]))
    m = 2 * step * C * d / D
    f2 = min(np.roots([-c1 / c2, m / c2, -(k**2) / ((k + 1) * (k + 2))]))
    f1 = (m - c1 * f2) / c2
    return label_heads(c1, f1, 0, u), label_heads(c2, f2, f1 + f2 + 2 * k / (k + 1), u)


def exact_risk(layers, u, C, degree=2, of_eps=1, nodes=None):
    """Of two features: two tokens with the Gram matrix S stand for the context, the unit vectors are the queries."""
    S, eps, weights = depth.rule(2, C, degree, of_eps) if nodes is None else nodes
    values, vectors = np.linalg.eigh(S)
    X = vectors * np.sqrt(2 * np.maximum(values, 0))[:, None]
    total = 0.0
    for query in np.eye(2):
        given = np.concatenate([X, np.einsum("ni,nij->nj", eps, X)[:, None]], axis=1)
        asked = np.broadcast_to(np.append(query, -u @ query)[:, None], (len(S), 3, 1))
        tokens = np.concatenate([given, asked], axis=2)
        for heads in layers:
            tokens = attend(tokens, heads)
        total += weights @ (tokens[:, -1, -1] - eps @ query) ** 2
    return total


@pytest.mark.claim("depth-gap")
@pytest.mark.parametrize(("length", "C"), SETTINGS)
def test_two_layers_of_two_heads_have_the_stated_risk(length, C):
    """Token by token at the nodes of an exact rule; three neighboring prices and a repeated layer do not have it."""
    u, k = length * DIRECTION, float(C)
    layers, right = two_layers(u, C), law(2, C, 2, 0.0)
    risk = exact_risk(layers, u, C)
    np.testing.assert_allclose(risk, law(2, C, 2, length), rtol=1e-9)
    if length:
        neighbors = 1 / (k + 1), 2 / (k + 1) ** 2, 2 / ((2 * k + 1) * (2 * k + 2))
        assert min(abs(right + length**2 * each - risk) for each in neighbors) > 1e-3 * risk
        assert abs(exact_risk(layers[1:] * 2, u, C) / risk - 1) > 1e-3


SKEWED = np.array([2.0, -0.5]), np.array([0.2, 0.8])  # mean zero, variance one


@pytest.mark.claim("depth-gap")
@pytest.mark.parametrize("C", [1, 3, 24])
@pytest.mark.parametrize("drift", [0.0, 0.5])
def test_deviations_need_mean_zero_given_the_features_and_no_symmetry(C, drift):
    """Skewed deviations pay the same; those that drift with the features' length, of mean zero as well, do not."""
    u, (values, p) = 2.0 * DIRECTION, SKEWED
    S, _, weights = depth.rule(2, C, 4, 0)
    eps = np.stack(np.meshgrid(values, values, indexing="ij"), -1).reshape(-1, 2)
    weights, S = np.outer(weights, np.outer(p, p)).ravel(), np.repeat(S, 4, axis=0)
    length = np.trace(S, axis1=1, axis2=2)[:, None] / 2
    eps = np.tile(eps, (len(S) // 4, 1)) + drift * (length - 1) * DIRECTION
    np.testing.assert_allclose(weights @ eps, 0, atol=1e-12)
    assert weights @ eps[:, 0] ** 3 > 0.5
    wrong, right = (exact_risk(two_layers(each, C), each, C, nodes=(S, eps, weights)) for each in (u, 0 * u))
    assert np.isclose(wrong - right, 4 * price(2, 2, C), rtol=1e-8) == (drift == 0)


def best_descent(d, C, powers):
    """The least mean of |I - sum_n c_n t^j S^k|^2, for pairs (k, j)."""
    rise = lambda k, j: np.prod(1 + 2 * np.arange(k, k + j) / (C * d))
    moment = lambda k, j: traces(d, C)[k] * rise(k, j)
    normal = np.array([[moment(k + p, j + q) for p, q in powers] for k, j in powers])
    answer = np.array([moment(*pair) for pair in powers])
    return d - answer @ np.linalg.lstsq(normal, answer, rcond=1e-12)[0]


@pytest.mark.claim("depth-gap")
@pytest.mark.parametrize(("d", "C"), [(2, 3), (3, 6), (10, 10), (10, 100), (5, 2), (1, 4), (4, 1)])
def test_the_normal_equations_of_the_best_descent(d, C):
    """Also for fewer examples than features, one feature and one example; two plain gradient steps have more risk."""
    np.testing.assert_allclose(best_descent(d, C, [(1, 0), (1, 1), (2, 0)]), law(d, C, 2, 0.0), rtol=1e-9)
    if d > 1 and C > 1:
        assert best_descent(d, C, [(1, 0), (2, 0)]) > law(d, C, 2, 0.0) * (1 + 1e-4)


@pytest.mark.claim("depth-gap")
@pytest.mark.parametrize("C", [1, 5])
@pytest.mark.parametrize("layers", [1, 3, 5])
def test_one_feature_takes_gradient_steps_from_the_wrong_start(C, layers):
    """Their sizes are C over twice the roots of a Laguerre polynomial; other roots have more risk."""
    x, p = roots_genlaguerre(layers + 1, C / 2 - 1)
    risk = lambda roots: p @ np.prod(1 - x[:, None] / roots, axis=1) ** 2 / p.sum() * (1 + 2.0**2)
    np.testing.assert_allclose(risk(roots_genlaguerre(layers, C / 2)[0]), law(1, C, layers, 2.0), rtol=1e-9)
    assert risk(roots_genlaguerre(layers, C / 2 + 1)[0]) > law(1, C, layers, 2.0) * 1.001


@pytest.mark.claim("depth-gap")
def test_the_exact_price_needs_noise_free_labels():
    """With noise, a single layer that multiplies labels pays less than the bound for affine layers without noise."""
    paid = lambda noise: (lambda task: theory.optimal_risk(task) - theory.yq_risk(task))(
        tasks.GaussianTask([2.0] * 10, 10, noise_std=noise)
    )
    np.testing.assert_allclose(paid(0.0), 40 * price(1, 10, 10), rtol=1e-6)
    assert paid(3.0) < 40 * price(1, 10, 10) * 0.99


@pytest.mark.claim("depth-gap")
def test_three_layers_are_above_the_best_polynomial_and_the_price():
    """A consequence of the theorem for every search; with the price of two layers it does not hold."""
    arrays, about = stored.load("depth")
    powers = [(k, j) for k in (1, 2, 3) for j in range(4 - k)]
    u2 = np.square(about["errors"])
    for i, C in enumerate(about["lengths"]):
        S, _, weights = depth.rule(2, C, 3)
        t = np.trace(S, axis1=1, axis2=2) / 2
        forms = [t[:, None, None] ** j * np.linalg.matrix_power(S, k) for k, j in powers]
        root = np.sqrt(np.repeat(weights, 4))
        terms, eye = np.stack(forms).reshape(len(powers), -1).T, np.tile(np.eye(2).ravel(), len(weights))
        best = np.linalg.lstsq(root[:, None] * terms, root * eye, rcond=None)[0]
        descent = np.square(root * (terms @ best - eye)).sum()
        found = arrays["risk"][0, i, 2].min((1, 2))
        assert (found > (descent + u2 * price(3, 2, C)) * (1 - 1e-6)).all()
        assert found[-1] < descent + u2[-1] * price(2, 2, C)


@pytest.mark.claim("depth-gap")
def test_one_example_is_like_one_feature_at_three_layers():
    """The best searches with two features end at d - 1 and the formula along the example; that of C = 2 is another."""
    arrays, about = stored.load("depth")
    best = arrays["risk"][0, about["lengths"].index(1), 2, :, 0].min(-1)
    risk = lambda C: 1 + (1 + np.square(about["errors"])) * price(3, 2, C)
    np.testing.assert_allclose(best, risk(1), rtol=1e-8)
    assert (np.abs(best / risk(2) - 1) > 1e-3).all()


@pytest.mark.claim("depth-floor")
@pytest.mark.parametrize(("degree", "d", "C"), [(1, 1, 3), (2, 2, 3), (3, 2, 6), (4, 1, 3)])
def test_the_nearest_polynomial_to_the_constant(degree, d, C):
    """By least squares on the moments of t; one degree less misses more."""
    missed = []
    for n in (degree, degree - 1):
        power = np.concatenate([[1.0], np.cumprod(1 + np.arange(2 * n) / (C * d / 2))])
        i = np.arange(1, n + 1)
        normal, answer = power[i[:, None] + i], power[i]
        missed.append(1 - (answer @ np.linalg.solve(normal, answer) if n else 0.0))
    np.testing.assert_allclose(missed[0], price(degree, d, C), rtol=1e-6)
    assert missed[1] > missed[0] * 1.1


@pytest.mark.claim("depth-floor")
@pytest.mark.parametrize("seed", range(3))
def test_a_prior_mean_multiplies_the_risk_of_equivariant_layers(seed):
    """Layers that write features and are linear in labels: 1 + |w*|^2/d times the risk at zero, not 1 + |w*|^2."""
    C, size, flat = 5, 1.7, np.random.default_rng(seed).normal(size=(2, 6)) / 3
    flat[:, 2:4] = 0  # no constant terms
    S, _, weights = depth.rule(2, C, 4)
    nodes = np.maximum(np.linalg.eigvalsh(S), 0), weights
    risk = lambda task: np.square(depth.features(flat.ravel(), nodes, size, np.array(task), depth=2)).sum()
    np.testing.assert_allclose(risk([1.0, 0.0]), (1 + size**2 / 2) * risk([0.0, 0.0]), rtol=1e-4)
    assert risk([1.0, 0.0]) < (1 + size**2) * risk([0.0, 0.0]) * 0.99


def linear_layer(rng):
    """Random heads that keep a network linear in the labels: features read features, labels read labels once."""
    label, heads = np.eye(3)[2], []
    pad = lambda block: np.pad(block, (0, 1))
    for _ in range(2):
        step, own = 0.3 * rng.normal(size=(2, 2, 2))
        heads += [tuple(map(pad, 0.2 * rng.normal(size=(2, 2, 2)))), (np.outer(label, label), pad(step))]
        heads += [(np.outer(label, np.append(own[0], 0)), np.outer(np.append(own[1], 0), label))]
    return heads


@pytest.mark.claim("depth-floor")
@pytest.mark.parametrize("seed", range(4))
def test_a_network_can_be_rotated_so_that_a_prior_mean_costs_little(seed):
    """A random network that prefers directions: its least eigenvector along the mean, the bound holds; its largest not.

    Token by token: the mean error of weights w is a quadratic form, whose trace is the risk at prior mean zero.
    """
    rng, C, none = np.random.default_rng(seed), 5, np.zeros(2)
    layers, mean = [linear_layer(rng) for _ in range(2)], 1.7 * DIRECTION
    S, eps, weights = depth.rule(2, C, 5)

    def risk(layers, mean, deviations=1.0):
        return exact_risk(layers, none, C, nodes=(S, mean + deviations * eps, weights))

    def turned(to):
        """The network, rotated so that this direction comes to lie along the mean."""
        rotate = np.eye(3)
        rotate[:2, :2] = np.outer(DIRECTION, to) + np.outer(DIRECTION[::-1] * [1, -1], to[::-1] * [1, -1])
        return [[(rotate @ P @ rotate.T, rotate @ Q @ rotate.T) for P, Q in heads] for heads in layers]

    first, second, both = (risk(layers, np.array(w), 0.0) for w in ([1.0, 0.0], [0.0, 1.0], [1.0, 1.0]))
    beside = (both - first - second) / 2
    vectors = np.linalg.eigh([[first, beside], [beside, second]])[1].T
    at_zero = risk(layers, none)
    np.testing.assert_allclose(at_zero, first + second, rtol=1e-9)
    least, largest = (risk(turned(vector), mean) for vector in vectors)
    np.testing.assert_allclose(risk(turned(vectors[0]), none), at_zero, rtol=1e-9)
    assert least < (1 + mean @ mean / 2) * at_zero < largest


def test_layers_that_write_features_can_have_a_threefold_zero():
    """Exercise 2: the numbers exist, by bisection between the two values of its solution."""
    bend = lambda a: -(4 * a + 6 * a**2) / (2 + 12 * a + 12 * a**2)
    slope = lambda a, c: 1 + c / (1 + c) + 2 * a / (1 + a) + c / (1 - c)
    low, high = -0.2, -0.16
    assert slope(low, bend(low)) > 0 > slope(high, bend(high))
    for _ in range(60):
        a = (low + high) / 2
        low, high = (a, high) if slope(a, bend(a)) > 0 else (low, a)
    c = bend(a)
    b, S = (1 - c) / ((1 + c) * (1 + a) ** 2), np.polynomial.Polynomial([0, 1])
    e = 1 - c * S - b * S * (1 + c * S) * (1 + a * S) ** 2
    np.testing.assert_allclose([e(1), e.deriv()(1), e.deriv(2)(1)], 0, atol=1e-9)
    assert abs(e.deriv(3)(1)) > 0.1 and e(0) == 1
