"""What the appendix on several softmax tasks says of guesses, of two heads and of random heads."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsalib import attention, tasks, theory
from lsalib.book import sampling, stored

RUN = stored.load("softmax_prior_mean")
D, C, NOISE = (RUN.about[name] for name in ("dim", "context_size", "noise_var"))
WHITES = C * (D + 1)


def regression(prior_mean):
    return tasks.GaussianTask(np.full(D, prior_mean), C, None, np.eye(D) / D, NOISE**0.5)


TASK = regression(1.0)
FEWER = theory.centred_task(TASK)


def trained(layer):
    """The weights and the guess of a stored layer, for each seed."""
    for seed in range(4):
        b, A = map(np.float32, stored.circuits(RUN, seed, layer))
        yield attention.from_effective_softmax(b, A), np.float32(RUN.arrays["guess"][-1][seed, layer])


def predictions(layers, few):
    """Predictions of layers with their guesses, (layers, batch)."""
    f = lambda params, v: lambda X, y, x_q: attention.softmax_attention(params, X, y, x_q, v @ x_q)
    return jnp.stack([jax.vmap(f(*layer))(few.X, few.y, few.x_q) for layer in layers])


def centered_gram(X, y):
    return attention.gram(X - X.mean(0)[None], y - y.mean()) * (C / (C - 1))


@pytest.mark.claim("softmax-linear-heads")
@pytest.mark.parametrize("c", [1.0, 2.0])
def test_a_constant_guess_has_to_stand_in_the_query_s_token(c, x64):
    """There the softmax copy of the best linear heads has their risk; with a zero in the token it pays c^2 at least."""
    zero_mean, omega = regression(0.0), 1e-3
    fewer = theory.centred_task(zero_mean)
    b, A = attention.effective(theory.optimal_weights(fewer, bias=c))
    b = jnp.concatenate([b, -b.sum(0)[None]])[:, None] / omega * C / (C - 1)
    heads = attention.from_effective_softmax(b, omega * jnp.concatenate([A, jnp.zeros_like(A[:1])]))
    few = tasks.sample(jax.random.key(6), zero_mean, 20_000)

    def risk_and_error(token):
        f = lambda X, y, x_q: attention.softmax_heads(heads, jnp.column_stack([X, y]), jnp.append(x_q, token)).sum()
        squares = (c + np.asarray(jax.jit(jax.vmap(f))(few.X, few.y, few.x_q)) - few.target) ** 2
        return squares.mean(), squares.std() / len(squares) ** 0.5

    exact = theory.optimal_risk(fewer, bias=c)
    risk, error = risk_and_error(c)
    assert abs(risk - exact) < 5 * error and risk < c**2
    # Control: a zero in the query's token.
    risk, error = risk_and_error(0.0)
    assert risk > c**2 and risk > exact + 5 * error


@pytest.mark.claim("softmax-linear-heads")
def test_two_heads_without_a_guess_are_slightly_below_one_linear_head(x64):
    """On common tasks; the linear head on centered contexts has the minimum risk of one head on one example fewer."""
    least = theory.least_risk(FEWER, 1)
    linear = jax.tree.map(np.float32, least.params)

    def risks(key):
        few = tasks.sample(key, TASK, 2**12, dtype=jnp.float32)
        one = lambda X, y, x_q: attention.predict(linear, centered_gram(X, y), x_q, 0.0)
        both = jnp.append(predictions(trained(0), few), jax.vmap(one)(few.X, few.y, few.x_q)[None], axis=0)
        return ((both - few.target[None]) ** 2).mean(1)

    found = sampling.by_batch(risks, [8], 160)
    assert abs(sampling.z_score(found[:, -1:], least.risk)) < 5
    below = (found[:, -1] - found[:, :4].mean(1))[:, None]
    assert sampling.z_score(below, 0.0) > 5
    # Slightly: by less than a tenth, where eight heads halve it.
    assert below.mean() < 0.1 * least.risk and theory.optimal_risk(FEWER) < 0.5 * least.risk


@pytest.mark.claim("softmax-guess-floor")
def test_trained_layers_without_a_guess_do_not_see_the_proof_s_function(x64):
    """Its product with their predictions averages to zero, and with those of layers with a guess it does not."""
    layers = [layer for k in (1, 3) for layer in trained(k)]

    def products(key):
        few = tasks.sample(key, TASK, 2**12, dtype=jnp.float32)
        white = (few.y - jnp.einsum("bcd,bd->bc", few.X, few.w)) / NOISE**0.5
        square = (few.X**2).sum((1, 2)) + (white**2).sum(1)
        unseen = few.target * (square - WHITES - (few.x_q**2).sum(1) + D)
        return (predictions(layers, few) * unseen[None]).mean(1)

    off = abs(sampling.z_score(sampling.by_batch(products, [9], 64), np.zeros(8)))
    assert (off[:4] < 5).all()
    # Control: a trained guess.
    assert (off[4:] > 5).all()


@pytest.mark.claim("softmax-linear-heads")
def test_random_heads_gain_a_few_percent_at_most(x64):
    """The best output weights of linear and 36 random heads are least squares: on their own contexts and fresh ones.

    The two risks bracket, on average, what the best weights reach.
    """
    rng, half = np.random.default_rng(10), 12_000
    sizes = np.repeat([0.15, 0.3, 0.6], 12)[:, None, None]
    random_A = np.float32(sizes * rng.normal(size=(36, D + 1, D + 1)) / D**0.5)
    best_linear = jax.tree.map(np.float32, theory.optimal_weights(FEWER))

    def read(key):
        few = tasks.sample(key, TASK, half // 12, dtype=jnp.float32)
        identity = jnp.broadcast_to(jnp.eye(D + 1, dtype=jnp.float32), random_A.shape)
        heads = attention.from_effective_softmax(identity, random_A)

        def one(X, y, x_q, target):
            seen = attention.softmax_heads(heads, jnp.column_stack([X, y]), jnp.append(x_q, 0.0))
            G = centered_gram(X, y)
            linear = jnp.outer(G[np.triu_indices(D + 1)], x_q)
            best = attention.predict(best_linear, G, x_q, 0.0)
            return jnp.concatenate([jnp.stack([target, best]), linear.ravel(), seen.ravel()])

        return jax.vmap(one)(few.X, few.y, few.x_q, few.target)

    sample = sampling.by_batch(read, [11], 24).reshape(2, half, -1)
    target, best, known = sample[..., 0], sample[..., 1], sample[..., 2:]

    def fitted_risks(size):
        scaled = known[..., :size] / known[0, :, :size].std(0)
        weights = np.linalg.lstsq(scaled[0], target[0], rcond=1e-6)[0]
        return ((scaled @ weights - target) ** 2).mean(1)

    linear_size = D * (D + 1) * (D + 2) // 2
    with_linear, with_random = fitted_risks(linear_size), fitted_risks(known.shape[2])
    assert with_random[0] > 0.95 * with_linear[0]
    # The linear heads alone agree with their exact optimum, on these contexts and on average over both kinds.
    exact, squares = theory.optimal_risk(FEWER), (best - target) ** 2
    assert abs(sampling.z_score(squares.reshape(24, -1).mean(1)[:, None], exact)) < 5
    assert abs(with_linear.mean() / squares.mean() - 1) < linear_size / half
    # Controls: one example more is ruled out, and the right guess is far below.
    assert abs(with_linear.mean() / squares.mean() * exact / theory.optimal_risk(TASK) - 1) > linear_size / half
    assert theory.yq_risk(FEWER) < 0.95 * with_random[0]
