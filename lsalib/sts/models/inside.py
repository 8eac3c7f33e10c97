"""Looking inside a Llama model: attention weights, and what the tokens' values do to a prediction."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from lsalib import _validate
from lsalib.sts.models import llama
from lsalib.sts.models.answers import AnswerTree, logprobs_and_attention

__all__ = ["relevance_and_attention"]


@partial(jax.jit, static_argnums=1)
def relevance_and_attention(
    params: llama.Params,
    config: llama.Config,
    x: Float[Array, "T dim"],
    length: int | Int[Array, ""],
    tree: AnswerTree,
    values: Float[Array, " A"],
) -> tuple[Float[Array, ""], Float[Array, "L T"], Float[Array, "L heads T"]]:
    """The expected score, what each token's values do to it, layer by layer, and where the prompt's last token looks.

    The expected score is ``sum_a values_a p(a) / sum_a p(a)``. Its derivative by a factor on the value vectors of
    token i in layer l, which all later tokens read there, is gradient times value, ``sum_(readers, heads) attention
    * d score / d attention``, and to first order what the score would lose without them. The residual stream has no
    such derivative worth the name: its norm is divided out.

    Args:
        params, config, x, length, tree: as in ``answers.logprobs_and_attention``.
        values: what each answer means, (A,).

    Returns:
        The expected score; the derivatives (L, T), zero for the last token, whose place holds the answer, and for the
        padding; and the attention (L, heads, T).

    Raises:
        ValueError: if the values do not fit the answers.
    """
    _validate.shape("values", values, (len(tree.used),))

    def expected(gain):
        logprobs, attention = logprobs_and_attention(params, config, x, length, tree, gain)
        return jax.nn.softmax(logprobs) @ values, attention

    ones = jnp.ones((config.layers, len(x)), x.dtype)
    (score, attention), relevance = jax.value_and_grad(expected, has_aux=True)(ones)
    return score, relevance, attention
