"""What identifies a training, as far as its program shows: a checkpoint is refused to another training."""

import re
from hashlib import sha256

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from lsalib import _arrays
from lsalib.training.loop import Program, State

__all__ = ["one_seed", "step_text", "training_identity", "tree_digest"]


def training_identity(program: Program, state: State, key: PRNGKeyArray, numbers: list[int]) -> dict[str, object]:
    """A training as JSON data by name.

    Loss and optimizer are identified by what they do in one step, including all numbers, such as a step size.
    """
    return {
        "start or state of the optimizer": tree_digest(state),
        "key": [program.key_impl, jax.random.key_data(key).tolist()],
        "seeds": numbers,
        "loss, optimizer or version of JAX": [jax.__version__, program.step],
    }


def tree_digest(tree) -> str:
    """A short text that is equal for trees of equal arrays."""
    found = sha256(repr(jax.tree.structure(tree)).encode())
    for leaf in jax.tree.leaves(tree):
        found.update(f"{leaf.dtype.name} {leaf.shape}".encode() + np.ascontiguousarray(leaf).tobytes())
    return found.hexdigest()


def step_text(traced) -> str:
    """A traced function, and its constants, as a short text without the addresses of this process.

    Raises:
        ValueError: if a constant is not known, since JAX traces what surrounds the training.
    """
    found = sha256()

    def visit(closed):
        for const in closed.consts:
            if _arrays.traced(const):
                raise ValueError("loss and optimizer must read known numbers: train runs its own program")
            array = np.asarray(const)
            found.update(f"{array.dtype.name} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        for equation in closed.jaxpr.eqns:
            for value in jax.tree.leaves(equation.params, is_leaf=lambda value: hasattr(value, "consts")):
                if hasattr(value, "consts"):
                    visit(value)

    visit(traced)
    found.update(re.sub(r"0x[0-9a-f]+", "", str(traced)).encode())
    return found.hexdigest()


def one_seed(state: State) -> State:
    """The shapes of one seed."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), state)
