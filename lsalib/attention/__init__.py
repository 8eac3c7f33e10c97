r"""Linear self-attention: the paper's formula, and the short form that a prediction
needs.

Only the bottom-right entry of the output is a prediction, so a head acts through
`b_h`, the last row of `W_P W_V`, and `A_h = W_K^\top W_Q` alone. With the Gram matrix
`G = Z^\top Z / C` of the context tokens `z_i = [x_i; y_i]` and `z_q = [x_q; y_q]`,

.. math:: f(E) = y_q + \sum_h b_h^\top G A_h z_q = y_q + \sum_j \langle G, M_j \rangle
   z_{q,j},
   \qquad M_j = \sum_h b_h a_{h,j}^\top.

Everything is written for one example; ``jax.vmap`` makes the batch. Arguments may be
lists, numbers, or arrays of NumPy or JAX: all become arrays of the widest float type
among them.
"""

from lsalib.attention.layer import (
    LSAParams,
    embed,
    init,
    linear_transformer_block,
    lsa,
    yq_lsa,
)
from lsalib.attention.reduced import (
    effective,
    from_effective,
    from_lift,
    gd_weights,
    gram,
    lift,
    predict,
)
from lsalib.attention.softmax import (
    SoftmaxParams,
    from_effective_softmax,
    reduced_softmax,
    softmax_attention,
    softmax_heads,
)

__all__ = [
    "LSAParams",
    "SoftmaxParams",
    "effective",
    "embed",
    "from_effective",
    "from_effective_softmax",
    "from_lift",
    "gd_weights",
    "gram",
    "init",
    "lift",
    "linear_transformer_block",
    "lsa",
    "predict",
    "reduced_softmax",
    "softmax_attention",
    "softmax_heads",
    "yq_lsa",
]
