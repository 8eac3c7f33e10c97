"""Any model behind a server that speaks OpenAI's protocol: vLLM, llama.cpp, Ollama, or OpenAI itself."""

import json
import os
import time
import urllib.parse
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial

import numpy as np

from lsalib import _validate
from lsalib.sts import files
from lsalib.sts.models import _text as text

_OPENAI = "https://api.openai.com/v1"
_UNSUPPORTED = (400, 404, 405, 422, 501)
_MOST_STOPS = 4  # what OpenAI accepts; answers are cut here in any case


class OpenAIModel(text.LanguageModel):
    """A model of a server as a ``LanguageModel``: several requests at once, which openai makes again where that helps.

    Temperature 0 is greedy where the server adds nothing of its own: start vLLM with ``--generation-config vllm``,
    which leaves out the repetition penalty that some models come with. The first lasting failure ends the asking;
    what is under way is waited for and handed on. There is one request at first, and one more after each answer that
    came in a quarter of the time-out; after one that took half of it there are half as many, and after a time-out never
    more again: a server that answers one after the other is not asked for more than it can do in time.

    Args:
        model: its name on the server.
        base_url: the server's address, with ``/v1``; None means ``OPENAI_BASE_URL``, or OpenAI itself.
        api_key: None means ``OPENAI_API_KEY``; a server of one's own usually needs none. It is sent to the server and
            goes nowhere else.
        concurrency: the most requests at once.
        timeout: seconds that a request may take.
        max_retries: how often openai makes a request again, after longer and longer waits.

    Raises:
        ImportError: if openai is not installed.
        ValueError: if an argument is none, or OpenAI itself is asked without a key.

    Source: https://platform.openai.com/docs/api-reference.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        concurrency: int = 8,
        timeout: float = 120.0,
        max_retries: int = 2,
    ):
        with files.needed("servers are asked by openai"):
            import openai
        self._openai, self._model = openai, model
        self._most, self._at_once = _validate.count("concurrency", concurrency), 1
        self._timeout = _validate.number("timeout", timeout, above=0.0)
        address = base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI
        self._server = _public(address)
        self._key = api_key or os.environ.get("OPENAI_API_KEY") or ""
        if not self._key and address == _OPENAI:
            hint = "set OPENAI_API_KEY, or base_url for a server of your own"
            raise ValueError(f"api_key must be given for OpenAI itself, got none; {hint}")
        key, retries = self._key or "none", int(_validate.number("max_retries", max_retries, minimum=0.0))
        self._client = openai.OpenAI(base_url=address, api_key=key, timeout=self._timeout, max_retries=retries)
        self._failures = (openai.OpenAIError, json.JSONDecodeError, _Malformed)
        self._echoes: bool | None = None
        self.name = f"openai:{model}"
        self.version = {"openai": openai.__version__, "server": self._server, "model": model}

    def _answer(self, asked, limit, stop, keep) -> None:
        stops = {"stop": list(stop)[:_MOST_STOPS]} if stop else {}

        def ask(prompt: str | text.Conversation) -> text.Answer:
            if isinstance(prompt, str):
                choice = self._choice(self._client.completions, prompt=prompt, max_tokens=limit, **stops)
                return text.Answer(choice.text or "", choice.finish_reason)
            choice = self._choice(self._client.chat.completions, messages=prompt, max_tokens=limit, **stops)
            return text.Answer(choice.message.content or "", choice.finish_reason)

        self._ask(ask, dict(enumerate(asked)), keep)

    def _score(self, asked, answers, keep, parts) -> None:
        """Nothing for conversations, and where the server cannot echo a prompt with its log-probabilities."""
        for n, prompt in enumerate(asked):
            if not isinstance(prompt, str) or not self._can_echo(prompt, answers[0]):
                return
            missing = {a: answer for a, answer in enumerate(answers) if (n, a) not in parts}
            self._ask(partial(self._echo, prompt), missing, lambda a, value, n=n: parts.__setitem__((n, a), value))
            keep(n, np.array([parts[n, a] for a in range(len(answers))]))

    def _choice(self, kind, **request):
        """The one choice of a response."""
        response = kind.create(model=self._model, temperature=0, **request)
        choices = getattr(response, "choices", None)
        if not choices or not any(getattr(choices[0], part, None) is not None for part in ("text", "message")):
            raise _Malformed(f"no choices in {str(response)[:200]!r}")
        return choices[0]

    def _echo(self, prompt: str, answer: str) -> float:
        """The answer's log-probability, from a completion that echoes prompt and answer.

        An answer is refused if no token begins where it begins, or none ends where it ends.
        """
        whole = prompt + answer
        choice = self._choice(self._client.completions, prompt=whole, max_tokens=1, echo=True, logprobs=1)
        told = choice.logprobs
        if not (choice.text or "").startswith(whole) or not told or not told.tokens or not told.token_logprobs:
            raise _Malformed("a prompt without its log-probabilities, though they came before")
        begins = np.cumsum([0] + [len(token) for token in told.tokens])
        edges = [np.flatnonzero(begins == length) for length in (len(prompt), len(whole))]
        if not all(len(edge) for edge in edges) or "".join(told.tokens[edges[0][0] : edges[1][0]]) != answer:
            got = f"got {answer!r} after {prompt[-20:]!r}; move spaces from one to the other"
            raise ValueError(f"answers must begin and end where a token does, {got}")
        return float(sum(told.token_logprobs[edges[0][0] : edges[1][0]]))

    def _can_echo(self, prompt: str, answer: str) -> bool:
        """Whether it can is asked once."""
        if self._echoes is None:
            try:
                self._echo(prompt, answer)
                self._echoes = self._means_its_echo(prompt)
            except self._failures as error:
                if getattr(error, "status_code", None) not in _UNSUPPORTED and not isinstance(error, _Malformed):
                    raise self._explained(error) from None
                self._echoes = False
        return self._echoes

    def _means_its_echo(self, prompt: str) -> bool:
        """Whether the next token, echoed, is as likely as when it was written: some servers slip by a token."""
        written = self._choice(self._client.completions, prompt=prompt, max_tokens=1, logprobs=1)
        if not written.text or not written.logprobs or not written.logprobs.token_logprobs:
            return True
        try:
            off = abs(self._echo(prompt, written.text) - written.logprobs.token_logprobs[0])
        except ValueError:  # read again, the words are other tokens
            return True
        if off > 0.5:
            said = f"echoes log-probabilities that are not its tokens' own, off by {off:.1f}"
            warnings.warn(f"the server at {self._server} {said}; written answers alone are kept", stacklevel=2)
        return off <= 0.5

    def _ask(self, ask: Callable, items: Mapping, keep: Callable) -> None:
        """All items, several at once; answers are handed on as they come, and whatever fails, those under way count."""
        waiting = deque(items)
        running: dict[Future, tuple[int, float, int]] = {}
        with ThreadPoolExecutor(self._most) as pool:
            try:
                while waiting or running:
                    while waiting and len(running) < self._at_once:
                        n = waiting.popleft()
                        running[pool.submit(ask, items[n])] = n, time.monotonic(), self._at_once
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        n, begun, crowd = running.pop(future)
                        if crowd > 1 and isinstance(future.exception(), self._openai.APITimeoutError):
                            self._most = self._at_once = max(1, min(self._at_once, crowd // 2))
                            waiting.append(n)
                        else:
                            keep(n, future.result())
                            spent = (time.monotonic() - begun) / self._timeout
                            if spent > 1 / 2:
                                self._at_once = max(1, self._at_once // 2)
                            elif spent < 1 / 4:
                                self._at_once = min(self._most, self._at_once + 1)
            except BaseException as error:
                for future in wait(running).done:
                    if future.exception() is None:
                        keep(running[future][0], future.result())
                if isinstance(error, self._failures):
                    raise self._explained(error) from None
                raise

    def _explained(self, error: BaseException) -> Exception:
        """The same failure in words that say what to change, and without the key."""
        openai, place = self._openai, f"the server at {self._server}"
        hidden = lambda said: str(said).replace(self._key, "…") if self._key else str(said)
        if isinstance(error, openai.APITimeoutError):
            hint = "give it more time, or lower concurrency"
            return TimeoutError(f"{place} did not answer within timeout={self._timeout:g} s; {hint}")
        if isinstance(error, openai.APIConnectionError):
            hint = "start it, or change base_url or OPENAI_BASE_URL"
            return ConnectionError(f"{place} cannot be reached ({hidden(error.__cause__)}); {hint}")
        if isinstance(error, openai.APIStatusError):
            said = f"{place} answered {error.status_code} for model {self._model!r}: {hidden(error.message)}"
            if error.status_code in (401, 403):
                return PermissionError(f"{said}; set api_key or OPENAI_API_KEY")
            temporary = error.status_code in (408, 409, 429) or error.status_code >= 500
            return OSError(f"{said}; try again later") if temporary else ValueError(said)
        return OSError(f"{place} sent what is no answer ({hidden(error)}); look at its log")


def _public(address: str) -> str:
    """A server's address without a user's name, password or query, so that it can be stored."""
    try:
        parts = urllib.parse.urlsplit(address)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise ValueError("base_url must be an address such as http://localhost:8000/v1, with http(s):// and a host")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class _Malformed(Exception):
    """A response with the status of success that does not hold what was asked for."""
