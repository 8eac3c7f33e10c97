"""An experiment, and what can be done with it: store its result, or repeat a piece and
compare. Helpers that several experiments share.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

from lsalib import training
from lsalib.book import stored
from studies.provenance import provenance, versions


class Experiment(NamedTuple):
    """One line that says what it is; ``run`` returns everything, ``again`` the
    beginning of each array, in minutes.

    ``settings`` are stored beside the numbers. A repeated entry may differ from the
    stored one by ``atol + rtol |stored|``.
    """

    line: str
    run: Callable[[], dict]
    again: Callable[[], dict]
    settings: dict[str, Any] = {}  # noqa: RUF012, the registry fills it in
    rtol: float = 0.0
    atol: float = 0.0


def constants(module: dict[str, Any]) -> dict[str, Any]:
    """The constants of a module, which are its experiment's settings."""
    return {
        name.lower(): value
        for name, value in module.items()
        if name.isupper() and name != "EXPERIMENT"
    }


def store(name: str, experiment: Experiment, folder: Path) -> None:
    """Run everything, and write it to the folder with its settings and the versions of
    packages.
    """
    about = provenance(f"python -m studies.experiments {name}") | experiment.settings
    about["versions"] = versions("jax", "numpy", "optax", "scipy")
    stored.save(folder / f"{name}.npz", experiment.run(), about)


def differences(name: str, experiment: Experiment, folder: Path) -> list[str]:
    """Run the beginning again, and name the arrays that differ from the stored ones."""
    arrays, problems = stored.load(name, folder).arrays, []
    for part, array in experiment.again().items():
        beginning = arrays[part][tuple(map(slice, array.shape))]
        try:
            np.testing.assert_allclose(
                array, beginning, experiment.rtol, experiment.atol, err_msg=part
            )
        except AssertionError as error:
            problems.append(f"{name}: {error}")
    return problems


def trained(
    loss, init, seeds: int, steps: int, learning_rate: float, clip: float = np.inf
) -> list:
    """The last weights of each seed, by Adam; the learning rate falls to zero along a
    cosine, and gradients are cut off at the length ``clip``.
    """
    adam = optax.adam(optax.cosine_decay_schedule(learning_rate, steps))
    ends = training.train(
        loss,
        None,
        jax.random.key(0),
        steps=steps,
        optimizer=optax.chain(optax.clip_by_global_norm(clip), adam),
        init=init,
        seeds=seeds,
    ).params
    return [jax.tree.map(itemgetter(seed), ends) for seed in range(seeds)]


def on_new_tasks(errors, batches: int):
    """What ``errors(key)`` returns for batches of new tasks, one after the other in
    float64.
    """
    keys = jax.random.split(jax.random.key(1), batches)
    return jax.tree.map(
        lambda *parts: np.concatenate(parts).astype(np.float64), *map(errors, keys)
    )


def risk(squares: np.ndarray, known: Sequence[np.ndarray] = ()) -> list[float]:
    """The mean of squared errors, and its standard error; by regression on variates
    whose means are known to be zero, where there are some.
    """
    beside = np.stack([np.ones(len(squares)), *known], 1)
    fit = np.linalg.lstsq(beside, squares, rcond=None)[0]
    return [fit[0], (squares - beside @ fit).std() / len(squares) ** 0.5]
