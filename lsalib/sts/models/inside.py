"""Looking inside a Llama model: attention weights, and what input embeddings do to a prediction."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from lsalib import _validate
from lsalib.sts.models import llama
from lsalib.sts.models.answers import AnswerTree, answer_logprobs, logprobs_and_attention

__all__ = ["relevance_and_attention"]


@partial(jax.jit, static_argnums=1)
def next_token_logits(params: llama.Params, config: llama.Config, x: Float[Array, "T dim"]) -> Float[Array, "T vocab"]:
    """Logits of the next token after each token of one prompt, from the input embeddings; differentiable.

    Args:
        params, config: the model.
        x: input embeddings, (T, dim), as ``llama.embed`` gives them.

    Returns:
        Logits, (T, vocab).

    Example:
        >>> config = llama.Config(1, 2, 1, 4, 8, 5, 1e4, 1e-5, 8)
        >>> next_token_logits(llama.init(jax.random.key(0), config), config, jnp.ones((3, 4))).shape
        (3, 5)
    """
    return llama.logits(params, llama.read(params, config, x).hidden)


@partial(jax.jit, static_argnums=1, static_argnames="queries")
def attention_weights(
    params: llama.Params, config: llama.Config, x: Float[Array, "T dim"], queries: int = 1
) -> Float[Array, "L heads queries T"]:
    """Where the last tokens of a prompt look, in every layer and head.

    Args:
        params, config: the model.
        x: input embeddings, (T, dim).
        queries: how many tokens at the end look; T gives the whole triangle.

    Returns:
        Weights (L, heads, queries, T); each row sums to one, over the tokens before and the one that looks.

    Raises:
        ValueError: if there are not as many tokens.

    Example:
        >>> config = llama.Config(1, 2, 1, 4, 8, 5, 1e4, 1e-5, 8)
        >>> attention_weights(llama.init(jax.random.key(0), config), config, jnp.ones((3, 4))).shape
        (1, 2, 1, 3)
    """
    before = len(x) - _validate.count("queries", queries)
    if before < 0:
        raise ValueError(f"queries must be at most the number of tokens, {len(x)}, got {queries}")
    past = llama.read(params, config, x[:before]).cache if before else llama.empty_cache(config, dtype=x.dtype)
    mask = jnp.concatenate([jnp.ones((queries, before), bool), llama.causal_mask(queries)], axis=1)
    return llama.forward(
        params, config, x[before:], before + jnp.arange(queries), mask, past, keep_weights=True
    ).weights


@partial(jax.jit, static_argnums=1)
def last_attention(
    params: llama.Params, config: llama.Config, x: Float[Array, "T dim"], length: int | Int[Array, ""]
) -> Float[Array, "L heads T"]:
    """Where the last token of a padded prompt looks: as ``attention_weights``, compiled once for all lengths up to T.

    Args:
        params, config: the model.
        x: input embeddings, (T, dim), of which the first ``length`` are the prompt and the others padding.
        length: the prompt's number of tokens.

    Returns:
        Weights (L, heads, T), zero on the padding; each row sums to one.

    Example:
        >>> config = llama.Config(1, 2, 1, 4, 8, 5, 1e4, 1e-5, 8)
        >>> params, x = llama.init(jax.random.key(0), config), jnp.ones((5, 4))
        >>> bool(jnp.allclose(last_attention(params, config, x, 3)[..., :3], attention_weights(params, config, x[:3])[:, :, 0]))
        True
    """
    length = jnp.asarray(length)
    last = jax.lax.dynamic_slice_in_dim(x, length - 1, 1)
    mask = jnp.append(jnp.arange(len(x)) < length - 1, True)[None]
    past = llama.read(params, config, x).cache
    weights = llama.forward(params, config, last, length[None] - 1, mask, past, keep_weights=True).weights[:, :, 0]
    return weights[..., :-1].at[..., length - 1].set(weights[..., -1])


@partial(jax.jit, static_argnums=1)
def expected_score(
    params: llama.Params, config: llama.Config, x: Float[Array, "T dim"], tree: AnswerTree, values: Float[Array, " A"]
) -> Float[Array, ""]:
    """The mean of the answers' values under the model, renormalised over the answers; differentiable in x.

    Args:
        params, config: the model.
        x: input embeddings of the prompt, (T, dim).
        tree: the answers.
        values: what each answer means, (A,).

    Returns:
        ``sum_a values_a p(a) / sum_a p(a)``.

    Raises:
        ValueError: if the values do not fit the answers.

    Example:
        >>> config = llama.Config(1, 2, 1, 4, 8, 5, 1e4, 1e-5, 8)
        >>> from lsalib.sts.models import answers
        >>> params, x, tree = llama.init(jax.random.key(0), config), jnp.ones((3, 4)), answers.answer_tree([[1], [2, 3]])
        >>> bool(1 < expected_score(params, config, x, tree, jnp.array([1.0, 2.0])) < 2)
        True
        >>> jax.grad(expected_score, argnums=2)(params, config, x, tree, jnp.array([1.0, 2.0])).shape
        (3, 4)
    """
    _validate.shape("values", values, (len(tree.used),))
    return jax.nn.softmax(answer_logprobs(params, config, x, len(x), tree)) @ values


@partial(jax.jit, static_argnums=1)
def value_relevance(
    params: llama.Params,
    config: llama.Config,
    x: Float[Array, "T dim"],
    length: int | Int[Array, ""],
    tree: AnswerTree,
    values: Float[Array, " A"],
) -> tuple[Float[Array, ""], Float[Array, "L T"]]:
    """What each token's values do to the expected score, layer by layer: gradient times value.

    The derivative of ``expected_score`` by a factor on the value vectors of token i in layer l, which all later
    tokens read there: ``sum_(readers, heads) attention * d score / d attention``, and to first order what the score
    would lose without them. The residual stream has no such derivative worth the name: its norm is divided out.

    Args:
        params, config, tree, values: as in ``expected_score``.
        x: input embeddings, (T, dim), of which the first ``length`` are the prompt and the others padding.
        length: the prompt's number of tokens.

    Returns:
        The expected score, and the derivatives (L, T); those of the last token, whose place holds the answer, and of
        the padding are zero.

    Example:
        >>> config = llama.Config(1, 2, 1, 4, 8, 5, 1e4, 1e-5, 8)
        >>> from lsalib.sts.models import answers
        >>> params, tree = llama.init(jax.random.key(0), config), answers.answer_tree([[1], [2, 3]])
        >>> x = llama.embed(params, jnp.array([4, 0, 0]))
        >>> (value_relevance(params, config, x, 2, tree, jnp.array([1.0, 2.0]))[1] != 0).tolist()
        [[True, False, False]]
    """
    return relevance_and_attention(params, config, x, length, tree, values)[:2]


@partial(jax.jit, static_argnums=1)
def relevance_and_attention(
    params: llama.Params,
    config: llama.Config,
    x: Float[Array, "T dim"],
    length: int | Int[Array, ""],
    tree: AnswerTree,
    values: Float[Array, " A"],
) -> tuple[Float[Array, ""], Float[Array, "L T"], Float[Array, "L heads T"]]:
    """``value_relevance`` and ``last_attention`` of the same prompt, which is read once.

    Args:
        params, config, x, length, tree, values: as in ``value_relevance``.

    Returns:
        The expected score, the derivatives (L, T), and the last token's attention (L, heads, T).

    Raises:
        ValueError: if the values do not fit the answers.

    Example:
        >>> config = llama.Config(1, 2, 1, 4, 8, 5, 1e4, 1e-5, 8)
        >>> from lsalib.sts.models import answers
        >>> params, tree = llama.init(jax.random.key(0), config), answers.answer_tree([[1], [2, 3]])
        >>> x = llama.embed(params, jnp.array([4, 0, 0]))
        >>> [part.shape for part in relevance_and_attention(params, config, x, 2, tree, jnp.array([1.0, 2.0]))]
        [(), (1, 3), (1, 2, 3)]
    """
    _validate.shape("values", values, (len(tree.used),))

    def expected(gain):
        logprobs, attention = logprobs_and_attention(params, config, x, length, tree, gain)
        return jax.nn.softmax(logprobs) @ values, attention

    (score, attention), relevance = jax.value_and_grad(expected, has_aux=True)(
        jnp.ones((config.layers, len(x)), x.dtype)
    )
    return score, relevance, attention
