"""Several layers: the exact rules of the studies, and their layers as attention."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from lsalib import theory
from lsalib.tasks import GaussianTask
from studies.experiments import depth, depth_alike, depth_training


@pytest.mark.parametrize(("dim", "context_size"), [(1, 3), (2, 1), (2, 3), (3, 5)])
def test_the_rule_has_the_moments_of_gram_matrices(dim, context_size):
    """E tr S^k for k up to 4, by a quadrature of degree two and by partial integration;
    degree one misses the fourth.
    """
    known = depth_alike.traces(dim, context_size, 4)
    power = lambda S, k: np.trace(np.linalg.matrix_power(S, k), axis1=1, axis2=2)
    S, eps, weights = depth.rule(dim, context_size, 2)
    assert_allclose([weights @ power(S, k) for k in range(5)], known, rtol=1e-12)
    assert_allclose(
        np.einsum("n,ni,nj->ij", weights, eps, eps), np.eye(dim), atol=1e-12
    )
    S, _, weights = depth.rule(dim, context_size, 1)
    assert abs(weights @ power(S, 4) / known[-1] - 1) > 1e-3


def attend(tokens, P, Q):
    """z <- z + sum_h P_h G Q_h z for all tokens, the query last and not in G."""
    context = tokens[..., :-1]
    G = context @ context.swapaxes(-1, -2) / context.shape[-1]
    return tokens + (P @ G @ Q).sum(0) @ tokens


def heads_of(scale, add, read):
    """Heads of a layer in the basis of residual labels; one value each, a feature or
    the label.
    """
    d = len(scale)
    P, Q = np.zeros((2, d, d + 1, d + 1))
    P[:, -1, :d] = np.eye(d)
    Q[:, :d, :d], Q[:, :d, -1] = add.transpose(1, 2, 0), scale
    Q[:, -1, :d] = read.T
    return P, Q


def context(seed, d, C):
    rng = np.random.default_rng(seed)
    return rng, rng.normal(size=(C, d)), rng.normal(size=d), rng.normal(size=d)


@pytest.mark.claim("depth-gap")
def test_the_layers_are_attention():
    """Token by token, with a query whose label begins with the wrong guess."""
    d, C = 3, 4
    rng, X, x_q, eps = context(0, d, C)
    u = rng.normal(size=d)
    layers = [0.4 * rng.normal(size=shape) for shape in depth.shapes(d, 2)]
    tokens = np.vstack([np.vstack([X, x_q]).T, np.append(X @ eps, -u @ x_q)])
    for layer in zip(*layers, strict=True):
        tokens = attend(tokens, *heads_of(*layer))
    with jax.enable_x64(True):
        given = (X.T @ X / C)[None], eps[None], jnp.asarray(u)
        error = depth.errors(tuple(map(jnp.asarray, layers)), *given)
    assert_allclose(tokens[-1, -1] - eps @ x_q, np.asarray(error)[0] @ x_q, rtol=1e-10)


@pytest.mark.claim("depth-gap")
def test_layers_alike_are_layers():
    """The quadratic form in coefficients, and the exact rule for two features, for
    random numbers of all kinds.
    """
    rng, d, C, u = np.random.default_rng(2), 2, 5, 1.5
    numbers, eye = 0.4 * rng.normal(size=(3, 4)), np.eye(2)
    own, read, move, turn = (each[:, None, None] for each in numbers.T)
    along = np.einsum("ki,j->kij", eye, eye[0])  # <S, along_k> is entry k of S e_1
    add = u * (
        move[:, None] * np.einsum("k,ij->kij", eye[0], eye / d) + turn[:, None] * along
    )
    layers = own * eye / d, add, read * eye
    with jax.enable_x64(True):
        S, eps, weights = depth.rule(d, C, 3)
        error = depth.errors(tuple(map(jnp.asarray, layers)), S, eps, u * eye[0])
        exact = weights @ np.square(np.asarray(error)).sum(1)
        # |u| enters as |u| / sqrt(d): E h' h |u|^2 = |u|^2 E tr h^2 / d
        parts = depth_alike.alike(
            numbers.ravel(), depth_alike.form(d, C, 3), u / np.sqrt(d)
        )
    assert_allclose(np.square(parts).sum(), exact, rtol=1e-10)


@pytest.mark.claim("depth-training")
def test_a_tested_layer_has_its_risk(monkeypatch):
    """The best single layer, with a wrong guess; that of a wrong step is another."""
    monkeypatch.setattr(depth_training, "TESTS", 40_000)
    d, C, u = depth_training.DIM, depth_training.LENGTH, 2.0
    order, step = C * d / 2, theory.optimal_step(GaussianTask(np.zeros(d), C))
    add = u * order / (order + 1) * np.einsum("k,ij->kij", np.ones(d), np.eye(d) / d)
    off = []
    for factor in (1.0, 1.1):
        layer = np.zeros((d, d)), add, factor * step * np.eye(d)
        layers = tuple(np.float32(part)[None] for part in layer)
        risk, error = depth_training.evaluate(u, layers)
        off.append(abs(risk - theory.depth_risk(GaussianTask([u] * d, C), 1)) / error)
    assert off[0] < 5 < off[1] and error < 0.02
