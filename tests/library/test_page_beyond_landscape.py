"""A guess that is trained together with H heads: the minimum risk as a function of one number, and the traps."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import symbolic
import sympy
from jax.flatten_util import ravel_pytree
from symbolic_task import certify
from test_certificates_beyond import X, k, m, more, slope
from test_certificates_few_heads import signs

from lsalib import tasks, theory, training


def level(xi, H, d, C, noise_var=0.0):
    """g_H(xi) of the page."""
    one = (C + d + 1 + noise_var) / C  # 1 / step
    V = 2 * d + 2 * ((d + noise_var) ** 2 + 2 * d - H + 1) / C
    along = V - 4 * xi / C + 2 * xi**2 / C
    width = (one + 2 * xi / C) * (xi * one + V) - xi * (one + 2 / C) ** 2
    return d - (H - 1) / one - (d - H) / (one + xi / C) - along / width


def delta(d, C, noise_var=0.0):
    return (C + 1 + noise_var) ** 2 - (d + noise_var) ** 2 - noise_var**2 - 2


def step_size(d, C, noise_var=0.0):
    return C / (C + d + 1 + noise_var)


def by_least_squares(b, task):
    """The minimum risk for these value vectors, from exact moments; the forms A that have it, and their guess."""
    found, (H, D) = theory.gram_moments(task), b.shape
    spread = found.second - np.multiply.outer(found.mean, found.mean)
    read = np.einsum("hm,mnpq,gp->hngq", b, spread, b).reshape(b.size, -1)
    answer = np.einsum("hm,kmn->khn", b, found.cross).reshape(task.dim, -1)
    keys = answer @ np.linalg.pinv(read, rcond=1e-11, hermitian=True)
    A = np.pad(keys.reshape(task.dim, H, D).transpose(1, 2, 0), ((0, 0), (0, 0), (0, 1)))
    return task.dim - np.trace(answer @ keys.T), A, -np.einsum("hm,mn,hnk->k", b, found.mean, A)[:-1]


@pytest.mark.claim("trained-guess-landscape")
@pytest.mark.parametrize("sigma", [0.0, 0.8])
@pytest.mark.parametrize("d, C, H", [(d, C, H) for d, C in ((1, 2), (2, 1), (4, 3), (5, 7)) for H in range(1, d + 1)])
def test_the_risk_of_random_value_vectors_is_a_function_of_one_number(d, C, H, sigma):
    """Least squares for all keys and the guess; not the formula for another number of heads, unless xi is zero."""
    task = tasks.GaussianTask(np.zeros(d), C, np.eye(d), np.eye(d), sigma)
    b = np.random.default_rng([d, C, H]).normal(size=(H, d + 1))
    value, left_out = by_least_squares(b, task)[0], np.linalg.svd(b)[2][H:]
    line = left_out.T @ left_out[:, -1]
    xi = line[-1] ** 2 / (line[:-1] @ line[:-1])
    np.testing.assert_allclose(value, level(xi, H, d, C, sigma**2), rtol=1e-9)
    other = H - 1 if H > 1 else 2
    assert xi < 0.1 or abs(level(xi, other, d, C, sigma**2) / value - 1) > 1e-6


def deepest_fall(H, *size):
    values = level(np.geomspace(1e-6, 1e9, 4001), H, *size)
    return (np.maximum.accumulate(values) - values).max()


@pytest.mark.claim("trained-guess-landscape")
@pytest.mark.parametrize("noise_var", [0.0, 0.5, 3.0, 20.0])
@pytest.mark.parametrize("d", range(2, 8))
def test_where_the_function_falls(d, noise_var):
    """With H <= d - 2 never; with H = d - 1 towards the heads that value features alone exactly where Delta <= 0."""
    for C in range(1, 3 * d):
        size = d, C, noise_var
        assert max([deepest_fall(H, *size) for H in range(1, d - 1)], default=0.0) < 1e-12
        far = level(np.array([1e5, 2e5]), d - 1, *size)
        assert (far[1] < far[0]) == (delta(*size) <= 0)
        limit = d - (d - 1) * step_size(*size)
        assert level(1e9, d - 1, *size) == pytest.approx(limit, abs=1e-5)
        if noise_var == 0:
            assert (deepest_fall(d - 1, *size) > 1e-12) == (C < d or d == C == 2)


@pytest.mark.certificate(
    "one-head-fewer-noise",
    "One head fewer than features, with any Gaussian noise: the signs of all coefficients but the leading one, and the "
    "noise at which that one changes its sign.",
)
@pytest.mark.claim("trained-guess-landscape")
def test_one_head_fewer_than_features_with_noise():
    """At most two positive roots, and one where the leading coefficient is not positive."""
    d, C, sigma2 = symbolic.d, symbolic.C, symbolic.sigma2
    leading, *rest = (each.subs(m, d - 2) for each in slope())
    assert signs(rest, {d: 2 + k, C: 1 + more}) == [-1, 1, 1, 1]
    # The signs are strict at the smallest sizes, too.
    assert [np.sign(float(each.subs({d: 2, C: 1, sigma2: 0}))) for each in rest] == [-1, 1, 1, 1]
    # The leading one has both signs: it is zero at one positive noise if C >= d, and negative for shorter contexts.
    assert signs([leading], {d: 2 + k, C: 1 + more}) == [0]
    assert signs([leading], {C: 1 + more, d: 2 + more + k}) == [-1]
    ahead, last = C + 1 - d, (C + 1) ** 2 - d**2 - 2
    certify(leading, 4 * C * (ahead**2 + last - (sigma2 - ahead) ** 2), 4 * C * (ahead**2 - (sigma2 - ahead) ** 2))
    assert signs([last], {C: d + more, d: 2 + k}) == [1]


def loss(params, size):
    """The exact risk of heads and a trained guess, for w* = 0."""
    (b, A, v), (C, noise_std) = params, size
    task = tasks.StandardTask(jnp.zeros(len(v)), None, None, noise_std, C)
    y_q = jnp.append(v, 0.0)
    return theory.standard_risk(*theory.standard_form(b, A, y_q, y_q, task), task)


def features_alone(d, *size):
    """d - 1 heads that value a feature each and take the gradient step along it, and the guess zero."""
    A = np.zeros((d - 1, d + 1, d + 1))
    A[range(d - 1), d, range(d - 1)] = step_size(d, *size)
    return jnp.eye(d - 1, d + 1), jnp.asarray(A), jnp.zeros(d)


@jax.jit
def derivatives(params, size):
    row, unpack = ravel_pytree(params)
    of = lambda row: loss(unpack(row), size)
    return of(row), jax.grad(of)(row), jax.hessian(of)(row)


def local(params, size):
    """Value, largest slope and curvatures, by automatic differentiation."""
    value, slope, curvature = derivatives(params, size)
    return float(value), np.abs(slope).max(), np.linalg.eigvalsh(curvature)


@pytest.mark.claim("trained-guess-landscape", "one-head-fewer-noise")
@pytest.mark.parametrize("noise_var", [0.0, 2.0, 20.0])
@pytest.mark.parametrize("d, C", [(2, 1), (2, 2), (2, 5), (3, 2), (3, 3), (3, 7), (4, 3), (4, 5)])
def test_the_named_heads_are_a_trap_exactly_where_delta_says(d, C, noise_var, x64):
    """Stationary at the stated height; a way down exactly where Delta > 0, as for one idle head more."""
    size = float(C), noise_var**0.5
    heads = features_alone(d, C, noise_var)
    value, slope, curvatures = local(heads, size)
    eta = step_size(d, C, noise_var)
    assert value == pytest.approx(d * (1 - eta) + eta, rel=1e-12) and slope < 1e-12
    assert (curvatures[0] < -1e-6) == (delta(d, C, noise_var) > 0)
    assert curvatures[0] > -1e-10 or curvatures[0] < -1e-6
    spare = tuple(jnp.concatenate([part, 0 * part[:1]]) for part in heads[:2])
    assert local((*spare, heads[2]), size)[2][0] < -1e-6


@pytest.mark.claim("trained-guess-landscape", "one-head-fewer-noise")
def test_where_delta_is_zero_the_named_heads_are_a_trap(x64):
    """Two features, two examples, noise 3: no way down to second order, nor from value vectors nearby with best keys.

    With a little less noise both see the way down.
    """
    at = {symbolic.d: 2, symbolic.C: 2, m: 0, symbolic.sigma2: 3}
    assert delta(2, 2, 3.0) == 0 and [sympy.sign(each.subs(at)) for each in slope()] == [0, -1, 1, 1, 1]

    def ways(noise_var):
        size, height = (2.0, noise_var**0.5), 2 - step_size(2, 2, noise_var)
        value, slope, curvatures = local(features_alone(2, 2, noise_var), size)
        assert value == pytest.approx(height, rel=1e-12) and slope < 1e-12
        task = tasks.GaussianTask(np.zeros(2), 2, noise_std=noise_var**0.5)
        near = np.eye(1, 3) + 0.1 * np.random.default_rng(0).normal(size=(50, 1, 3))
        return curvatures[0], min(by_least_squares(b, task)[0] for b in near) - height

    curvature, lowest = ways(3.0)
    assert curvature > -1e-10 and lowest > -1e-12
    curvature, lowest = ways(2.8)
    assert curvature < -1e-4 and lowest < -1e-6


@jax.jit
@partial(jax.vmap, in_axes=(0, None))
@partial(jax.vmap, in_axes=(0, None))
def minimized(start, size):
    return training.minimize(partial(loss, size=size), start, steps=800, patience=20)


def searches(d, most, starts, size):
    """L-BFGS over all weights from random starts, for 1 to ``most`` heads: excess and largest slope, (most, starts)."""
    rng, D = np.random.default_rng(0), d + 1
    used = (np.arange(most) < np.arange(1, most + 1)[:, None])[:, None, :, None]  # the others are idle
    b = 0.3 * rng.normal(size=(most, starts, most, D)) * used
    A = 0.3 * rng.normal(size=(most, starts, most, D, D)) * used[..., None]
    found = minimized((b, A, 0.3 * rng.normal(size=(most, starts, d))), size)
    return np.asarray(found.value) - d * (1 - step_size(d, size[0], size[1] ** 2)), np.asarray(found.gradient)


@pytest.mark.claim("trained-guess-landscape", "one-head-fewer-noise")
@pytest.mark.parametrize("C, noise_var, trapped", [(2, 0.0, True), (3, 0.0, False), (7, 20.0, True), (7, 2.0, False)])
def test_searches_are_trapped_with_one_head_fewer_than_features_alone(C, noise_var, trapped, x64):
    """Three features: with two heads, searches end at the stated height where Delta <= 0; all others at the minimum."""
    above, slope = searches(3, 3, 16, (float(C), noise_var**0.5))
    rest = slope < 1e-7
    assert rest.sum(1).min() >= 4  # the others are on their way
    assert np.abs(above[[0, 2]][rest[[0, 2]]]).max() < 1e-6
    two = above[1][rest[1]]
    height = step_size(3, C, noise_var)
    stuck = two > 1e-6
    np.testing.assert_allclose(two[stuck], height, atol=1e-6)
    assert stuck.any() == trapped == (delta(3, C, noise_var) <= 0)


def in_a_valley(d, C, noise_var):
    """Where a search of d - 1 heads ends that starts at the low point of g beyond its peak; that point; the minimum."""
    xi = np.geomspace(0.1, 1e3, 20_001)
    values = level(xi, d - 1, d, C, noise_var)
    inside = np.flatnonzero((values[1:-1] < values[:-2]) & (values[1:-1] < values[2:])) + 1
    if not len(inside):
        return None
    b = np.eye(d - 1, d + 1, k=1)
    b[-1] = 0
    b[-1, [0, d]] = xi[inside[0]] ** 0.5, 1
    _, A, v = by_least_squares(b, tasks.GaussianTask(np.zeros(d), C, noise_std=noise_var**0.5))
    start = jnp.asarray(b), jnp.asarray(A), jnp.asarray(v)
    end = training.minimize(partial(loss, size=(float(C), noise_var**0.5)), start, steps=400, patience=20)
    return local(end.params, (float(C), noise_var**0.5)), values[inside[0]], d * (1 - step_size(d, C, noise_var))


@pytest.mark.claim("trained-guess-landscape", "one-head-fewer-noise")
@pytest.mark.parametrize(
    "d, C, noise_var, risks", [(2, 2, 0.0, ()), (3, 3, 2.745, (2.38389, 2.07645)), (4, 4, 3.5, ())]
)
def test_an_interior_trap(d, C, noise_var, risks, x64):
    """Delta > 0, and all weights move no further than to the function's own minimum, above that of all."""
    assert delta(d, C, noise_var) > 0
    (end, slope, curvatures), stated, best = in_a_valley(d, C, noise_var)
    assert end == pytest.approx(stated, abs=1e-6) and end > best + 0.1
    assert slope < 1e-5 and curvatures[0] > -1e-6
    assert not risks or (end, best) == pytest.approx(risks, abs=5e-6)
    # The control: outside a thin shell of noise there is none.
    assert in_a_valley(d, C, noise_var + (1.0 if d > 2 else 0.5)) is None


def shells(d, C):
    """The quartic, the noises below sigma_0^2 at which its number of positive roots changes, and sigma_0^2."""
    at = {symbolic.d: d, symbolic.C: C, m: d - 2}
    quartic = sympy.Poly([each.subs(at) for each in slope()], X)
    ahead = C + 1 - d
    edge = (ahead + sympy.sqrt(ahead**2 + (C + 1) ** 2 - d**2 - 2)).evalf(9)
    changes = sympy.Poly(quartic.discriminant(), symbolic.sigma2).sqf_part()
    inner = changes.intervals(eps=sympy.Rational(1, 100_000), inf=0, sup=edge)
    return quartic, [sum(ends) / 2 for ends, _ in inner], sympy.Rational(str(edge))


@pytest.mark.claim("one-head-fewer-noise")
@pytest.mark.parametrize("d, C, low, high, digits", [(3, 3, 2.741, 3.449, 3), (4, 4, 3.26, 3.83, 2)])
def test_the_noise_with_interior_traps(d, C, low, high, digits):
    """Between these two values, to the digits given; with one example more there is none there."""
    _, bounds, edge = shells(d, C)
    assert (round(float(bounds[-1]), digits), round(float(edge), digits)) == (low, high)
    assert shells(d, C + 1)[1][-1] > high


@pytest.mark.claim("one-head-fewer-noise")
@pytest.mark.parametrize("d", [2, 3, 4, 6])
@pytest.mark.parametrize("ahead", range(5))
def test_interior_traps_fill_one_shell_of_noise(d, ahead):
    """By exact roots of the quartic's discriminant; around zero noise, too, for two features and two examples."""
    C = d + ahead
    quartic, bounds, edge = shells(d, C)
    assert len(bounds) == (2 if d == C == 2 else 1)
    at_noise = lambda noise: sympy.Poly(quartic.as_expr().subs(symbolic.sigma2, sympy.Rational(noise)), X)
    roots = lambda noise: at_noise(noise).count_roots(0, None)
    counts = [roots((low + high) / 2) for low, high in itertools.pairwise([0, *bounds, edge])]
    assert counts == ([2, 0, 2] if d == C == 2 else [0, 2])
    assert roots(edge + 1) == 1 and 0 < edge - bounds[-1] < 1.1
