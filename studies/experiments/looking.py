"""Looking inside SmolLM2 while it answers: where it looks, and what it reads there does to its answer."""

import re
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from lsalib.sts import prompts
from lsalib.sts.experiment import ANSWERS
from lsalib.sts.models import _llama as llama
from lsalib.sts.models._answers import AnswerTree, after, answer_tree
from lsalib.sts.models._reading import bucket

__all__ = ["Look", "by_role", "look"]

_KINDS = {"Sentence 1": "sentences", "Sentence 2": "sentences", "Score": "score"}
_KINDS |= dict.fromkeys(prompts.NUMBER_LINES, "guess")
_LINE = re.compile(f"^({'|'.join(_KINDS)}):(.*)$", re.MULTILINE)


class Look(NamedTuple):
    """One prompt from inside: the expected score, the roles of the tokens, indices of ``prompts.ROLES``, and by layer
    where the last token looks, a mean over heads that sums to one, and what the tokens' values do to the score."""

    expected: float
    roles: Int[np.ndarray, " T"]
    attention: Float[np.ndarray, "L T"]
    relevance: Float[np.ndarray, "L T"]


def by_role(tokens: Float[np.ndarray, "L T"], roles: Int[np.ndarray, " T"]) -> Float[np.ndarray, "L R"]:
    """Sums over the tokens of each role, a column for each of ``prompts.ROLES``.

    Example:
        >>> by_role(np.array([[1.0, 2.0, 4.0]]), np.array([0, 5, 5])).tolist()
        [[1.0, 0.0, 0.0, 0.0, 0.0, 6.0, 0.0]]
    """
    return tokens @ np.eye(len(prompts.ROLES))[roles]


def look(model, prompt: str) -> Look:
    """Attention of the answer's place, and the relevance of all values for the expected score.

    Args:
        model: an open ``SmolLM2``.
        prompt: a completion that ``prompts.build`` wrote.
    """
    ids, roles, tree = _taken_apart(model, prompt)
    config, params, length = model.stored.config, model.stored.params, len(ids)
    tokens, values = np.zeros(bucket(length), np.int32), np.array(ANSWERS, params.embedding.dtype)
    tokens[:length] = ids
    expected, relevance, attention = _inside(params, config, tokens, length, tree, values)
    attention = np.asarray(attention, np.float64).mean(axis=1)
    return Look(float(expected), roles, *(np.asarray(part, np.float64)[:, :length] for part in (attention, relevance)))


@partial(jax.jit, static_argnums=1)
def _inside(params, config, tokens, length, tree, values):
    """The expected score of the answers' ``values`` after a prompt of so many ``tokens`` and padding, (T,); its
    derivatives by a factor on the value vectors of each token in each layer, (L, T), to first order what it would lose
    without them; and where the prompt's last token looks, (L, heads, T), in rows that sum to one.

    The derivatives are zero for the last token, whose place holds the answer, and for the padding. The residual stream
    has none: its norm is divided out.
    """
    T = len(tokens)

    def expected(gain):
        past = llama.forward(params, config, params.embedding[tokens], value_gain=gain).cache
        logprobs, weights = after(params, config, tokens, length, past, tree)
        # Node 0 sees the tokens before it in their slots, and itself among the nodes.
        attention = weights[:, :, 0, :T].at[..., length - 1].set(weights[:, :, 0, T])
        return jax.nn.softmax(logprobs) @ values, attention

    ones = jnp.ones((config.layers, T), params.embedding.dtype)
    (score, attention), relevance = jax.value_and_grad(expected, has_aux=True)(ones)
    return score, relevance, attention


def _taken_apart(model, prompt: str) -> tuple[list[int], Int[np.ndarray, " T"], AnswerTree]:
    """The tokens; what each is part of, the role of its last character; and the answers as a tree."""
    known = [prompts.ROLES.index(role) for role in _roles(prompt)]
    tokenizer = model.stored.tokenizer
    encoded = tokenizer.encode(prompt)
    tree = answer_tree([tokenizer.encode(f" {answer}").ids for answer in ANSWERS])
    return encoded.ids, np.array([known[end - 1] for _, end in encoded.offsets], np.int64), tree


def _roles(prompt: str) -> list[str]:
    """What each character of a completion prompt is part of; a line's value begins with the space after its colon."""
    begin, last = prompt.find("\n\n"), prompt.rfind("\n\n")
    if begin < 0 or not all(_LINE.fullmatch(line) for line in prompt[begin:].split("\n") if line):
        raise ValueError(f"prompt must be one that build wrote as a completion, got {prompt[:60]!r}")
    found = ["instruction"] * begin + ["frame"] * (len(prompt) - begin)
    for line in _LINE.finditer(prompt, begin):
        place = "query" if line.start() > last else "context"
        found[slice(*line.span(2))] = [f"{place} {_KINDS[line[1]]}"] * len(line[2])
    return found
