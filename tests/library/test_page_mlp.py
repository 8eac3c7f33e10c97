"""The linear MLP: its blocks and attention with a trained guess are the same functions, with the same minimum risk."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from theory_reference import make_task

from lsalib import attention, estimators, metrics, tasks, theory, training

# d, C, H, m: among them one head, one unit, and fewer examples than features.
SHAPES = [(1, 2, 1, 1), (4, 9, 2, 5), (4, 2, 3, 1), (10, 10, 5, 25)]
block_answers = jax.jit(jax.vmap(attention.linear_transformer_block, (None, None, None, 0, 0, 0)))
yq_answers = jax.jit(jax.vmap(attention.yq_lsa, (None, None, 0, 0, 0)))


def block_from_yq(params, v, factors="Q"):
    """The block for a yq-LSA; the factor W_3 goes to the weights named by letters."""
    d = len(v)
    W_1, W_3 = np.eye(d + 1), np.diag(np.append(np.ones(d), 0.0))
    W_1[:d, d] = W_1[d, :d] = W_3[d, :d] = v
    W_1[d, d] = v @ v + 1
    params = params._replace(W_P=np.linalg.inv(W_1) @ params.W_P)
    return params._replace(**{f"W_{name}": getattr(params, f"W_{name}") @ W_3 for name in factors}), W_1, np.eye(d + 1)


def yq_from_block(params, W_1, W_2):
    """The yq-LSA for a block, and its guess."""
    mixed = W_2.T @ W_1
    W_Q = np.concatenate([params.W_Q[..., :-1], 0 * params.W_Q[..., -1:]], axis=-1)
    return params._replace(W_P=mixed @ params.W_P, W_Q=W_Q), mixed[-1, :-1]


def random_models(seed):
    """Weights of attention, a guess, an MLP, and 60 contexts: all numbers drawn at random, also the labels."""
    (d, C, H, m), rng = SHAPES[seed % len(SHAPES)], np.random.default_rng(seed)
    params = attention.LSAParams(*rng.normal(size=(4, H, d + 1, d + 1)) / np.sqrt(d + 1))
    contexts = rng.normal(size=(60, C, d)), rng.normal(size=(60, C)), rng.normal(size=(60, d))
    return params, rng.normal(size=d), tuple(rng.normal(size=(2, m, d + 1))), contexts


def apart(f, g):
    return np.abs(np.subtract(f, g)).max() / np.abs(g).max()


@pytest.mark.claim("lemma3-inclusion")
@pytest.mark.parametrize("seed", range(8))
def test_each_model_is_one_of_the_other(seed, x64):
    """Both constructions reproduce all answers; with the factor in keys or values, too, they do not."""
    params, v, mlp, contexts = random_models(seed)
    answers = yq_answers(params, v, *contexts)
    assert apart(block_answers(*block_from_yq(params, v), *contexts), answers) < 1e-11
    assert apart(yq_answers(*yq_from_block(params, *mlp), *contexts), block_answers(params, *mlp, *contexts)) < 1e-11
    three = block_from_yq(params, v, "QKV")
    for block in (block_from_yq(params, v, "QK"), block_from_yq(params, v, "QV"), three):
        assert apart(block_answers(*block, *contexts), answers) > 1e-3
    # The paper's three factors see y = Xv in place of the labels: they are right where the labels are those of the
    # guess, and wrong for labels of another weight vector.
    X, _, x_q = contexts
    for labels, same in ((X @ v, True), (X @ np.ones_like(v), False)):
        off = apart(block_answers(*three, X, labels, x_q), yq_answers(params, v, X, labels, x_q))
        assert off < 1e-11 if same else off > 1e-3
    of_any = apart(block_answers(*three, *contexts), yq_answers(params, v, X, X @ v, x_q))
    assert of_any < 1e-11


def circuits(params, row):
    """What the heads write into ``row``, the values b, and their bilinear forms A."""
    W_K, W_Q, W_P, W_V = params
    b = np.einsum("...m,...hmi,...hin->...hn", row, W_P, W_V)
    return b, np.einsum("...hkm,...hkn->...hmn", W_K, W_Q)


def read_block(params, W_1, W_2):
    """What a prediction reads of a block: v, the values b, (H, D), and the query maps, (H, D, d)."""
    row = np.einsum("...m,...mi->...i", W_2[..., -1], W_1)
    b, A = circuits(params, row)
    return row[..., :-1], b, A[..., :-1]


def read_yq(params, v):
    """The same of yq-LSA, whose heads also read the guess."""
    b, A = circuits(params, np.eye(v.shape[-1] + 1)[-1])
    return v, b, A[..., :-1] + A[..., -1:] * v[..., None, None, :]


@pytest.mark.claim("lemma3-inclusion")
@pytest.mark.parametrize("seed", range(4))
def test_a_prediction_reads_only_the_last_row_of_the_mlp(seed, x64):
    """The forms of both models, v.x_q and bilinear forms of the Gram matrix, against the full matrices."""
    params, v, mlp, (X, y, x_q) = random_models(seed)

    def form(v, b, B, X, y, x_q):
        return v @ x_q + jnp.einsum("hm,mn,hnk,k", b, attention.gram(X, y), B, x_q)

    of = lambda *read: jax.vmap(partial(form, *read))(X, y, x_q)
    answers = block_answers(params, *mlp, X, y, x_q)
    assert apart(of(*read_block(params, *mlp)), answers) < 1e-11
    assert apart(of(*read_yq(params, v)), yq_answers(params, v, X, y, x_q)) < 1e-11
    # The control: heads that do not pass through the MLP.
    assert apart(of(mlp[1][:, -1] @ mlp[0][:, :-1], *read_yq(params, 0 * v)[1:]), answers) > 1e-3


def rank(read, *weights):
    """The dimension of the functions around these weights: the rank of what they read of the Gram matrix."""
    sizes, flat = [W.size for W in weights], np.concatenate([W.ravel() for W in weights])
    # All is polynomial, so that an imaginary step gives exact derivatives.
    stepped = np.split(flat + 1e-30j * np.eye(len(flat)), np.cumsum(sizes)[:-1], axis=1)
    v, b, B = read(*(part.reshape(-1, *W.shape) for part, W in zip(stepped, weights, strict=True)))
    M = np.einsum("xhm,xhnj->xjmn", b, B)
    symmetric = (M + M.swapaxes(2, 3))[..., *np.triu_indices(M.shape[-1])]
    found = np.linalg.svd(np.hstack([v, symmetric.reshape(len(v), -1)]).imag * 1e30, compute_uv=False)
    return np.sum(found > 1e-9 * found[0])


def ranks(H, d):
    """Dimensions of the functions of yq-LSA, of two blocks, and of attention without a guess, by rank at random."""
    rng, D = np.random.default_rng(1), d + 1
    heads, v = tuple(rng.normal(size=(4, H, D, D))), rng.normal(size=d)
    block = lambda *weights: read_block(weights[:4], *weights[4:])
    blocks = [rank(block, *heads, *rng.normal(size=(2, m, D))) for m in (1, D)]
    plain = lambda *heads: read_yq(heads, np.zeros((len(heads[0]), d)))
    return rank(lambda *weights: read_yq(weights[:4], weights[4]), *heads, v), *blocks, rank(plain, *heads)


def dimension(H, d):
    return d + H * (d + 1) ** 2 - H**2 - d * H * (H - 1) // 2


@pytest.mark.claim("lemma3-inclusion")
def test_both_models_have_functions_of_the_same_dimension(x64):
    """The count by hand is the rank for H <= d + 1, and d more than without a guess; beyond, the count ends."""
    for H, d in ((1, 10), (2, 2), (3, 2)):
        *with_guess, without = ranks(H, d)
        assert with_guess == [dimension(H, d)] * 3 and without == dimension(H, d) - d
    assert ranks(4, 2)[0] != dimension(4, 2)


@pytest.mark.claim("lemma3-inclusion")
@pytest.mark.parametrize("seed", range(4))
def test_an_mlp_that_does_not_read_the_label_loses_only_functions_without_a_guess(seed, x64):
    """Exercise 1: with c = 0 the head writes its answer into the features, where the MLP reads it."""
    params, _, (W_1, W_2), contexts = random_models(seed)
    row = W_2[:, -1] @ W_1
    blind = np.append(row[:-1], 0.0)
    W_P = blind[:, None] * (row @ params.W_P)[:, None, :] / (blind @ blind)
    last = np.eye(len(row))[-1:]
    answers = block_answers(params, W_1, W_2, *contexts)
    assert apart(block_answers(params._replace(W_P=W_P), blind[None], last, *contexts), answers) < 1e-11
    # The control: the head as it was.
    assert apart(block_answers(params, blind[None], last, *contexts), answers) > 1e-3


def general(seed, d=4):
    """A task with any covariances, with noise and with 2 to 30 examples."""
    return make_task(seed, d, (2, 3, 7, 30)[seed % 4], noise_std=0.5)


def stretched(ratio, d=5, C=10):
    variances = np.geomspace(ratio, 1, d)
    return tasks.GaussianTask([2.0] * d, C, feature_cov=np.diag(variances * d / variances.sum()))


def best_block(task):
    return block_from_yq(theory.yq_optimal_weights(task), task.prior_mean)


def plain_block(task, step=None):
    """A plain step as a block, with the best step size unless told otherwise."""
    step = theory.optimal_step(task) if step is None else step
    return block_from_yq(attention.gd_weights(task.prior_mean, step), task.prior_mean)


def squared_distance(block, other, task):
    (params, v), (others, u) = yq_from_block(*block), yq_from_block(*other)
    return float(theory.squared_distance(params, others, task, v, u))


@pytest.mark.claim("ltb-optimum", "pythagoras-general")
@pytest.mark.parametrize("seed", range(10))
def test_the_excess_of_a_block_is_its_squared_distance_from_the_step(seed, x64):
    """Random blocks of one to five heads on general tasks; the distance from the best plain step is another."""
    task, rng = general(seed), np.random.default_rng(seed)
    heads, m, D = 1 + seed % 5, 1 + seed % 4, task.dim + 1
    block = attention.LSAParams(*0.5 * rng.normal(size=(4, heads, D, D))), *(0.5 * rng.normal(size=(2, m, D)))
    excess = float(theory.ltb_risk(*block, task)) - theory.yq_risk(task)
    assert excess == pytest.approx(squared_distance(block, best_block(task), task), rel=1e-9)
    assert abs(squared_distance(block, plain_block(task), task) / excess - 1) > 1e-4


def search(standard, white, start):
    """L-BFGS over blocks of one head and one unit, in tokens that ``white`` makes uncorrelated: risk, v, b and A."""

    def weights(start):
        v, b, A = start
        T = white[:-1]
        return v @ T[:, :-1], (b @ white)[None], (white.T @ A @ jnp.pad(T[:, :-1], ((0, 0), (0, 1))))[None]

    def risk(start):
        v, b, A = weights(start)
        none = jnp.zeros(len(white))
        return theory.standard_risk(*theory.standard_form(b, A, none, jnp.append(v, 0.0), standard), standard)

    end = training.minimize(risk, start, steps=300)
    return end.value, *weights(end.params)


@pytest.mark.claim("ltb-optimum", "ltb-newton")
def test_no_search_finds_a_better_block(x64):
    """Of six searches none ends below the theorem; the lowest is the best step, and not the plain or the full one."""
    varied = [stretched(ratio, C=C) for ratio, C in ((1, 10), (30, 2), (30, 10), (30, 100), (1000, 10))]
    each, rng = [task for task in varied for _ in range(6)], np.random.default_rng(0)
    means = np.array([theory.gram_moments(task).mean for task in each])
    white, d = np.linalg.inv(np.linalg.cholesky(means)), varied[0].dim
    starts = [0.1 * rng.normal(size=(len(each), *shape)) for shape in [(d,), (d + 1,), (d + 1, d)]]
    starts[1][:, -1] *= 5  # values on labels: fewer searches are caught
    standards = jax.tree.map(lambda *leaves: np.stack(leaves), *map(tasks.standardize, each))
    ends = jax.device_get(jax.jit(jax.vmap(search))(standards, white, starts))
    for k, task in enumerate(varied):
        risks, v, b, A = (end[6 * k : 6 * k + 6] for end in ends)
        least, low = theory.yq_risk(task), risks.argmin()
        assert risks.min() > least - 1e-9 and risks[low] == pytest.approx(least, abs=1e-6)
        row = np.append(v[low], 1.0)[None]
        head = jax.device_get(attention.from_effective(b[low], A[low]))
        head = head._replace(W_P=head.W_P * np.eye(d + 1)[-1][:, None])
        block = head, row, np.eye(d + 1)[-1:]
        assert float(theory.ltb_risk(*block, task)) == pytest.approx(risks[low], rel=1e-9)
        assert squared_distance(block, best_block(task), task) < 1e-6
        assert squared_distance(block, plain_block(task, 1.0), task) > 0.01
        if task is not varied[0]:
            assert squared_distance(block, plain_block(task), task) > 1e-3


@pytest.mark.claim("ltb-newton")
@pytest.mark.parametrize("seed", range(4))
def test_a_full_step_and_a_true_newton_step_on_samples(seed, x64):
    """The full step has its exact risk on fresh tasks; the context's own Newton step makes no error."""
    w_star, key = np.full(4, 2.0), jax.random.key(seed)
    task = tasks.GaussianTask(w_star, 8)

    def both(X, y, x_q):
        loss = lambda w: jnp.sum((X @ w - y) ** 2) / (2 * len(y))
        step = jnp.linalg.solve(jax.hessian(loss)(w_star), jax.grad(loss)(w_star))
        return jnp.stack([estimators.preconditioned_gd(X, y, x_q, w_star, jnp.eye(4)), x_q @ (w_star - step)])

    mean, error = metrics.sampled_risk(key, task, both, batches=4)
    assert abs(mean[0] - 20 / 8) < 5 * error[0] and mean[1] < 1e-12
    assert abs(mean[0] - theory.yq_risk(task)) > 5 * error[0]


@pytest.mark.claim("ltb-newton")
def test_for_every_feature_covariance_there_is_a_prior_for_which_a_plain_step_is_best():
    """Exercise 3, for variances 1, 2 and 4: the matched prior, and the identity as control."""
    variances, C = np.array([1.0, 2.0, 4.0]), 5
    low, high = (C + 1) * 4.0, 1000.0
    for _ in range(200):
        k = (low + high) / 2
        low, high = (k, high) if np.sum(variances / (k - (C + 1) * variances)) > 1 else (low, k)
    prior = 1 / (k - (C + 1) * variances)
    matched = tasks.GaussianTask([1.0, 2.0, 3.0], C, np.diag(variances), np.diag(prior))
    assert theory.gd_risk(matched) == pytest.approx(theory.yq_risk(matched), rel=1e-9)
    unmatched = tasks.GaussianTask([1.0, 2.0, 3.0], C, np.diag(variances))
    assert theory.gd_risk(unmatched) > 1.01 * theory.yq_risk(unmatched)
