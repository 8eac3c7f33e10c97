"""What all models share: how they are asked, what they refuse to be asked, and where an answer ends."""

from abc import ABC, abstractmethod
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import numpy as np

from lsalib import _validate

Conversation = list[dict[str, str]]
Prompts = list[str] | list[Conversation]
Keep = Callable[[int, Any], None]  # takes an index and what was found for it
Parts = MutableMapping[tuple[int, int], float]
Encode = Callable[[list[str]], list[list[int]]]


class Answer(str):
    """A model's words, and why they end: "stop", "length", or what else a server says; None where nobody knows."""

    finish: str | None

    def __new__(cls, words: str, finish: str | None = None):
        answer = super().__new__(cls, words)
        answer.finish = finish
        return answer


class LanguageModel(ABC):
    """What an experiment asks of a model. Decoding is greedy everywhere.

    A model fills in ``_answer`` and ``_score``, which hand each result to ``keep(index, result)``.

    Attributes:
        name: what ``open_model`` was given.
        version: what an answer depends on: packages, weights, server; it holds no secret.
    """

    name: str
    version: dict[str, str]

    def complete(
        self, prompts: Prompts, *, max_new_tokens: int, stop: Sequence[str] = (), on_answer: Keep | None = None
    ) -> list[str]:
        """Continue each text, up to the end token, a stop string (not part of the answer) or the limit; or answer each
        conversation, a list of ``{"role": …, "content": …}``, by the model's own template.

        An answer is a string that says in its attribute ``finish`` why it ends: "stop", "length", or as a server says.
        ``on_answer(index, text)`` is called in the calling thread as answers arrive, so that they can be stored.
        """
        _check(prompts)
        limit, _ = _validate.count("max_new_tokens", max_new_tokens), cut("", stop)
        cutting = lambda keep: self._answer(prompts, limit, stop, lambda n, words: keep(n, cut(words, stop)))
        return _kept(cutting, on_answer)

    def score_logprobs(
        self, prompts: Prompts, answers: Sequence[str], *, on_answer: Keep | None = None, parts: Parts | None = None
    ) -> np.ndarray | None:
        """``log p(answer | prompt)``, (n, len(answers)): the sum over the answer's tokens; None where it cannot be had.

        Nothing is added after an answer: a newline or an end token counts only as part of one.
        ``on_answer(index, row)`` is called as the rows arrive. Who asks for the answers one by one takes those that are
        in ``parts``, by the indices of prompt and answer, and puts the others there as they arrive.
        """
        if isinstance(answers, str) or not answers or not all(isinstance(answer, str) and answer for answer in answers):
            raise ValueError(f"answers must be a sequence of at least one non-empty text, got {answers!r:.200}")
        _check(prompts)
        rows = _kept(lambda keep: self._score(prompts, answers, keep, {} if parts is None else parts), on_answer)
        return np.array(rows).reshape(len(prompts), len(answers)) if len(rows) == len(prompts) else None

    @abstractmethod
    def _answer(self, asked: list, limit: int, stop: Sequence[str], keep: Keep) -> None:
        """Continue the texts, or answer the conversations."""

    @abstractmethod
    def _score(self, asked: list, answers: Sequence[str], keep: Keep, parts: Parts) -> None:
        """Row by row the answers' log-probabilities; nothing where they cannot be had."""


def cut(words: str, stop: Sequence[str]) -> Answer:
    """The words before the first of the stop strings, none of which may be empty."""
    if isinstance(stop, str) or not all(isinstance(end, str) and end for end in stop):
        raise ValueError(f"stop must be a sequence of non-empty texts, got {stop!r}")
    kept = words[: min((found for end in stop if (found := words.find(end)) >= 0), default=len(words))]
    return Answer(kept, "stop" if len(kept) < len(words) else getattr(words, "finish", None))


def answer_tokens(encode: Encode, prompt: str, answers: Sequence[str]) -> tuple[list[int], list[list[int]]]:
    """The tokens of a prompt, and for each answer those that follow them in prompt and answer together.

    An answer that changes the tokens of the prompt is refused: the model would not write it this way.
    """
    ids, *joined = encode([prompt, *(prompt + answer for answer in answers)])
    for answer, whole in zip(answers, joined, strict=True):
        if whole[: len(ids)] != ids or len(whole) == len(ids):
            got = f"got {answer!r} after {prompt[-20:]!r}; move spaces from one to the other"
            raise ValueError(f"answers must begin where a token begins, {got}")
    return ids, [whole[len(ids) :] for whole in joined]


def batches(prompts: Sequence, size: int) -> list[list[int]]:
    """Numbers of texts or lists of tokens, the shortest first, so that a batch needs little padding."""
    order = sorted(range(len(prompts)), key=lambda n: len(prompts[n]))
    return [order[begin : begin + size] for begin in range(0, len(order), size)]


def _kept(work: Callable[[Keep], None], on_answer: Keep | None) -> list:
    """What ``work`` keeps, in order; each is handed on as it comes."""
    results = {}

    def keep(n: int, result) -> None:
        results[n] = result
        if on_answer is not None:
            on_answer(n, result)

    work(keep)
    return [results[n] for n in sorted(results)]


def _check(asked: Sequence[Any]) -> None:
    """Refuse what is neither texts nor, where the first is none, conversations that end with the user."""
    if isinstance(asked, str):
        raise ValueError(f"prompts must be a list of texts, got one text, {asked!r:.80}")
    kind, name = (list, "conversations") if asked and isinstance(asked[0], list) else (str, "prompts")
    for n, each in enumerate(asked):
        if not each or not isinstance(each, kind):
            what = "text of at least one character" if kind is str else "list of at least one message"
            raise ValueError(f"{name}[{n}] must be a {what}, got {each!r:.80}")
        for m, message in enumerate(each if kind is list else ()):
            match message:
                case {"role": "system" | "user" | "assistant" as role, "content": str()} if len(message) == 2:
                    last = role
                case _:
                    form = "{'role': 'system' | 'user' | 'assistant', 'content': text}"
                    raise ValueError(f"{name}[{n}][{m}] must be {form}, got {message!r:.200}")
        if kind is list and last != "user":
            raise ValueError(f"{name}[{n}] must end with a message of the user, got one of the {last}")
