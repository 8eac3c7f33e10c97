"""What the appendix on finite contexts and convexity says of one task holds for others, and for samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsalib import tasks, theory

MEANS = [[0.5, -1.0], [1.0, 2.0, -1.0], [2.0] * 10]
ENDLESS = 10**16


def sampled_rest(w_star, M, C, seed, count):
    """E[<G, M> G] less its limit over tasks, sampled: draws of <G - Omega, M> (G - Omega).

    Given the task, Omega is the mean of G, so the relative error of this mean does not grow with C.
    """
    rng, d = np.random.default_rng([seed, C]), len(w_star)
    w = w_star + rng.normal(size=(count, 1, d))
    X = rng.standard_normal((count, C, d), np.float32)
    S = X.transpose(0, 2, 1) @ X / C
    K = np.concatenate([np.tile(np.eye(d), (count, 1, 1)), w], axis=1)  # tokens are K x
    off = K @ (S - np.eye(d)) @ K.transpose(0, 2, 1)
    return np.tensordot(off, M, 2)[:, None, None] * off


def terms(w_star, M):
    """The explicit term times C; the same with 2 M for M + M^T; and the paper's U_i."""
    mean, second, _ = theory.gram_moments(tasks.GaussianTask(w_star, ENDLESS))
    right = np.einsum("mpqn,pq->mn", second, M + M.T)
    lost = np.einsum("mnpq,pq->mn", second, M) - np.vdot(mean, M) * mean
    return right, 2 * np.einsum("mpqn,pq->mn", second, M), right + lost


@pytest.mark.claim("a3-finite-context")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("C", [3, 10])
def test_samples_have_the_explicit_term_in_every_entry(C, seed):
    """With three features all sampled entries agree with the term of order 1/C; the paper's U_i does not."""
    w_star, M = [0.5, -1.0, 0.5], np.random.default_rng(6).normal(size=(4, 4))
    draws = sampled_rest(w_star, M, C, seed, 200_000)
    error = draws.std(0) / len(draws) ** 0.5
    right, *wrong = (np.abs((draws.mean(0) - term / C) / error).max() for term in terms(w_star, M))
    assert right < 5
    assert min(wrong) > 5


@pytest.mark.claim("a3-finite-context")
@pytest.mark.parametrize("C", [4, 32])
def test_samples_have_the_explicit_term_at_the_paper_s_scale(C):
    """Single entries are noisy at d = 10: along the term itself, the sampled rest has the term's size."""
    M = np.random.default_rng(5).normal(size=(11, 11))
    right = terms([2.0] * 10, M)[0] / C
    draws = sampled_rest([2.0] * 10, M, C, 0, 20_000)
    along = np.tensordot(draws, right / np.linalg.norm(right), 2)
    z = lambda size: abs(along.mean() - size) / along.std() * len(along) ** 0.5
    assert z(np.linalg.norm(right)) < 5
    # The control: half the term.
    assert z(np.linalg.norm(right) / 2) > 5


def curvature_map(task):
    """Eigenvalues of V -> 2 E[<G, V> G] on symmetric V, in rising order."""
    D = task.dim + 1
    rows, columns = np.triu_indices(D)
    basis = np.zeros((len(rows), D, D))
    basis[np.arange(len(rows)), rows, columns] = 1
    basis += basis.transpose(0, 2, 1)
    basis /= np.linalg.norm(basis, axis=(1, 2), keepdims=True)
    second = theory.gram_moments(task).second
    return np.linalg.eigvalsh(2 * np.einsum("amn,mnpq,bpq->ab", basis, second, basis))


@pytest.mark.claim("a4-hessian")
@pytest.mark.parametrize("w_star", MEANS)
def test_the_least_curvature_is_positive_and_at_most_4_over_C(w_star):
    """Each part is strictly convex on symmetric matrices, ever less so in longer contexts; not with one feature."""
    for C in (1, 10, 100, 1000):
        assert 0.01 < curvature_map(tasks.GaussianTask(w_star, C))[0] * C < 4.01
    assert abs(curvature_map(tasks.GaussianTask(w_star, ENDLESS))[0]) < 1e-9
    # The control: with one feature nothing is traceless.
    assert curvature_map(tasks.GaussianTask([0.5], 10))[0] * 10 > 4.01
    assert curvature_map(tasks.GaussianTask([0.5], ENDLESS))[0] > 1e-3


@pytest.mark.claim("a4-hessian")
@pytest.mark.parametrize("guess", [[0.0, 0.0, 0.0], [0.7, -0.3, 0.1]])
@pytest.mark.parametrize("bias", [0.8, 0.0])
def test_the_whole_risk_is_strictly_convex_only_with_an_offset(guess, bias):
    """On symmetric lifts the least eigenvalue of the risk's Hessian is positive if and only if there is an offset."""
    risk = theory.lifted_risk(tasks.GaussianTask(MEANS[1], 5), guess, bias)
    basis = np.eye(64).reshape(64, 4, 4, 4)
    basis = np.unique(basis + basis.transpose(0, 1, 3, 2), axis=0)
    images = np.array([risk.curvature(V) for V in basis])
    least = np.linalg.eigvalsh(np.tensordot(images, basis, ((1, 2, 3),) * 2))[0]
    assert (least > 1e-3) == bool(bias)


@pytest.mark.claim("lemma1-nonconvex")
@pytest.mark.parametrize("heads", [1, 3, 7])
def test_negated_weights_are_equally_good_and_the_midpoint_is_worse(heads, x64):
    """For several numbers of heads, weights better than the bare guess and their mirror image have a worse midpoint."""
    task = tasks.GaussianTask(MEANS[1], 5)
    theta = jax.tree.map(jnp.asarray, theory.few_heads_weights(task, min(heads, 3)))
    if heads > 3:
        theta = jax.tree.map(lambda W: jnp.concatenate([W, jnp.zeros((heads - 3, 4, 4))]), theta)
    risk = lambda sign: float(theory.population_risk(theta._replace(W_V=sign * theta.W_V, W_Q=sign * theta.W_Q), task))
    bare = 3 + 6  # E|w|^2
    assert risk(-1) == pytest.approx(risk(1), rel=1e-12) and risk(1) < bare - 0.1
    assert risk(0) == pytest.approx(bare, rel=1e-12)
    # The control: with one of the two matrices negated, the function is another one.
    other = theory.population_risk(theta._replace(W_V=-theta.W_V), task)
    assert float(other) > risk(1) + 0.1
