"""What the page on real features says of a few tables and distributions holds for others."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy import optimize

from lsalib import tasks, theory

datasets = pytest.importorskip("sklearn.datasets", reason="the tables come with scikit-learn, which is not installed")

C = 8
TABLES = {
    "iris": lambda: datasets.load_iris().data,
    "diabetes": lambda: datasets.load_diabetes().data,
    "wine": lambda: datasets.load_wine().data,
    "breast cancer": lambda: datasets.load_breast_cancer().data[:, :10],
}


def standardized(name):
    x = TABLES[name]()
    return (x - x.mean(0)) / x.std(0)


def alike(rows):
    """Every row with the same chance."""
    return rows, np.full(len(rows), 1 / len(rows))


def three_points(kurtosis, d):
    """All outcomes of d independent coordinates, and their chances."""
    values = np.array([-(kurtosis**0.5), 0.0, kurtosis**0.5])
    chances = np.array([0.5, kurtosis - 1, 0.5]) / kurtosis
    at = np.indices((3,) * d).reshape(d, -1)
    return values[at].T, chances[at].prod(0)


def moments(rows, chance):
    d = rows.shape[1]
    pairs = np.einsum("ni,nj->nij", rows, rows).reshape(len(rows), -1)
    return (chance @ pairs).reshape(d, d), ((chance * pairs.T) @ pairs).reshape((d,) * 4)


def stand_in(rows, chance):
    """e_1, by least squares on the rows; the page computes it from moments."""
    i, j = np.triu_indices(rows.shape[1])
    products, root = rows[:, i] * rows[:, j], np.sqrt(chance)
    M = np.linalg.lstsq(root[:, None] * products, root, rcond=None)[0]
    return chance @ (1 - products @ M) ** 2


def share(e_1, size):
    return e_1 / (e_1 + size * (1 - e_1))


def inverse(matrix):
    return np.linalg.pinv(matrix, rcond=1e-12, hermitian=True)


def second_moment(world, size, prior):
    L, F = moments(*world)
    return (1 - 1 / size) * L @ prior @ L + np.tensordot(F, prior, 2) / size


def best_step(world, size, prior):
    L = moments(*world)[0]
    return np.trace(L @ prior - L @ prior @ L @ inverse(second_moment(world, size, prior)) @ L @ prior)


def predicted(world, size, w):
    L = moments(*world)[0]
    return best_step(world, size, np.eye(len(w))) + share(stand_in(*world), size) * w @ L @ w


def quadratic(world, size, w, prior=None, guess=None):
    L, F = moments(*world)
    return theory.lifted_risk(tasks.GaussianTask(w, size, L, prior), guess, fourth=F)


def minimum(risk):
    """Of the library's quadratic, over all lifted weights."""
    D = len(risk.query)
    slope, second = risk.slope.reshape(D, -1), inverse(risk.second.reshape(D * D, -1))
    return risk.constant - np.vdot(inverse(risk.query) @ slope @ second, slope) / 4


def risk_of(risk, b, A):
    return float(risk.value(np.einsum("hm,hnj->jmn", np.asarray(b), np.asarray(A))))


RANDOM = np.random.default_rng(0)
SKEWED = [
    (RANDOM.exponential(size=(n, m)) - RANDOM.uniform(), size) for n, m, size in ((9, 1, 4), (12, 2, 1), (25, 3, 5))
]
# The same with a fourth feature, the sum of two others.
SKEWED.append((np.column_stack([SKEWED[2][0], SKEWED[2][0][:, :2].sum(1)]), 3))


@pytest.mark.claim("kurtosis-family")
@pytest.mark.parametrize(("rows", "size"), SKEWED)
def test_one_token_predicts_the_least_risk_of_any_table(x64, rows, size):
    """Off center, and one of them singular: the library's quadratic has this minimum; with Gaussian moments another."""
    w, world = np.ones(rows.shape[1]), alike(rows)
    np.testing.assert_allclose(minimum(quadratic(world, size, w)), predicted(world, size, w), rtol=1e-9)
    normal = theory.optimal_risk(tasks.GaussianTask(w, size, moments(*world)[0]))
    assert abs(normal / predicted(world, size, w) - 1) > 1e-3


@pytest.mark.claim("real-covariates")
@pytest.mark.parametrize("name", TABLES)
def test_one_token_predicts_the_least_risk_of_the_four_tables(x64, name):
    world = alike(standardized(name))
    w = np.ones(world[0].shape[1])
    np.testing.assert_allclose(minimum(quadratic(world, C, w)), predicted(world, C, w), rtol=1e-6)
    normal = theory.optimal_risk(tasks.GaussianTask(w, C, moments(*world)[0]))
    assert abs(normal / predicted(world, C, w) - 1) > 0.1


@pytest.mark.claim("kurtosis-family")
def test_linear_images_have_the_same_number_and_groups_add_up():
    """An invertible image; two independent groups, and the same groups off center, where they do not add up."""
    x = RANDOM.normal(size=(30, 3)) + 1
    np.testing.assert_allclose(stand_in(*alike(x @ RANDOM.normal(size=(3, 3)))), stand_in(*alike(x)), rtol=1e-8)
    assert abs(stand_in(*alike(x + 1)) / stand_in(*alike(x)) - 1) > 1e-2
    (a, p), (b, q) = three_points(1.8, 1), three_points(6, 2)
    both, chance = np.column_stack([np.repeat(a, len(b), 0), np.tile(b, (len(a), 1))]), np.outer(p, q).ravel()
    odds = lambda *world: 1 / stand_in(*world) - 1
    np.testing.assert_allclose(odds(both, chance), odds(a, p) + odds(b, q), rtol=1e-9)
    assert abs(odds(both + 1, chance) / (odds(a, p) + odds(b, q)) - 1) > 1e-2


def left_of(contexts):
    """Least squares of 1 on the second moments of these contexts, all alike."""
    S = np.array([x.T @ x / len(x) for x in contexts])
    forms = S[:, *np.triu_indices(S.shape[1])]
    fit = np.linalg.lstsq(forms, np.ones(len(forms)), rcond=None)[0]
    return np.mean((1 - forms @ fit) ** 2)


@pytest.mark.claim("kurtosis-family")
def test_the_share_needs_independent_examples():
    """Three examples of the lengths a, listed with all signs: independent lengths have the share, a common one more."""
    squares, signs = np.array([0.5, 1.5]), np.array(list(product([-1.0, 1.0], repeat=3)))
    shared = [sign[:, None] * a2**0.5 for a2 in squares for sign in signs]
    own = [sign[:, None] * np.sqrt(each)[:, None] for each in product(squares, repeat=3) for sign in signs]
    e_1 = stand_in(*alike(np.sqrt(squares)[:, None]))
    np.testing.assert_allclose([left_of(own), left_of(shared)], [share(e_1, 3), 0.2], rtol=1e-9)
    assert left_of(shared) > 2 * share(e_1, 3)


@pytest.mark.claim("real-covariates")
@pytest.mark.parametrize("size", [2, 3, 6])
def test_rows_without_replacement(size):
    """All contexts of nine rows: C becomes C (n - 1)/(n - C); drawn with replacement they leave more."""
    rows = np.random.default_rng(1).exponential(size=(9, 2))
    e_1, left = stand_in(*alike(rows)), left_of([rows[list(at)] for at in combinations(range(9), size)])
    np.testing.assert_allclose(left, share(e_1, size * 8 / (9 - size)), rtol=1e-9)
    assert left < 0.99 * share(e_1, size)


@pytest.mark.claim("kurtosis-family")
def test_quadrics_leave_nothing():
    """Categories as codes and standardized, unit lengths, few rows, two rare pixels; one row or one pixel fails."""
    codes, random = np.eye(3)[[0, 0, 1, 2, 2, 2]], np.random.default_rng(3)
    pixels = datasets.load_digits().data[:, [24, 31]]  # two values each, never lit together
    pixels = (pixels - pixels.mean(0)) / pixels.std(0)
    long = random.normal(size=(50, 3))
    free = [
        codes,
        (codes - codes.mean(0)) / codes.std(0),
        long / np.linalg.norm(long, axis=1)[:, None],
        random.normal(size=(10, 4)),
        pixels,
    ]
    assert max(stand_in(*alike(rows)) for rows in free) < 1e-9
    paid = [random.normal(size=(11, 4)), pixels[:, :1], long]
    assert min(stand_in(*alike(rows)) for rows in paid) > 1e-6


def two_heads(world, size, w, prior, guess):
    """The theorem's heads, their risk, and the quadratic that they minimize."""
    rows, chance = world
    wide = np.column_stack([rows, np.ones(len(rows))]), chance
    longer, wider = np.append(w, 0), np.pad(prior, (0, 1))
    L = moments(*wide)[0]
    N = wider @ L @ inverse(second_moment(wide, size, wider))
    rho, one = np.append(-longer, 1.0), np.eye(len(w) + 2)[len(w)]
    heads = np.array([rho, one]), np.array([np.pad(N.T, (0, 1)), -np.outer(one, rho)])
    return heads, quadratic(wide, size, longer, wider, np.append(guess, 0)), best_step(wide, size, wider)


@pytest.mark.claim("constant-coordinate")
@pytest.mark.parametrize("kurtosis", [1, 1.8, 3, 6, 9])
def test_two_heads_and_a_constant_reach_the_step(x64, kurtosis):
    w, world = np.array([1.0, -2.0, 1.5]), three_points(kurtosis, 3)
    heads, risk, step = two_heads(world, 6, w, np.eye(3), np.zeros(3))
    np.testing.assert_allclose([risk_of(risk, *heads), step], best_step(world, 6, np.eye(3)), rtol=1e-9)
    assert risk_of(risk, *(part[:1] for part in heads)) > 1.1 * step


@pytest.mark.claim("constant-coordinate")
@pytest.mark.parametrize(("rows", "size"), SKEWED[1:])
def test_for_skewed_features_the_constant_helps_the_step_too(x64, rows, size):
    """Any prior and guess: the two heads reach the minimum risk, which is below the step without the constant."""
    m = rows.shape[1]
    Z, w, guess = (RANDOM.normal(size=shape) for shape in ((m, m + 1), m, m))
    heads, risk, step = two_heads(alike(rows), size, w, Z @ Z.T, guess)
    np.testing.assert_allclose([risk_of(risk, *heads), minimum(risk)], step, rtol=1e-8)
    assert step < best_step(alike(rows), size, Z @ Z.T) * (1 - 1e-6)


@pytest.mark.claim("constant-coordinate")
def test_one_head_is_enough_for_a_single_random_sign(x64):
    """The edge of the theorem: a quadric contains the feature; a single Gaussian feature has none."""
    rho, size = np.array([-2.0, 1.0]), 6
    heads = lambda step, form: (np.eye(1, 2), (np.outer(rho, [step, 0]) - form * np.outer([1, 0], rho))[None])
    sign = three_points(1, 1)
    np.testing.assert_allclose(risk_of(quadratic(sign, size, [2.0]), *heads(1.0, 1.0)), 0, atol=1e-12)
    normal = tasks.GaussianTask([2.0], size)
    shrink = size / (size + 2)
    assert risk_of(theory.lifted_risk(normal), *heads(shrink, shrink)) > theory.gd_risk(normal) + 1e-2


def best_head(contexts, mean):
    """The minimum risk of one head for one feature, x = (x, 1), these contexts, all alike, and weights N(mean, 1)."""
    nodes, chances = np.polynomial.hermite_e.hermegauss(5)
    z = np.array([np.column_stack([x, x**0, x * eps]) for x in contexts for eps in nodes])
    G, target = z.transpose(0, 2, 1) @ z / z.shape[1], np.tile(mean + nodes, len(contexts))
    root = np.sqrt(np.tile(chances / chances.sum(), len(contexts)) / len(contexts))

    def left(b):
        read = root[:, None] * (G @ b)
        return np.sum((root * target - read @ np.linalg.lstsq(read, root * target, rcond=None)[0]) ** 2)

    starts = sorted(np.vstack([np.eye(3), np.random.default_rng(0).normal(size=(200, 3))]), key=left)[:8]
    return min(optimize.minimize(left, b, method="Nelder-Mead").fun for b in starts)


@pytest.mark.claim("constant-coordinate", "kurtosis-family")
def test_one_head_and_no_cure_are_enough_if_examples_depend():
    """Two tokens with the squares a and 2 - a: S is constant. Nothing is paid, and one head reaches the step.

    With the same tokens drawn independently the price is the stated one, and one head is not enough.
    """
    squares, signs = np.array([0.5, 1.5]), np.array(list(product([-1.0, 1.0], repeat=2)))
    paired = [sign * np.sqrt([a2, 2 - a2]) for a2 in squares for sign in signs]
    own = [sign * np.sqrt(each) for each in product(squares, repeat=2) for sign in signs]
    e_1 = stand_in(*alike(np.sqrt(squares)[:, None]))
    price = lambda contexts: left_of([x[:, None] for x in contexts])
    np.testing.assert_allclose([price(paired), price(own)], [0, share(e_1, 2)], atol=1e-12)
    assert share(e_1, 2) > 0.1
    step = lambda contexts: 1 - 1 / np.mean([np.mean(x**2) ** 2 for x in contexts])
    np.testing.assert_allclose(best_head(paired, 2.0), step(paired), atol=1e-9)
    assert best_head(own, 2.0) > step(own) + 0.05
    # With the right guess one head is enough for these, too.
    np.testing.assert_allclose(best_head(own, 0.0), step(own), atol=1e-6)


@pytest.mark.claim("predecessor-uniform")
@pytest.mark.parametrize(("d", "size"), [(10, 10), (3, 7), (5, 2)])
def test_the_least_risk_for_uniform_features(x64, d, size):
    """The library's quadratic over any number of heads; the Gaussian formula is another number."""
    eye, at = np.eye(d) / 3, np.arange(d)
    pairs = np.multiply.outer(eye, eye)
    fourth = pairs + pairs.transpose(0, 2, 1, 3) + pairs.transpose(0, 2, 3, 1)
    fourth[at, at, at, at] = 1 / 5
    found = minimum(theory.lifted_risk(tasks.GaussianTask(np.zeros(d), size, eye), fourth=fourth))
    np.testing.assert_allclose(found, d / 3 * (d - 0.2) / (size + d - 0.2), rtol=1e-9)
    assert abs(found / (d / 3 * (d + 1) / (size + d + 1)) - 1) > 1e-2


def best_heads(world, size, w):
    """Optimal heads for this guess of zero, and their form M."""
    (rows, chance), m = world, len(w)
    i, j = np.triu_indices(m)
    root = np.sqrt(chance)
    fit = np.linalg.lstsq(root[:, None] * rows[:, i] * rows[:, j], root, rcond=None)[0]
    e_1, M = stand_in(*world), np.zeros((m, m))
    M[i, j] = fit * (1 - share(e_1, size)) / (1 - e_1)
    M = (M + M.T) / 2
    N = moments(*world)[0] @ inverse(second_moment(world, size, np.eye(m)))
    rho, pad = np.append(-w, 1.0), lambda v: np.append(v, 0)
    A = np.array([np.outer(rho, pad(n)) - np.outer(pad(f), rho) for n, f in zip(N.T, M, strict=True)])
    return np.eye(m, m + 1), A, M, N


@pytest.mark.claim("real-covariates")
@pytest.mark.parametrize("name", ["iris", "diabetes"])
@pytest.mark.parametrize("seed", range(3))
def test_weights_for_one_half_of_a_table_on_the_other(x64, name, seed):
    """The library's risk is that of the step and of the stand-in there; on its own half it is another."""
    x = np.random.default_rng(seed).permutation(standardized(name))
    here, there = alike(x[: len(x) // 2]), alike(x[len(x) // 2 :])
    m = x.shape[1]
    w = np.ones(m)
    b, A, M, N = best_heads(here, C, w)

    def formula(world):
        L, t = moments(*world)[0], np.einsum("ni,ij,nj->n", world[0], M, world[0])
        step = np.eye(m) - N @ L - L @ N.T + N @ second_moment(world, C, np.eye(m)) @ N.T
        return np.trace(L @ step) + ((1 - t.mean()) ** 2 + t.var() / C) * w @ L @ w

    found = risk_of(quadratic(there, C, w), b, A)
    np.testing.assert_allclose(found, formula(there), rtol=1e-8)
    assert abs(found / formula(here) - 1) > 1e-3
