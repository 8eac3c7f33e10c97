"""Models of Hugging Face: our tiny random one with its weights as theirs, against plain NumPy."""

import warnings

import numpy as np
import pytest
import sts_models_reference as reference
from sts_models_reference import TINY, tiny

from lsalib.sts.models import open_model, smollm2

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch, transformers = (
        pytest.importorskip(name, reason=f"models of Hugging Face are not tested: {name} is not installed")
        for name in ("torch", "transformers")
    )

# What these packages warn of among themselves is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")

TOKENS = ["<end>", "<pad>", *"abcdefgh0123456789.:", "ab"]
PARAMS = tiny(3)
PROMPTS = ["abc:", "a0123456789.a0123456789.bcd:", "h:"]
TALKS = [[{"role": "user", "content": prompt[:-1]}] for prompt in PROMPTS]
NAMES = {part: f"self_attn.{part}_proj" for part in "qkvo"} | {
    part: f"mlp.{part}_proj" for part in ("gate", "up", "down")
}
NAMES |= {"attn_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"}


def theirs():
    """Our weights by their names, with their order of the rows of W_q and W_k."""
    weights = {"model.embed_tokens": PARAMS.embedding, "lm_head": PARAMS.embedding, "model.norm": PARAMS.norm}
    for ours, name in NAMES.items():
        for i, leaf in enumerate(np.asarray(getattr(PARAMS.layers, ours))):
            heads = {"q": TINY.heads, "k": TINY.kv_heads}.get(ours)
            weights[f"model.layers.{i}.{name}"] = reference.halves(leaf, heads) if heads else leaf
    return {f"{name}.weight": torch.tensor(np.array(leaf)) for name, leaf in weights.items()}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Saved with generation settings that would spoil greedy decoding, and opened."""
    folder = tmp_path_factory.mktemp("tiny")
    names = "hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads vocab_size".split()
    shape = dict(zip(names, (TINY.dim, TINY.hidden, TINY.layers, TINY.heads, TINY.kv_heads, TINY.vocab), strict=True))
    rules = {"rms_norm_eps": TINY.norm_eps, "bos_token_id": None, "tie_word_embeddings": True}
    network = transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape, **rules, eos_token_id=0, pad_token_id=1))
    network.load_state_dict(theirs())
    spoilt = {"do_sample": True, "temperature": 2.0, "repetition_penalty": 9.0, "eos_token_id": 0, "pad_token_id": 1}
    network.generation_config = transformers.GenerationConfig(**spoilt)
    network.save_pretrained(folder)
    tokenizer = smollm2.byte_pairs(TOKENS, ["a b"], TOKENS[:2])
    saved = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<pad>")
    saved.chat_template = "{% for m in messages %}{{ m['content'] }}:{% endfor %}"
    saved.save_pretrained(folder)
    return open_model(f"hf:{folder}", batch_size=2, device="cpu")


def encode(model, words):
    return model._tokenizer(words).input_ids


def test_greedy_whatever_the_model_came_with(model):
    """In batches padded on the left, in order, with the end token as the end."""
    expected, arrived = [], {}
    for prompt in PROMPTS:
        new = [TOKENS[token] for token in reference.greedy(PARAMS, TINY, encode(model, prompt), 12)]
        expected.append("".join(new).partition("<end>")[0].replace("<pad>", ""))
    assert model.complete(PROMPTS, max_new_tokens=12, on_answer=arrived.__setitem__) == expected
    assert arrived == dict(enumerate(expected))
    ends = [0 in reference.greedy(PARAMS, TINY, encode(model, prompt), 12) for prompt in PROMPTS]
    assert [arrived[n].finish for n in range(3)] == ["stop" if end else "length" for end in ends]
    stop = next(answer for answer in expected if len(answer) > 3)[2]
    assert model.complete(PROMPTS, max_new_tokens=12, stop=[stop]) == [answer.partition(stop)[0] for answer in expected]
    assert model.complete(TALKS, max_new_tokens=12) == expected
    # Control: the settings that it came with give other answers.
    spoilt = transformers.GenerationConfig(do_sample=False, repetition_penalty=9.0, eos_token_id=0, pad_token_id=1)
    own, model._model.generation_config = model._model.generation_config, spoilt
    assert model.complete(PROMPTS, max_new_tokens=12) != expected
    model._model.generation_config = own


def test_logprobs_of_answers(model):
    """Shared beginnings, against a pass of plain NumPy for each answer; single tokens alone; conversations."""
    for answers in (["3.2", "3", "3.4", "ab", "0"], ["3", "ab"]):
        ids = [encode(model, answer) for answer in answers]
        expected = [reference.logprobs(PARAMS, TINY, encode(model, prompt), ids) for prompt in PROMPTS]
        for asked in (PROMPTS, TALKS):
            np.testing.assert_allclose(model.score_logprobs(asked, answers), expected, atol=1e-4)
    with pytest.raises(ValueError, match="answers must begin where a token begins, got 'b' after 'ca'"):
        model.score_logprobs(["ca"], ["b"])


def test_a_model_says_what_it_is_and_is_missed(model, tmp_path):
    assert model.name.startswith("hf:") and model.version["transformers"] == transformers.__version__
    assert model.version["device"] == "cpu" and model.version["weights"] == "torch.float32"
    with pytest.raises(OSError, match="model must be a causal language model that can be loaded, got"):
        open_model(f"hf:{tmp_path}/nothing")
