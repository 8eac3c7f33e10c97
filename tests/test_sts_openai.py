"""Asking a server, and what happens when it fails: nothing that was answered is lost, or asked twice."""

import os
import socket
import traceback

import numpy as np
import pytest
import sts_server
from sts_server import serving

from lsalib.sts.models import LanguageModel, open_model

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
def _no_settings(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def waits():
    return []


@pytest.fixture
def ask(waits):
    """A model of a server, that notes its waits instead of waiting; closed after the test."""
    models = []

    def make(server, **options):
        models.append(open_model("openai:m", base_url=server.url, pause=waits.append, **options))
        return models[-1]

    yield make
    for model in models:
        model._client.close()


def test_answers_come_in_order_and_are_handed_on(ask, waits):
    arrived = {}
    with serving(slow=0.02) as server:
        model = ask(server, concurrency=3)
        assert model.complete(PROMPTS, max_new_tokens=9, on_answer=arrived.__setitem__) == ANSWERS
        assert isinstance(model, LanguageModel)
    assert arrived == dict(enumerate(ANSWERS))
    assert set(server.asked.values()) == {1} and len(server.asked) == len(PROMPTS)
    assert 1 < server.most <= 3
    assert waits == []
    assert all(request["temperature"] == 0 and request["max_tokens"] == 9 for request in server.requests)


def test_chat_and_stop_strings(ask):
    conversations = [
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": prompt}] for prompt in PROMPTS
    ]
    with serving() as server:
        assert ask(server).chat(conversations, max_new_tokens=5) == ANSWERS
        assert ask(server).complete(PROMPTS[:1], max_new_tokens=5, stop=["\n"]) == [ANSWERS[0].partition("\n")[0]]
        assert server.requests[0]["messages"][0] == {"role": "system", "content": "Be brief."}
        assert server.requests[-1]["stop"] == ["\n"]


@pytest.mark.parametrize("failure", [429, 500, 503, 408, "drop", "cut", "empty", "page"])
def test_a_temporary_failure_is_asked_again(ask, waits, failure):
    with serving(failures=[failure, failure]) as server:
        assert ask(server, concurrency=1).complete(PROMPTS[:3], max_new_tokens=5) == ANSWERS[:3]
    assert [server.asked[prompt] for prompt in PROMPTS[:3]] == [3, 1, 1]
    assert len(waits) == 2 and 0.25 <= waits[0] < 0.5 <= waits[1] < 1.0


def test_the_servers_own_wish_is_kept(ask, waits):
    with serving(failures=[429], retry_after=7) as server:
        assert ask(server).complete(PROMPTS[:1], max_new_tokens=5) == ANSWERS[:1]
    assert waits == [7.0]
    with serving(failures=[429], retry_after=3600) as server, pytest.raises(OSError, match="answered 429"):
        ask(server).complete(PROMPTS[:1], max_new_tokens=5)
    assert server.asked[PROMPTS[0]] == 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, ValueError), (401, PermissionError), (403, PermissionError), (404, ValueError), (422, ValueError)],
)
def test_a_lasting_refusal_is_not_asked_again(ask, waits, status, kind):
    with serving(failures=[status]) as server, pytest.raises(kind, match=f"answered {status} for model 'm': "):
        ask(server, concurrency=1).complete(PROMPTS, max_new_tokens=5)
    assert server.asked[PROMPTS[0]] == 1
    assert waits == []


@pytest.mark.parametrize(
    ("failure", "words"), [(500, "answered 500"), ("cut", "sent what is no answer"), ("drop", "cannot be reached")]
)
def test_patience_ends(ask, waits, failure, words):
    with serving(failures=[failure] * 9) as server, pytest.raises(OSError, match=words):
        ask(server, attempts=4).complete(PROMPTS[:1], max_new_tokens=5)
    assert server.asked[PROMPTS[0]] == 4
    assert len(waits) == 3


def test_a_server_that_dies_half_way_and_comes_back(ask):
    """What it had answered was handed on; the second run asks for the rest alone."""
    kept = {}
    with serving(dies_after=5, slow=0.01) as server:
        with pytest.raises(ConnectionError, match=r"5 of 12 answers had arrived"):
            ask(server, concurrency=2, attempts=2).complete(PROMPTS, max_new_tokens=5, on_answer=kept.__setitem__)
        assert kept == {n: ANSWERS[n] for n in kept} and len(kept) == 5
        server.dies_after = None
        missing = [n for n in range(len(PROMPTS)) if n not in kept]
        rest = ask(server).complete([PROMPTS[n] for n in missing], max_new_tokens=5)
    assert kept | dict(zip(missing, rest, strict=True)) == dict(enumerate(ANSWERS))
    assert server.answered == dict.fromkeys(PROMPTS, 1)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_run_keeps_what_was_under_way(ask, interruption):
    kept = {}

    def keep(n, answer):
        kept[n] = answer
        if len(kept) == 1:
            raise interruption

    with serving(slow=0.05) as server, pytest.raises(interruption):
        ask(server, concurrency=4).complete(PROMPTS, max_new_tokens=5, on_answer=keep)
    assert kept == {n: ANSWERS[n] for n in kept}
    assert len(kept) == sum(server.answered.values()) < len(PROMPTS)


def test_nobody_listens(ask, waits):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        model = open_model(
            "openai:m", base_url=f"http://127.0.0.1:{unused.getsockname()[1]}/v1", pause=waits.append, attempts=3
        )
        with pytest.raises(
            ConnectionError,
            match=r"http://127.0.0.1:\d+/v1 cannot be reached .*refused.*change base_url or OPENAI_BASE_URL",
        ):
            model.complete(PROMPTS[:1], max_new_tokens=5)
        model._client.close()
    assert len(waits) == 2


def test_too_slow(ask):
    with (
        serving(failures=["hang"] * 2) as server,
        pytest.raises(TimeoutError, match=r"did not answer within timeout=0.1 s"),
    ):
        ask(server, timeout=0.1, attempts=2).complete(PROMPTS[:1], max_new_tokens=5)
    assert server.asked[PROMPTS[0]] == 2


def test_logprobs_of_an_echoed_prompt(ask):
    answers = [" 3", " 3.5", " 4"]
    with serving() as server:
        got = ask(server).score_logprobs(PROMPTS[:2], answers)
    for prompt, row in zip(PROMPTS, got, strict=False):
        for answer, value in zip(answers, row, strict=True):
            pieces = sts_server.tokens(answer)
            expected = sum(sts_server.logprob(prompt + "".join(pieces[:k]), token) for k, token in enumerate(pieces))
            np.testing.assert_allclose(value, expected, rtol=1e-12)
    assert got.shape == (2, 3) and len(set(got.ravel())) > 2


def test_an_answer_inside_a_token_is_refused(ask):
    with (
        serving() as server,
        pytest.raises(ValueError, match="answers must begin and end where a token does, got 'x' after"),
    ):
        ask(server).score_logprobs(["Prompt"], ["x"])


@pytest.mark.parametrize(
    "options", [{"echo": False}, {"failures": [400]}, {"failures": [404]}, {"failures": [501] * 9}]
)
def test_no_logprobs_where_a_server_has_none(ask, options):
    with serving(**options) as server:
        model = ask(server)
        assert model.score_logprobs(PROMPTS[:2], [" 3"]) is None
        asked = sum(server.asked.values())
        assert model.score_logprobs(PROMPTS[:2], [" 3"]) is None
        assert sum(server.asked.values()) == asked
        assert model.score_logprobs([[{"role": "user", "content": "Hello"}]], ["3"]) is None


def test_a_key_is_sent_and_never_shown(ask):
    """The server of these tests even repeats it in its refusals."""
    with serving(failures=[401]) as server:
        model = ask(server, api_key=KEY)
        with pytest.raises(PermissionError) as caught:
            model.complete(PROMPTS[:1], max_new_tokens=5)
        model.complete(PROMPTS[:1], max_new_tokens=5)
    assert server.keys == {f"Bearer {KEY}"}
    shown = "".join(traceback.format_exception(caught.value)) + repr(model) + str(model.version) + model.name
    assert KEY not in shown
    assert "refused, Bearer …" in shown  # control: the words of the refusal are there, the key was in them


def test_settings_of_the_environment(monkeypatch, ask):
    with pytest.raises(ValueError, match=r"api_key must be given for OpenAI itself.*OPENAI_API_KEY"):
        open_model("openai:m")
    with serving() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        model = open_model("openai:m")
        assert model.complete(PROMPTS[:1], max_new_tokens=5) == ANSWERS[:1]
        model._client.close()
    assert model.version["server"] == server.url


@pytest.mark.parametrize("address", ["localhost:8000", "ftp://a/v1", "http://", "http://a:port/v1"])
def test_an_address_that_is_none(address):
    with pytest.raises(ValueError, match="base_url must be an address such as http://localhost:8000/v1"):
        open_model("openai:m", base_url=address)


@pytest.mark.parametrize("option", [{"concurrency": 0}, {"attempts": 0}, {"timeout": 0}, {"timeout": float("nan")}])
def test_options_that_are_none(option, unchecked):
    with pytest.raises(ValueError, match=f"{next(iter(option))} must be"):
        open_model("openai:m", base_url="http://localhost/v1", **option)
