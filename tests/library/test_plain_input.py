"""Lists, integers and arrays of NumPy and JAX give the same numbers at every door."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsalib import attention, metrics, tasks, theory, training
from lsalib.book import Claim, stored
from lsalib.layers import Layer

KEY = jax.random.key(0)
X, Y, X_Q, GUESS, COV = (
    [[1, 2], [0, 1], [2, -1]],
    [1, 0, 2],
    [1, 1],
    [1, 0],
    [[2, 1], [1, 3]],
)
HEADS = np.arange(18).reshape(2, 3, 3) % 5 - 1
LAYER = Layer("linear")
STEPS = {"steps": 2, "batch_size": 4}

task = lambda form, size=3: tasks.GaussianTask(
    form([1, 2]), size, form(COV), form(COV), form(1)
)
weights = lambda form: attention.LSAParams(*[form(HEADS.tolist())] * 4)


def trained(form):
    loss = lambda w, key: ((jnp.asarray(form(X)) @ w - jnp.asarray(form(Y))) ** 2).sum()
    return training.train(
        loss, jnp.zeros(2), KEY, steps=2, optimizer=optax.sgd(0.01)
    ).params


def sampled(form):
    predict = lambda X, y, x_q: x_q @ jnp.asarray(form(GUESS)) + 0.5
    return metrics.sampled_risk(KEY, task(form), predict, batches=2, batch_size=8).mean


def kept(form, path):
    stored.save(path / "x.npz", {"X": form(X)}, {})
    return stored.load("x", path).arrays["X"]


# Each door of the library; beside whole numbers stands a half, which no integer type
# may round.
DOORS = {
    "GaussianTask": lambda form, _: theory.optimal_risk(task(form), form(GUESS), 0.5),
    "sample": lambda form, _: tasks.sample(KEY, task(form), 4).y,
    "lsa": lambda form, _: attention.lsa(
        weights(form), attention.embed(form(X), form(Y), form(X_Q), 0.5)
    ),
    "predict": lambda form, _: attention.predict(
        weights(form), attention.gram(form(X), form(Y)), form(X_Q), 0.5
    ),
    "population_risk": lambda form, _: theory.population_risk(
        weights(form), task(form), form(GUESS), 0.5
    ),
    "Layer.predict": lambda form, _: LAYER.predict(
        LAYER.init(KEY, 2), form(X), form(Y), form(X_Q)
    ),
    "train": lambda form, _: trained(form),
    "fit": lambda form, _: (
        # Losses: two steps of Adam hardly depend on the numbers.
        training.fit(KEY, task(form), 2, guess=form(GUESS), bias=0.5, **STEPS).losses
    ),
    "sweep": lambda form, _: (
        training.sweep(KEY, [training.Run(task(form), 2)], seeds=[0, 1], **STEPS)[
            0
        ].losses
    ),
    "sampled_risk": lambda form, _: sampled(form),
    "Claim": lambda form, _: (
        Claim("plain").holds("a label", form(X), form(5), atol=form(9)).measured
    ),
    "stored": kept,
}
FORMS = {
    "lists of integers": lambda value: value,
    "NumPy integers": np.array,
    "NumPy float32": np.float32,
    "JAX float32": lambda value: jnp.array(value, jnp.float32),
}


@pytest.fixture
def as_users(unchecked):
    """JAX as users have it: types promote, shapes broadcast, annotations are not
    checked.
    """
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.mark.parametrize("name", DOORS)
def test_every_form_gives_the_numbers_of_float64(name, as_users, tmp_path):
    expected = np.asarray(DOORS[name](np.float64, tmp_path))
    for form in FORMS.values():
        np.testing.assert_allclose(
            DOORS[name](form, tmp_path), expected, rtol=2e-5, atol=1e-5
        )
    # The control: other numbers give another result.
    other = np.asarray(DOORS[name](lambda value: np.float64(value) * 1.1, tmp_path))
    assert not np.allclose(other, expected, rtol=1e-3)
