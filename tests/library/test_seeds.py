"""The seeds of a page move by one number, and nothing else does."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from jax.random import key as early
from refusals import refusals

from lsalib import tasks
from lsalib.book import sampling, seeds

FAR = seeds.STRIDE
pytestmark = pytest.mark.usefixtures("own_seeds")


def draw(make, *seed):
    return np.asarray(make(*seed).normal(size=3))


def test_a_shift_is_a_seed_further_on():
    plain = draw(np.random.default_rng, 7), draw(np.random.default_rng, [7, 2])
    keys = [jax.random.key_data(make(7)) for make in (jax.random.key, jax.random.PRNGKey)]
    moved = draw(np.random.default_rng, 7 + 3 * FAR), draw(np.random.default_rng, [7 + 3 * FAR, 2 + 3 * FAR])
    further = [jax.random.key_data(make(7 + 3 * FAR)) for make in (jax.random.key, jax.random.PRNGKey)]
    with seeds.shifted(3):
        np.testing.assert_array_equal((draw(np.random.default_rng, 7), draw(np.random.default_rng, [7, 2])), moved)
        np.testing.assert_array_equal((draw(np.random.default_rng, np.int64(7)), moved[0]), (moved[0], moved[0]))
        found = [jax.random.key_data(make(7)) for make in (jax.random.key, jax.random.PRNGKey)]
    np.testing.assert_array_equal(found, further)
    assert not np.isclose(plain, moved).any() and not np.array_equal(keys, found)
    # Afterwards all is as it was.
    np.testing.assert_array_equal((draw(np.random.default_rng, 7), draw(np.random.default_rng, [7, 2])), plain)


def test_a_shift_replaces_the_one_before():
    """With zero the seeds are as they are written, also in a process whose seeds have moved."""
    plain, moved = draw(np.random.default_rng, 7), draw(np.random.default_rng, 7 + 3 * FAR)
    with seeds.shifted(2):
        assert not np.isclose(draw(np.random.default_rng, 7), plain).any()
        for shift, expected in ((0, plain), (3, moved)):
            with seeds.shifted(shift):
                np.testing.assert_array_equal(draw(np.random.default_rng, 7), expected)
        assert not np.isclose(draw(np.random.default_rng, 7), plain).any()


def test_other_generators_draw_as_before():
    """One that gets its bits from elsewhere, and a function that was imported by name before the shift."""
    plain = [draw(make, np.random.PCG64(7)) for make in (np.random.default_rng, np.random.Generator)]
    bits = lambda make: jax.random.key_data(make(7)).tolist()
    before = bits(early)
    with seeds.shifted(3):
        found = [draw(make, np.random.PCG64(7)) for make in (np.random.default_rng, np.random.Generator)]
        assert bits(early) == before != bits(jax.random.key)
    np.testing.assert_array_equal(found, plain)


def test_what_the_library_draws_moves_along():
    """By a key that a page makes, by seeds that the library makes keys of, and inside a compiled function."""
    task = tasks.GaussianTask([1.0, 2.0], context_size=3)
    sampled = lambda seed: np.asarray(tasks.sample(jax.random.key(seed), task, 4).y)
    means = lambda seed: sampling.by_batch(lambda key: jax.random.normal(key, (2,)), [seed], batches=2)
    traced = lambda seed: np.asarray(jax.jit(lambda n: jax.random.normal(jax.random.key(n), (2,)))(seed))
    for f in (sampled, means, traced):
        plain, expected = f(5), f(5 + 2 * FAR)
        with seeds.shifted(2):
            found = f(5)
        np.testing.assert_array_equal(found, expected)
        assert not np.isclose(found, plain).any()


def test_the_variable_moves_what_a_page_draws():
    """In a process of its own, as pages are run."""
    page = "import numpy as np, lsalib.book; print(np.random.default_rng(7).normal())"
    env = os.environ | {seeds.VARIABLE: "3"}
    moved = subprocess.check_output([sys.executable, "-c", page], env=env, text=True)
    assert float(moved) == np.random.default_rng(7 + 3 * FAR).normal() != np.random.default_rng(7).normal()


@pytest.mark.parametrize("shift", ["-1", "1.5", "three", "1001", "³"])
def test_a_bad_variable_is_refused(shift, monkeypatch):
    """The variable holds a whole number in range, written in plain digits."""
    monkeypatch.setenv(seeds.VARIABLE, shift)
    with pytest.raises(ValueError, match="LSALIB_SEED_SHIFT must be a whole number from 0 to 1000, got"):
        seeds.from_environment()


def entered(shift):
    with seeds.shifted(shift):
        pass


test_a_bad_shift_is_refused = refusals(
    (lambda: entered(-1), "shift must be a whole number from 0 to 1000, got -1"),
    (lambda: entered(1001), "got 1001"),
    (lambda: entered(1.5), "got 1.5"),
    (lambda: entered(True), "got True"),
)
