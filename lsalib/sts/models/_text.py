"""What all models share: how they are asked, what they refuse to be asked, and where an answer ends."""

from abc import ABC, abstractmethod
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import numpy as np

from lsalib import _validate

Conversation = list[dict[str, str]]
Keep = Callable[[int, Any], None]  # takes an index and what was found for it
Parts = MutableMapping[tuple[int, int], float]

_ROLES = ("system", "user", "assistant")


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
        self, prompts: list[str], *, max_new_tokens: int, stop: Sequence[str] = (), on_answer: Keep | None = None
    ) -> list[str]:
        """Continue each text, up to the end token, a stop string (not part of the answer) or the limit.

        An answer is a string that says in its attribute ``finish`` why it ends: "stop", "length", or as a server says.
        ``on_answer(index, text)`` is called in the calling thread as answers arrive, so that they can be stored.
        """
        _check(prompts, talks=False)
        return self._answers(prompts, max_new_tokens, stop, on_answer)

    def chat(
        self, conversations: list[Conversation], *, max_new_tokens: int, on_answer: Keep | None = None
    ) -> list[str]:
        """Answer each conversation, a list of ``{"role": …, "content": …}``, by the model's own template."""
        _check(conversations, talks=True)
        return self._answers(conversations, max_new_tokens, (), on_answer)

    def score_logprobs(
        self,
        prompts: list[str] | list[Conversation],
        answers: Sequence[str],
        *,
        on_answer: Keep | None = None,
        parts: Parts | None = None,
    ) -> np.ndarray | None:
        """``log p(answer | prompt)``, (n, len(answers)): the sum over the answer's tokens; None where it cannot be had.

        Nothing is added after an answer: a newline or an end token counts only as part of one.
        ``on_answer(index, row)`` is called as the rows arrive. Who asks for the answers one by one takes those that are
        in ``parts``, by the indices of prompt and answer, and puts the others there as they arrive.
        """
        if isinstance(answers, str) or not answers or not all(isinstance(answer, str) and answer for answer in answers):
            raise ValueError(f"answers must be a sequence of at least one non-empty text, got {answers!r:.200}")
        _check(prompts, talks=bool(prompts) and not isinstance(prompts[0], str))
        rows = _kept(lambda keep: self._score(prompts, answers, keep, {} if parts is None else parts), on_answer)
        return np.array(rows).reshape(len(prompts), len(answers)) if len(rows) == len(prompts) else None

    def _answers(self, asked, max_new_tokens, stop, on_answer) -> list[str]:
        limit, _ = _validate.count("max_new_tokens", max_new_tokens), cut("", stop)
        cutting = lambda keep: self._answer(asked, limit, stop, lambda n, words: keep(n, _ended(words, stop)))
        return _kept(cutting, on_answer)

    @abstractmethod
    def _answer(self, asked: list, limit: int, stop: Sequence[str], keep: Keep) -> None:
        """Continue the texts, or answer the conversations."""

    @abstractmethod
    def _score(self, asked: list, answers: Sequence[str], keep: Keep, parts: Parts) -> None:
        """Row by row the answers' log-probabilities; nothing where they cannot be had."""


def cut(text: str, stop: Sequence[str]) -> str:
    """The text before the first of the stop strings, none of which may be empty."""
    if isinstance(stop, str) or not all(isinstance(end, str) and end for end in stop):
        raise ValueError(f"stop must be a sequence of non-empty texts, got {stop!r}")
    return text[: min((found for end in stop if (found := text.find(end)) >= 0), default=len(text))]


def _ended(words: str, stop: Sequence[str]) -> Answer:
    kept = cut(words, stop)
    return Answer(kept, "stop" if len(kept) < len(words) else getattr(words, "finish", None))


def answer_tokens(
    encode: Callable[[list[str]], list[list[int]]], prompt: str, answers: Sequence[str]
) -> tuple[list[int], list[list[int]]]:
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


def _check(asked: Sequence[Any], talks: bool) -> None:
    """Refuse what is neither texts nor, where these are asked for, conversations that end with the user."""
    if isinstance(asked, str):
        raise ValueError(f"prompts must be a list of texts, got one text, {asked!r:.80}")
    name = "conversations" if talks else "prompts"
    for n, each in enumerate(asked):
        if not each or not isinstance(each, list if talks else str):
            kind = "list of at least one message" if talks else "text of at least one character"
            raise ValueError(f"{name}[{n}] must be a {kind}, got {each!r:.80}")
        messages: Sequence[Any] = each if talks else ()
        for m, message in enumerate(messages):
            fits = isinstance(message, dict) and set(message) == {"role", "content"}
            if not fits or message["role"] not in _ROLES or not isinstance(message["content"], str):
                form = "{'role': 'system' | 'user' | 'assistant', 'content': text}"
                raise ValueError(f"{name}[{n}][{m}] must be {form}, got {message!r:.200}")
        if talks and (role := messages[-1]["role"]) != "user":
            raise ValueError(f"{name}[{n}] must end with a message of the user, got one of the {role}")
