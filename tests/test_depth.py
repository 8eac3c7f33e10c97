"""Layers after one another: the exact rule, the layers as attention, and where the stored searches end."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import comb

from experiments import EXPERIMENTS, depth, experiment
from lsalib.book import stored


def least(dim, context_size):
    """Of two layers with the right guess."""
    d, C = dim, context_size
    above = (d * d + 3 * d + 4) * C + (d - 1) * (d + 1) * (d + 4)
    return d * above / ((C + d + 1) * (C * C + (d + 3) * C + (d - 1) * (d + 4)))


@pytest.mark.parametrize(("dim", "context_size"), [(1, 3), (2, 3), (3, 5)])
def test_the_rule_has_the_moments_of_gram_matrices(dim, context_size):
    """E tr S^k for k up to 4, which takes degree two; degree one misses the fourth."""
    d, C = dim, context_size
    third = C * C + d * d + 3 * C * d + 3 * C + 3 * d + 4
    fourth = C**3 + d**3 + 6 * C * d * (C + d) + 6 * (C * C + d * d) + 17 * C * d + 21 * (C + d) + 20
    known = [d, d, d * (C + d + 1) / C, d * third / C**2, d * fourth / C**3]
    power = lambda S, k: np.trace(np.linalg.matrix_power(S, k), axis1=1, axis2=2)
    S, eps, weights = depth.rule(d, C, 2)
    np.testing.assert_allclose([weights @ power(S, k) for k in range(5)], known, rtol=1e-12)
    np.testing.assert_allclose(np.einsum("n,ni,nj->ij", weights, eps, eps), np.eye(d), atol=1e-12)
    S, _, weights = depth.rule(d, C, 1)
    assert abs(weights @ power(S, 4) / known[-1] - 1) > 1e-3


def attend(tokens, heads):
    """z <- z + sum_h P_h G Q_h z for all tokens, the query last and not in G."""
    context = tokens[:, :-1]
    G = context @ context.T / context.shape[1]
    return tokens + sum(P @ G @ Q @ tokens for P, Q in heads)


def heads_of(scale, add, read):
    """Heads of a layer in the basis of residual labels; one value each, a feature or the label."""
    d, heads = len(scale), []
    for i in range(d):
        P, Q = np.zeros((2, d + 1, d + 1))
        P[-1, i] = 1.0
        Q[:d, :d], Q[:d, -1] = add[:, i].T, scale[i]
        Q[-1, :d] = read[:, i]
        heads.append((P, Q))
    return heads


def test_the_layers_are_attention():
    """Token by token, with a query whose label begins with the wrong guess."""
    rng, d, C = np.random.default_rng(0), 3, 4
    layers = [0.4 * rng.normal(size=(2, *shape)) for shape in [(d, d), (d, d, d), (d, d)]]
    X, x_q, eps, u = rng.normal(size=(C, d)), rng.normal(size=d), rng.normal(size=d), rng.normal(size=d)
    tokens = np.vstack([np.vstack([X, x_q]).T, np.append(X @ eps, -u @ x_q)])
    for layer in zip(*layers, strict=True):
        tokens = attend(tokens, heads_of(*layer))
    with jax.enable_x64(True):
        error = depth.errors(tuple(map(jnp.asarray, layers)), (X.T @ X / C)[None], eps[None], jnp.asarray(u))
    np.testing.assert_allclose(tokens[-1, -1] - eps @ x_q, np.asarray(error)[0] @ x_q, rtol=1e-10)


def test_one_layer_and_two_reach_the_law_from_every_start():
    """R(u) = R(0) + u^2 / binom(L + Cd/2, L); the price of one layer is not that of two."""
    arrays, about = stored.load("depth")
    d = about["dim"]
    for (i, C), (k, u) in product(enumerate(about["lengths"]), enumerate(about["errors"])):
        law = [d * (d + 1) / (C + d + 1) + u**2 / comb(1 + C * d / 2, 1), least(d, C) + u**2 / comb(2 + C * d / 2, 2)]
        np.testing.assert_allclose(arrays["risk"][i, :2, k].T, np.tile(law, (about["starts"], 1)), rtol=1e-6)
        assert u == 0 or abs(least(d, C) + u**2 / comb(1 + C * d / 2, 1) - law[1]) > 0.01 * law[1]


def test_three_layers_stay_above_the_floor():
    """By less than as much again; the price of two layers would be too high a floor."""
    arrays, about = stored.load("depth")
    best, u = arrays["risk"].min(axis=-1)[:, 2], np.array(about["errors"])
    order = np.array(about["lengths"]) * about["dim"] / 2
    price = best[:, 1:] - best[:, :1]
    floor = [u[1:] ** 2 / comb(L + order, L)[:, None] for L in (2, 3)]
    assert (price > floor[1]).all() and (price < 2 * floor[1]).all()
    assert (price < floor[0]).all()


def test_the_searches_again():
    """The beginning of what is stored; another depth or another guess ends elsewhere."""
    again = EXPERIMENTS["depth"].again()
    assert experiment.differences("depth", EXPERIMENTS["depth"]._replace(again=lambda: again)) == []
    for axis in (1, 2):
        swapped = {"risk": np.flip(again["risk"], axis)}
        assert experiment.differences("depth", EXPERIMENTS["depth"]._replace(again=lambda swapped=swapped: swapped))
