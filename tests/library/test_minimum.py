"""Second-order minimization of a smooth function: where it ends, and what says that it
is not done.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refusals

from lsalib._minimum import minimize


def test_the_end_is_the_lowest_point():
    """Where steps overshoot, because the slope at the minimum is steep, more of them
    end no higher.
    """
    steep = lambda x: jnp.sqrt(jnp.abs(x) + 1e-9).sum()
    starts = jnp.asarray(np.random.default_rng(0).normal(size=(16, 2)), jnp.float32)
    few, more = (
        jax.vmap(lambda x, n=n: minimize(steep, x, steps=n).value)(starts)
        for n in (10, 20)
    )
    assert (more <= few).all() and (more < few).any()


def test_a_search_that_remembers_little_takes_longer(x64):
    """In a bowl of four curvatures, which four steps tell and one does not; a gradient
    says that it is not done.
    """
    curvatures = 10.0 ** np.arange(4)
    bowl = lambda x: jnp.sum(curvatures * (x - 1) ** 2)
    short, long = (
        minimize(bowl, jnp.zeros(4), steps=20, memory=memory) for memory in (1, 4)
    )
    assert long.value < 1e-3 < 0.1 < short.value
    slope = np.linalg.norm(2 * curvatures * (short.params - 1))
    assert short.gradient == pytest.approx(slope) and slope > 0.1


def test_a_start_may_be_whole_numbers(unchecked):
    assert minimize(lambda x: (x[0] - 2.5) ** 2, [3]).value < 1e-9


test_a_start_must_be_real_numbers = refusals(
    (r"params\['a'\] must be an array of real numb", minimize, jnp.sum, {"a": "x"}),
    ("params must hold at least one array, got {}", minimize, jnp.sum, {}),
)
