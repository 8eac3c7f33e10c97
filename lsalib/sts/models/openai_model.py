"""Any model behind a server that speaks OpenAI's protocol: vLLM, llama.cpp, Ollama, or OpenAI itself."""

import json
import os
import random
import threading
import urllib.parse
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed

import numpy as np
from jaxtyping import Float

from lsalib import _validate
from lsalib.sts.models import retry, text

__all__ = ["OpenAIModel"]

_OPENAI = "https://api.openai.com/v1"
_UNSUPPORTED = (400, 404, 405, 422, 501)
_MOST_STOPS = 4  # what OpenAI accepts; answers are cut here in any case


class OpenAIModel:
    """A model of a server as a ``LanguageModel``: several requests at once, made again when a failure can be temporary.

    Temperature 0 is greedy where the server adds nothing of its own: start vLLM with ``--generation-config vllm``,
    which leaves out the repetition penalty that some models come with.

    Args:
        model: its name on the server.
        base_url: the server's address, with ``/v1``; None means ``OPENAI_BASE_URL``, or OpenAI itself.
        api_key: None means ``OPENAI_API_KEY``; a server of one's own usually needs none. It is sent to the server and goes nowhere else.
        concurrency: the most requests at once.
        timeout: seconds that a request may take.
        attempts: the most requests for one answer.
        pause: what waits between attempts, for tests; None means to wait.

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
        attempts: int = 6,
        pause: Callable[[float], bool | None] | None = None,
    ):
        try:
            import openai
        except ImportError as error:
            raise ImportError(f"servers are asked by openai ({error}): pip install 'lsalib[sts]'") from None
        self._concurrency = _validate.count("concurrency", concurrency)
        self._attempts = _validate.count("attempts", attempts)
        self._timeout = _validate.number("timeout", timeout, above=0.0)
        address = base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI
        self._server = public_address(address)
        self._key = api_key or os.environ.get("OPENAI_API_KEY") or ""
        if not self._key and address == _OPENAI:
            raise ValueError(
                "api_key must be given for OpenAI itself, got none; set OPENAI_API_KEY, or base_url for a server of your own"
            )
        self._openai, self._pause, self._echoes = openai, pause, None
        self._client = openai.OpenAI(
            base_url=address, api_key=self._key or "none", max_retries=0, timeout=self._timeout
        )
        self.name = f"openai:{model}"
        self._model = model
        self.version = {"openai": openai.__version__, "server": self._server, "model": model}

    def complete(
        self,
        prompts: list[str],
        *,
        max_new_tokens: int,
        stop: Sequence[str] = (),
        on_answer: Callable[[int, str], None] | None = None,
    ) -> list[str]:
        """Continue plain texts; see ``LanguageModel``. After a lasting failure what is under way still arrives, and is handed on."""
        text.check_prompts(prompts)
        text.cut("", stop)
        limits = {"max_tokens": _validate.count("max_new_tokens", max_new_tokens)}
        if stop:
            limits["stop"] = list(stop)[:_MOST_STOPS]
        ask = lambda prompt: text.cut(self._completion(prompt=prompt, **limits).text, stop)
        return self._ask_all(ask, prompts, on_answer)

    def chat(
        self,
        conversations: list[text.Conversation],
        *,
        max_new_tokens: int,
        on_answer: Callable[[int, str], None] | None = None,
    ) -> list[str]:
        """Answer conversations; see ``LanguageModel`` and ``complete``."""
        text.check_conversations(conversations)
        limit = _validate.count("max_new_tokens", max_new_tokens)
        create = self._client.chat.completions.create

        def ask(conversation: text.Conversation) -> str:
            choice = _choice(create(model=self._model, messages=conversation, max_tokens=limit, temperature=0))
            return choice.message.content or ""

        return self._ask_all(ask, conversations, on_answer)

    def score_logprobs(
        self, prompts: list[str] | list[text.Conversation], answers: Sequence[str]
    ) -> Float[np.ndarray, "n A"] | None:
        """Log-probability of each answer; see ``LanguageModel``. None for conversations, and where the server cannot echo a prompt with its log-probabilities."""
        text.check_answers(answers)
        if not prompts or not isinstance(prompts[0], str):
            return None
        text.check_prompts(prompts)
        if self._echoes is None:
            self._echoes = self._can_echo(prompts[0], answers[0])
        if not self._echoes:
            return None
        pairs = [(prompt, answer) for prompt in prompts for answer in answers]
        return np.array(self._ask_all(self._echo, pairs, None), np.float64).reshape(len(prompts), len(answers))

    def _completion(self, **request):
        return _choice(self._client.completions.create(model=self._model, temperature=0, **request))

    def _echo(self, pair: tuple[str, str]) -> float:
        prompt, answer = pair
        logprob = echoed_logprob(
            prompt, answer, self._completion(prompt=prompt + answer, max_tokens=1, echo=True, logprobs=1)
        )
        if logprob is None:
            raise _Malformed("a prompt without its log-probabilities, though they came before")
        return logprob

    def _can_echo(self, prompt: str, answer: str) -> bool:
        ask = lambda whole: self._completion(prompt=whole, max_tokens=1, echo=True, logprobs=1)
        try:
            choice = self._persist(ask, prompt + answer, threading.Event())
        except self._openai.APIStatusError as error:
            if error.status_code in _UNSUPPORTED:
                return False
            raise self._explained(error) from None
        except Exception as error:
            raise self._explained(error) from None
        return echoed_logprob(prompt, answer, choice) is not None

    def _ask_all(self, ask: Callable, items: Sequence, on_answer: Callable | None) -> list:
        """Answers in order; each is handed on as it arrives. The first lasting failure stops what has not begun."""
        answers, stopped, failures = {}, threading.Event(), []

        def take(future: Future, n: int) -> None:
            if n in answers or future.cancelled():
                return
            error = future.exception()
            if error is None:
                answers[n] = future.result()
                if on_answer is not None:
                    on_answer(n, answers[n])
            else:
                failures.append(error)
                stop()

        def stop() -> None:
            stopped.set()
            for future in places:
                future.cancel()

        with ThreadPoolExecutor(self._concurrency) as pool:
            places = {pool.submit(self._persist, ask, item, stopped): n for n, item in enumerate(items)}
            try:
                for future in as_completed(places):
                    take(future, places[future])
            except BaseException:
                stop()
                for future in as_completed(places):
                    take(future, places[future])
                raise
        if failures:
            raise self._explained(failures[0], len(answers), len(items)) from None
        return [answers[n] for n in range(len(items))]

    def _persist(self, ask: Callable, item, stopped: threading.Event):
        pause = stopped.wait if self._pause is None else self._pause
        giving_up = lambda seconds: pause(seconds) or stopped.is_set()
        return retry.persist(
            lambda: ask(item), attempts=self._attempts, temporary=self._temporary, pause=giving_up, chance=random.random
        )

    def _temporary(self, error: Exception) -> tuple[bool, float | None]:
        if isinstance(error, self._openai.APIStatusError):
            return retry.is_temporary(error.status_code), retry.retry_after(error.response.headers)
        return isinstance(error, self._openai.APIConnectionError | json.JSONDecodeError | _Malformed), None

    def _explained(self, error: Exception, answered: int = 0, of: int = 0) -> Exception:
        """The same failure in words that say what to change, and without the key."""
        openai, place = self._openai, f"the server at {self._server}"
        count = f"; {answered} of {of} answers had arrived" if of else ""
        if isinstance(error, openai.APITimeoutError):
            return TimeoutError(
                f"{place} did not answer within timeout={self._timeout:g} s; give it more time, or lower concurrency{count}"
            )
        if isinstance(error, openai.APIConnectionError):
            return ConnectionError(
                f"{place} cannot be reached ({self._hidden(error.__cause__)}); start it, or change base_url or OPENAI_BASE_URL{count}"
            )
        if isinstance(error, openai.APIStatusError):
            said = (
                f"{place} answered {error.status_code} for model {self._model!r}: {self._hidden(error.message)}{count}"
            )
            if error.status_code in (401, 403):
                return PermissionError(f"{said}; set api_key or OPENAI_API_KEY")
            return OSError(f"{said}; try again later") if retry.is_temporary(error.status_code) else ValueError(said)
        if isinstance(error, json.JSONDecodeError | _Malformed):
            return OSError(f"{place} sent what is no answer ({self._hidden(error)}); look at its log{count}")
        return error

    def _hidden(self, said: object) -> str:
        return str(said).replace(self._key, "…") if self._key else str(said)


def public_address(address: str) -> str:
    """A server's address without a user's name, password or query, so that it can be stored.

    Args:
        address: as in ``http://localhost:8000/v1``.

    Returns:
        Scheme, host, port and path.

    Raises:
        ValueError: if it is no address of a web server.

    Example:
        >>> public_address("https://me:secret@example.org:8000/v1?key=secret")
        'https://example.org:8000/v1'
    """
    try:
        parts = urllib.parse.urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or parts.scheme not in ("http", "https"):
        raise ValueError(
            "base_url must be an address such as http://localhost:8000/v1, got one without http(s):// and a host"
        )
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path}"


def echoed_logprob(prompt: str, answer: str, choice) -> float | None:
    """The answer's log-probability from a completion that echoes prompt and answer.

    Args:
        prompt: what the answer follows.
        answer: a text that begins where a token begins.
        choice: a choice of the server, with ``text`` and ``logprobs``.

    Returns:
        The sum over the answer's tokens; None where the server did not echo, or gave no log-probabilities.

    Raises:
        ValueError: if no token begins where the answer begins, or none ends where it ends.

    Example:
        >>> from types import SimpleNamespace as Record
        >>> logprobs = Record(tokens=["Score", ":", " 3", "\\n"], token_logprobs=[None, -1.0, -0.5, -2.0])
        >>> echoed_logprob("Score:", " 3", Record(text="Score: 3\\n", logprobs=logprobs))
        -0.5
    """
    told = choice.logprobs
    if not (choice.text or "").startswith(prompt + answer) or not told or not told.tokens or not told.token_logprobs:
        return None
    begins = np.cumsum([0] + [len(token) for token in told.tokens])
    edges = [np.flatnonzero(begins == length) for length in (len(prompt), len(prompt + answer))]
    if not all(len(edge) for edge in edges) or "".join(told.tokens[edges[0][0] : edges[1][0]]) != answer:
        raise ValueError(
            f"answers must begin and end where a token does, got {answer!r} after {prompt[-20:]!r}; move spaces from one to the other"
        )
    return float(sum(told.token_logprobs[edges[0][0] : edges[1][0]]))


class _Malformed(Exception):
    """A response with the status of success that is none."""


def _choice(response):
    """The one choice of a response."""
    choices = getattr(response, "choices", None)
    if not choices or not any(
        hasattr(choices[0], part) and getattr(choices[0], part) is not None for part in ("text", "message")
    ):
        raise _Malformed(f"no choices in {str(response)[:200]!r}")
    return choices[0]
