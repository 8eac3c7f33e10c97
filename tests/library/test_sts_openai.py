"""Asking a server, and what happens when it fails: nothing that was answered is lost, or asked twice."""

import os
import socket
import threading
import time
import traceback
from types import SimpleNamespace

import numpy as np
import pytest
import sts_server
from refusals import refusals
from sts_server import serving

from lsalib.sts.models import open_model

try:
    import openai  # noqa: F401
except ImportError:
    if os.environ.get("CI") == "true":
        raise
    pytest.skip("the client for servers is not installed: pip install 'lsalib[sts]'", allow_module_level=True)

PROMPTS = [f"Prompt number {'x' * n}:" for n in range(12)]
ANSWERS = [sts_server.answer(prompt) for prompt in PROMPTS]
KEY = "sk-very-secret"


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """What openai waits, without waiting; and no settings from outside."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    waited = []
    monkeypatch.setattr("openai._base_client.time", SimpleNamespace(sleep=waited.append, time=time.time))
    return waited


@pytest.fixture
def ask():
    """A model of a server, closed after the test."""
    models = []

    def make(server=None, **options):
        models.append(open_model("openai:m", base_url=getattr(server, "url", server), **options))
        return models[-1]

    yield make
    for model in models:
        model._client.close()


def complete(model, prompts=PROMPTS, on_answer=None, **options):
    return model.complete(prompts, max_new_tokens=5, on_answer=on_answer, **options)


def test_answers_come_in_order_and_are_handed_on(ask, waits):
    """One request at first, one more after each answer, up to the limit: twelve go by in waves of 1, 2, 3, 3, 3."""
    arrived = {}
    with serving(pause=lambda: time.sleep(0.2)) as server:
        assert complete(ask(server, concurrency=3), on_answer=arrived.__setitem__) == ANSWERS
    assert arrived == dict(enumerate(ANSWERS)) and waits == []
    assert server.asked == dict.fromkeys(PROMPTS, 1) and server.most == 3
    assert all(request["temperature"] == 0 and request["max_tokens"] == 5 for request in server.requests)


def test_chat_and_stop_strings(ask):
    system, stops = {"role": "system", "content": "Be brief."}, ["\n", *"vwxyz"]
    with serving() as server:
        conversations = [[system, {"role": "user", "content": prompt}] for prompt in PROMPTS]
        assert ask(server).complete(conversations, max_new_tokens=5) == ANSWERS
        for prompts in (PROMPTS[:1], conversations[:1]):
            assert complete(ask(server), prompts, stop=stops) == [ANSWERS[0].partition("\n")[0]]
    chat, *stopped = server.requests[0], *server.requests[-2:]
    assert chat["messages"][0] == system and (chat["temperature"], chat["max_tokens"]) == (0, 5)
    assert "stop" not in chat and [request["stop"] for request in stopped] == [stops[:4]] * 2


@pytest.mark.parametrize("failure", [409, 429, 503, "drop"])
def test_a_temporary_failure_is_asked_again(ask, waits, failure):
    with serving(failures=[failure, failure]) as server:
        assert complete(ask(server, concurrency=1), PROMPTS[:3]) == ANSWERS[:3]
    assert [server.asked[prompt] for prompt in PROMPTS[:3]] == [3, 1, 1]
    assert waits == [7, 7] if failure == 429 else len(waits) == 2


@pytest.mark.parametrize(
    ("failure", "kind", "words"),
    [
        (400, ValueError, "answered 400 for model 'm': "),
        (401, PermissionError, "answered 401 .*set api_key or OPENAI_API_KEY"),
        ("cut", OSError, "sent what is no answer"),
        ("page", OSError, "sent what is no answer .*a proxy.*; look at its log"),
    ],
)
def test_a_lasting_failure_is_not_asked_again(ask, waits, failure, kind, words):
    """What came before it is kept; the next question may have begun."""
    kept = {}
    with serving(failures=[None, None, failure]) as server, pytest.raises(kind, match=words):
        complete(ask(server, concurrency=1), on_answer=kept.__setitem__)
    assert server.asked[PROMPTS[2]] == 1 and waits == []
    assert kept == {n: ANSWERS[n] for n in kept} and {0, 1} <= set(kept) <= {0, 1, 3}


PATIENCE = [
    (409, 9.0, OSError, "answered 409 .*try again later"),
    (500, 9.0, OSError, "answered 500 .*try again later"),
    ("drop", 9.0, ConnectionError, "cannot be reached"),
    ("hang", 0.1, TimeoutError, r"did not answer within timeout=0\.1 s"),
]


@pytest.mark.parametrize(("failure", "timeout", "kind", "words"), PATIENCE)
def test_patience_ends(ask, waits, failure, timeout, kind, words):
    with serving(failures=[failure] * 9) as server, pytest.raises(kind, match=words):
        complete(ask(server, max_retries=3, timeout=timeout), PROMPTS[:1])
    assert len(waits) == 3
    # Who gives up need not wait until the server has read.
    assert server.asked[PROMPTS[0]] == 4 or failure == "hang"


def test_fewer_requests_at_once_when_answers_take_too_long(ask):
    """A server that forgets what it is asked while it answers another."""
    with serving(at_once=1, pause=lambda: time.sleep(0.1)) as server:
        model = ask(server, concurrency=4, timeout=2.0, max_retries=0)
        assert complete(model, PROMPTS[:6]) == ANSWERS[:6]
    assert +server.answered == dict.fromkeys(PROMPTS[:6], 1)
    assert server.most > 1 and model._most < 4


def test_a_slow_server_is_not_asked_for_more_than_it_does_in_time(ask):
    """One that answers one after the other, in an eighth of the time-out: all at once would be too late."""
    one_by_one = threading.Lock()

    def pause():
        with one_by_one:
            time.sleep(0.25)

    with serving(pause=pause) as server:
        assert complete(ask(server, concurrency=12, timeout=2.0, max_retries=0)) == ANSWERS
    assert server.asked == dict.fromkeys(PROMPTS, 1) and 1 < server.most < 6


def test_a_server_that_dies_half_way(ask):
    """What it had answered was handed on, so that a second run needs to ask for the rest alone."""
    kept = {}
    with serving(dies_after=5, pause=lambda: time.sleep(0.01)) as server:
        with pytest.raises(ConnectionError, match="cannot be reached"):
            complete(ask(server, concurrency=2, max_retries=1), on_answer=kept.__setitem__)
    assert kept == {n: ANSWERS[n] for n in kept} and len(kept) == server.answered.total() == 5


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_run_keeps_what_was_under_way(ask, interruption):
    kept = {}

    def keep(n, answer):
        assert n not in kept
        kept[n] = answer
        if len(kept) == 1:
            raise interruption

    with serving(pause=lambda: time.sleep(0.05)) as server, pytest.raises(interruption):
        complete(ask(server, concurrency=4), on_answer=keep)
    assert kept == {n: ANSWERS[n] for n in kept}
    assert len(kept) == server.answered.total() < len(PROMPTS)


def test_nobody_listens(ask):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        with pytest.raises(ConnectionError, match=rf"{url} cannot be reached .*refused.*base_url or OPENAI_BASE_URL"):
            complete(ask(url))


def test_logprobs_of_an_echoed_prompt(ask):
    """Row by row; what arrived before a failure was handed on."""
    answers, kept = [" 3", " 3.5", " 4"], {}
    with serving() as server:
        got = ask(server).score_logprobs(PROMPTS[:2], answers)
        server.failures = [None] * 6 + [400]
        with pytest.raises(ValueError, match="answered 400"):
            ask(server, concurrency=1).score_logprobs(PROMPTS[:2], answers, on_answer=kept.__setitem__)
        with pytest.raises(ValueError, match="answers must begin and end where a token does, got 'x' after"):
            ask(server).score_logprobs(["Prompt"], ["x"])

    def by_hand(prompt, answer):
        pieces = sts_server.tokens(answer)
        return sum(sts_server.logprob(prompt + "".join(pieces[:k]), token) for k, token in enumerate(pieces))

    expected = [[by_hand(prompt, answer) for answer in answers] for prompt in PROMPTS[:2]]
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    np.testing.assert_allclose([kept.pop(0)], expected[:1], rtol=1e-12)
    assert kept == {} and len(set(got.ravel())) > 2


@pytest.mark.parametrize(
    "options", [{"echo": False}, {"failures": [400]}, {"failures": ["empty"]}, {"failures": [501] * 9}]
)
def test_no_logprobs_where_a_server_has_none(ask, options):
    with serving(**options) as server:
        model = ask(server)
        assert model.score_logprobs(PROMPTS[:2], [" 3"]) is None
        asked = server.asked.total()
        assert model.score_logprobs(PROMPTS[:2], [" 3"]) is None and server.asked.total() == asked
        assert ask(server).score_logprobs([[{"role": "user", "content": "Hello"}]], ["3"]) is None


def test_logprobs_of_the_tokens_beside_are_refused(ask):
    """As from a server that reads each echoed token's log-probability one row too late."""
    with serving(slip=True) as server:
        model = ask(server)
        with pytest.warns(UserWarning, match="log-probabilities that are not its tokens' own, off by 3.0; written"):
            assert model.score_logprobs(PROMPTS[:2], [" 3"]) is None
        assert model.score_logprobs(PROMPTS[:2], [" 3"]) is None and server.asked.total() == 3


def test_a_key_is_sent_and_never_shown(ask):
    """The server of these tests even repeats it in its refusals."""
    with serving() as server:
        model = ask(server, api_key=KEY)
        shown = repr(model) + str(model.version) + model.name
        for question in (lambda: complete(model), lambda: model.score_logprobs(PROMPTS[:1], [" 3"])):
            server.failures = [401] * 9
            with pytest.raises(PermissionError) as caught:
                question()
            shown += "".join(traceback.format_exception(caught.value))
    assert server.keys == {f"Bearer {KEY}"} and KEY not in shown
    assert shown.count("refused, Bearer …") == 2  # control: the words of the refusal are there, the key was in them


def test_settings_of_the_environment(monkeypatch, ask):
    with serving() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert complete(ask(), PROMPTS[:1]) == ANSWERS[:1] and ask().version["server"] == server.url
    private = ask("https://me:secret@example.org:8000/v1?key=secret")
    assert private.version["server"] == "https://example.org:8000/v1"


model_at = lambda address="http://localhost/v1", **options: open_model("openai:m", base_url=address, **options)
an_address = "base_url must be an address such as http://localhost:8000/v1"
test_bad_options_are_refused = refusals(
    (lambda: open_model("openai:m"), "api_key must be given for OpenAI itself.*OPENAI_API_KEY"),
    *((lambda url=url: model_at(url), an_address) for url in ("localhost:8000", "ftp://a/v1", "http://", "http://a:b")),
    (lambda: model_at(concurrency=0), "concurrency must be"),
    (lambda: model_at(max_retries=-1), "max_retries must be"),
    (lambda: model_at(timeout=float("nan")), "timeout must be"),
)
