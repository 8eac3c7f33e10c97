"""What the chapter on heads says: what heads can represent, and how many the minimum risk needs."""

import jax
import numpy as np
import pytest
from few_heads_reference import best_keys, least_of_all, problem, search
from theory_reference import make_task

from lsalib import attention, tasks, theory

SEEDS = range(8)


def relative_error(got, wanted):
    return np.abs(np.asarray(got) - np.asarray(wanted)).max() / np.abs(wanted).max()


predict = jax.jit(jax.vmap(attention.lsa, (None, 0)))


@pytest.mark.claim("thm1-construction")
@pytest.mark.parametrize("seed", SEEDS)
def test_any_lift_has_d_plus_one_heads_and_only_its_symmetric_parts_are_read(seed, x64):
    """Lift and predictions of the construction; controls: the last head, and a symmetric change of the lift."""
    d, rng = 3 if seed % 2 else 10, np.random.default_rng(seed)
    M, N = rng.normal(size=(2, d + 1, d + 1, d + 1))
    drawn = tasks.sample(jax.random.key(seed), tasks.GaussianTask(np.arange(1.0, d + 1), d + 3), 300)
    y_q = rng.normal(size=300)
    E, G = jax.vmap(attention.embed)(*drawn[:3], y_q), jax.vmap(attention.gram)(drawn.X, drawn.y)
    formula = y_q + np.einsum("nj,nab,jab->n", E[:, :, -1], G, M)
    params = attention.from_lift(M)
    assert params.W_K.shape == (d + 1,) * 3
    assert relative_error(attention.lift(params), M) < 1e-12 and relative_error(predict(params, E), formula) < 1e-12
    fewer = jax.tree.map(lambda W: W.at[-1].set(0.0), params)
    assert relative_error(attention.lift(fewer), M) > 0.1 and relative_error(predict(fewer, E), formula) > 0.01
    changed = lambda sign: predict(attention.from_lift(M + N + sign * N.swapaxes(1, 2)), E)
    assert relative_error(changed(-1), formula) < 1e-12 and relative_error(changed(+1), formula) > 0.1
    # Of any layer, its lift and its circuits say all that is predicted.
    other = attention.init(jax.random.key(seed), d, 3, scale=1.0)
    answers = predict(other, E)
    for same in (attention.from_lift(attention.lift(other)), attention.from_effective(*attention.effective(other))):
        assert relative_error(predict(same, E), answers) < 1e-11


def dimension(d, H, forms):
    """The rank of the derivative of heads -> symmetric parts, at random heads."""
    rng = np.random.default_rng(d)
    b, A = rng.normal(size=(H, d + 1)), rng.normal(size=(H, d + 1, forms))

    def symmetric_parts(b, A):
        M = np.einsum("...hm,...hnj->...jmn", b, A)
        return M + M.swapaxes(-1, -2)

    # A bilinear map: its derivative in a direction is its value there.
    by_b = symmetric_parts(np.eye(b.size).reshape(-1, *b.shape), A)
    J = np.concatenate([by_b, symmetric_parts(b, np.eye(A.size).reshape(-1, *A.shape))])
    return np.linalg.matrix_rank(J.reshape(len(J), -1))


@pytest.mark.claim("thm1-construction")
@pytest.mark.parametrize(("d", "H"), [(d, H) for d in range(1, 6) for H in range(1, d + 2)])
def test_the_dimension_of_the_functions_of_few_heads(d, H):
    """The heads' parameters, less mixings, less what is antisymmetric; each correction is needed."""
    parameters, mixings, odd = H * (d + 1) * (d + 2), H**2, (d + 1) * H * (H - 1) // 2
    measured = dimension(d, H, d + 1)
    assert measured == parameters - mixings - odd
    assert measured != parameters and (measured != parameters - mixings or H == 1)
    # For d heads one is missing of all functions, and none if the guess is fixed and d forms are read.
    if H >= d:
        assert (d + 1) ** 2 * (d + 2) // 2 - measured == d + 1 - H
        assert dimension(d, d, d) == d * (d + 1) * (d + 2) // 2


@pytest.mark.claim("thm1-construction")
def test_the_share_of_forms_that_one_head_can_represent():
    """Of isotropic forms [[a, c/√2], [c/√2, b]] in two variables 1/√2 are not definite, as Exercise 1 says."""
    a, b, c = np.random.default_rng(0).normal(size=(3, 100_000))
    share, error = np.mean(a * b <= c**2 / 2), np.sqrt(0.2 / 100_000)
    assert abs(share - 1 / np.sqrt(2)) < 5 * error < abs(share - 0.5)


def random_task(seed, general):
    """A task without label noise, a guess and its offset."""
    rng, d = np.random.default_rng(seed), 3 if seed % 2 else 6
    task = make_task(seed, d, int(rng.integers(1, 20)), covariances=general)
    return task, rng.normal(size=d), float(rng.normal())


@pytest.mark.claim("sharp-head-count")
@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_d_heads_that_need_each_other_attain_the_minimum_and_one_if_the_guess_is_right(seed, general, x64):
    """With the best keys: values of single features, one of them less; the residual label, with a guess and without."""
    task, *given = random_task(seed, general)
    values = np.eye(task.dim + 1)
    for guess in (given, (None, 0.0)):
        lowest, whole = theory.optimal_risk(task, *guess), problem(task, *guess)
        np.testing.assert_allclose(least_of_all(whole), lowest, rtol=1e-8)
        np.testing.assert_allclose(best_keys(values[:-1], whole)[0], lowest, rtol=1e-8)
        assert best_keys(values[1:-1], whole)[0] > lowest * (1 + 1e-5)
    lowest = theory.optimal_risk(task, task.prior_mean)
    np.testing.assert_allclose(best_keys(values[-1:], problem(task, task.prior_mean))[0], lowest, rtol=1e-8)
    assert best_keys(values[-1:], problem(task))[0] > theory.optimal_risk(task) * (1 + 1e-8)


@pytest.mark.claim("sharp-head-count", "thm1-saturation", "exact-multihead-risk")
def test_searches_over_all_weights_stop_falling_at_d_heads(x64):
    """Three features, identity and random covariances: the best of eight searches for two to four heads."""
    cases = [tasks.GaussianTask([1.0, 2.0, -1.0], 5), make_task(7, 3, 5)]
    ends = search([problem(task) for task in cases], (2, 3, 4), starts=8)
    lowest, gradient = ends.value.min(2), np.take_along_axis(ends.gradient, ends.value.argmin(2)[..., None], 2)
    best = np.array([[theory.optimal_risk(task)] for task in cases])
    assert np.abs(gradient).max() < 1e-5
    np.testing.assert_allclose(lowest[:, 1:], np.broadcast_to(best, (2, 2)), rtol=1e-9)
    assert (lowest[:, 0] > best[:, 0] + 1e-3).all()


def constants(d, C, var):
    """The best step, and alpha and phi of the stand-in for 1 with label noise."""
    K = 2 * d + 2 / C * ((d + var) ** 2 + d)
    left = 1 / (1 + C * d / 2 + var**2 / K)
    return C / (C + d + 1 + var), left * (C / 2 - var / K), left * var / K


def threshold(d, C, var):
    step, alpha, phi = constants(d, C, var)
    return step / (2 * np.sqrt(alpha * phi))


def noisy(d, C, var, distance):
    """A task at this distance from the guess zero."""
    direction = np.append([0.6, 0.8], np.zeros(d))[:d]
    return tasks.GaussianTask(distance * direction / np.linalg.norm(direction), C, noise_std=var**0.5)


SIZES = [(1, 3, 1.0), (2, 4, 2.0), (3, 5, 1.0), (4, 2, 0.4)]


@pytest.mark.claim("sharp-head-count")
@pytest.mark.parametrize("size", SIZES)
def test_with_label_noise_d_heads_are_enough_up_to_a_distance(size, x64):
    """2 % within the threshold and 2 % beyond it; the threshold of the step without noise is another."""
    d, C, var = size
    centered = theory.constant_regression(noisy(*size, 0.0))
    found = centered.features[0, 0], centered.residual
    np.testing.assert_allclose(found, constants(*size)[1:], rtol=1e-12)
    assert min(found) > 0

    def excess(distance):
        given = noisy(*size, distance)
        return theory.least_risk(given, d).risk - least_of_all(problem(given))

    assert abs(excess(0.98 * threshold(*size))) < 1e-11
    assert excess(1.02 * threshold(*size)) > 1e-6
    assert excess(0.98 * threshold(*size) * (C + d + 1 + var) / (C + d + 1)) > 1e-6


@pytest.mark.claim("sharp-head-count")
def test_searches_need_as_many_heads_as_stated(x64):
    """Label noise: two within the threshold, three beyond it or with an offset; features of rank two: two, not one."""
    size, biases = (2, 4, 2.0), (0.0, 0.0, 0.5)
    noises = [noisy(*size, share * threshold(*size)) for share in (0.98, 1.02, 0.98)]
    B = np.array([[1.0, 0.0], [0.5, 1.0], [0.0, -1.0], [0.3, 0.2]])
    singular = tasks.GaussianTask([1.0, 2.0, -1.0, 0.5], 5, B @ B.T, np.diag([1.0, 2.0, 0.5, 1.0]))
    # The features are B xi; only B^T w is seen of the weights.
    seen = tasks.GaussianTask(B.T @ singular.prior_mean, 5, None, B.T @ singular.prior_cov @ B)
    np.testing.assert_allclose(theory.optimal_risk(seen), theory.optimal_risk(singular), rtol=1e-10)
    given = [problem(task, bias=bias) for task, bias in zip(noises, biases, strict=True)] + [problem(seen)]
    lowest = [theory.optimal_risk(t, bias=b) for t, b in zip([*noises, singular], [*biases, 0.0], strict=True)]
    above = search(given, (1, 2, 3), starts=8).value.min(2) - np.array(lowest)[:, None]
    assert np.abs([above[0, 1], above[3, 1], *above[:, 2]]).max() < 1e-8
    assert min(*above[1:3, 1], *above[:, 0]) > 1e-6


@pytest.mark.claim("gd-strict-lower-bound")
def test_where_the_gap_is_another(x64):
    """Noise lowers the constant; correlated features or an uneven prior can turn the sign."""
    gap = lambda task: least_of_all(problem(task)) - theory.gd_risk(task)
    loud = gap(tasks.GaussianTask([2.0, 2.0, 2.0], 5, noise_std=1.0))
    _, alpha, phi = constants(3, 5, 1.0)
    assert loud == pytest.approx(12 * (1 - 3 * alpha - 4 * phi), rel=1e-9)
    assert loud != pytest.approx(24 / 17, rel=1e-3)
    for covs in (([[2.0, 0.9], [0.9, 0.5]],), (None, [[3.0, 0.0], [0.0, 0.1]])):
        assert gap(tasks.GaussianTask([0.2, 0.1], 20, *covs)) < 0
