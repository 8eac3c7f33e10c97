r"""The layers of the field behind one interface: linear attention, gates, the delta rule, softmax attention.

A ``Layer`` says what is computed: a rule, the number of heads, of layers one after the other, and so on. It holds no
arrays. Its weights are a ``LayerParams``, a pytree. Every layer has two methods: ``init(key, dim)`` draws weights, and
``predict(params, X, y, x_q)`` returns a scalar for one example.

    >>> import jax, jax.numpy as jnp, optax
    >>> from lsalib import tasks, training
    >>> task, layer = tasks.GaussianTask([2.0, 2.0], context_size=4), Layer("delta", heads=2, frozen=("guess",))
    >>> params = layer.init(jax.random.key(0), task.dim)._replace(guess=jnp.array([2.0, 2.0]))
    >>> def loss(params, key):
    ...     batch = task.sample(key, 64)
    ...     predictions = jax.vmap(layer.predict, (None, 0, 0, 0))(params, batch.X, batch.y, batch.x_q)
    ...     return jnp.mean((predictions - batch.target) ** 2)
    >>> end = training.train(loss, params, jax.random.key(1), steps=5, optimizer=optax.adam(1e-2))
    >>> end.params.guess.tolist(), bool((end.params.state != 0).any())
    ([2.0, 2.0], True)

So ``jax.vmap``, ``metrics.sampled_risk`` and ``training.train`` work with any of them.

Each head keeps a matrix, its state. It starts at `S_0`, and each context token `z_t = [x_t; y_t]` changes it by its key
`k_t = W_K z_t` and its value `v_t = W_V z_t`. The query's token `z_q = [x_q; g^\top x_q]` reads the last state:

.. math:: f = g^\top x_q + \Big[ \sum_h W_P S_C W_Q z_q \Big]_{-1}

The initial state `S_0` and the guess `g` are zero after ``init``; set others by ``params._replace(guess=...)``. All
weights are trained but those named in ``Layer(frozen=...)``.

``recurrence`` computes the states of one head token by token, as the papers define them, and ``chunked`` many tokens at
once.
"""

from lsalib.layers.layer import Layer, LayerParams
from lsalib.layers.states import chunked, recurrence

__all__ = ["Layer", "LayerParams", "chunked", "recurrence"]
