"""Models of Hugging Face: a tiny random one, through transformers, against our own forward pass with its weights."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import sts_models_reference as reference

from lsalib.sts.models import LanguageModel, llama, open_model, smollm2

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch, transformers = (
        pytest.importorskip(name, reason=f"models of Hugging Face are not tested: {name} is not installed")
        for name in ("torch", "transformers")
    )

# What these packages warn of among themselves is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")

TOKENS = ["<end>", "<pad>", *"abcdefghij0123456789.:", "ab"]
CONFIG = reference.TINY._replace(vocab=len(TOKENS))
TEMPLATE = "{% for m in messages %}{{ m['content'] }}:{% endfor %}"
PROMPTS = ["abc:", "a0123456789.a0123456789.bcd:", "j:"]
ANSWERS = ["3.2", "3", "3.4", "ab", "0"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved model with random weights, and generation settings that would spoil greedy decoding."""
    folder = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    c, names = CONFIG, "hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads".split()
    shape = dict(zip(names, (c.dim, c.hidden, c.layers, c.heads, c.kv_heads), strict=True))
    rules = {"vocab_size": c.vocab, "rms_norm_eps": c.norm_eps, "max_position_embeddings": c.context}
    ends = {"bos_token_id": None, "eos_token_id": 0, "pad_token_id": 1}
    config = transformers.LlamaConfig(**shape, **rules, **ends, tie_word_embeddings=True, initializer_range=0.3)
    network = transformers.LlamaForCausalLM(config)
    network.generation_config = transformers.GenerationConfig(
        do_sample=True, temperature=2.0, repetition_penalty=9.0, eos_token_id=0, pad_token_id=1
    )
    network.save_pretrained(folder)
    tokenizer = smollm2.byte_pairs(TOKENS, ["a b"], TOKENS[:2])
    saved = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<pad>")
    saved.chat_template = TEMPLATE
    saved.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return open_model(f"hf:{folder}", batch_size=2, device="cpu")


@pytest.fixture(scope="module")
def params(model):
    """Its weights in our layout: rows of W_q and W_k with the pairs side by side."""
    state = {name: np.array(leaf) for name, leaf in model._model.state_dict().items()}
    names = {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj"}
    names |= {"gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj"}
    names |= {"attn_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"}
    of_layers = lambda name: np.stack([state[f"model.layers.{i}.{name}.weight"] for i in range(CONFIG.layers)])
    stack = {ours: of_layers(theirs) for ours, theirs in names.items()}
    for name, heads in (("q", CONFIG.heads), ("k", CONFIG.kv_heads)):
        L, rows, columns = stack[name].shape
        halves = stack[name].reshape(L, heads, 2, rows // heads // 2, columns)
        stack[name] = halves.swapaxes(2, 3).reshape(L, rows, columns)
    layers = llama.Layer(**{name: jnp.asarray(leaf) for name, leaf in stack.items()})
    embedding, norm = (jnp.asarray(state[f"model.{name}.weight"]) for name in ("embed_tokens", "norm"))
    return llama.Params(embedding, layers, norm)


def encode(model, words):
    return model._tokenizer(words).input_ids


def test_their_logits_are_ours(model, params):
    for prompt in PROMPTS:
        ids = encode(model, prompt)
        with torch.inference_mode():
            theirs = model._model(torch.tensor([ids])).logits[0].numpy()
        np.testing.assert_allclose(theirs, reference.ours(params, CONFIG, ids), atol=1e-4)


def test_greedy_whatever_the_model_came_with(model, params):
    """In batches padded on the left, in order, with the end token as the end."""
    expected, arrived = [], {}
    for prompt in PROMPTS:
        new = [TOKENS[token] for token in reference.greedy(params, CONFIG, encode(model, prompt), 12)]
        expected.append("".join(new).partition("<end>")[0].replace("<pad>", ""))
    assert model.complete(PROMPTS, max_new_tokens=12, on_answer=arrived.__setitem__) == expected
    assert arrived == dict(enumerate(expected))
    assert [model.complete([prompt], max_new_tokens=12)[0] for prompt in PROMPTS] == expected
    stop = next(answer for answer in expected if len(answer) > 3)[2]
    assert model.complete(PROMPTS, max_new_tokens=12, stop=[stop]) == [answer.partition(stop)[0] for answer in expected]
    assert model.chat([[{"role": "user", "content": prompt[:-1]}] for prompt in PROMPTS], max_new_tokens=12) == expected
    # Control: the settings that it came with give other answers.
    spoilt = transformers.GenerationConfig(do_sample=False, repetition_penalty=9.0, eos_token_id=0, pad_token_id=1)
    own, model._model.generation_config = model._model.generation_config, spoilt
    assert model.complete(PROMPTS, max_new_tokens=12) != expected
    model._model.generation_config = own


def test_logprobs_of_answers(model, params):
    """Shared beginnings, against a pass of plain NumPy for each answer; single tokens alone; conversations."""
    for answers in (ANSWERS, ["3", "ab"]):
        ids = [encode(model, answer) for answer in answers]
        expected = [reference.logprobs(params, CONFIG, encode(model, prompt), ids) for prompt in PROMPTS]
        np.testing.assert_allclose(model.score_logprobs(PROMPTS, answers), expected, atol=1e-4)
        talks = [[{"role": "user", "content": prompt[:-1]}] for prompt in PROMPTS]
        np.testing.assert_allclose(model.score_logprobs(talks, answers), expected, atol=1e-4)
    with pytest.raises(ValueError, match="answers must begin where a token begins, got 'b' after 'ca'"):
        model.score_logprobs(["ca"], ["b"])


def test_the_model_keeps_to_the_protocol(model, folder):
    assert isinstance(model, LanguageModel)
    assert model.name == f"hf:{folder}"
    assert model.version["device"] == "cpu" and model.version["weights"] == "torch.float32"


def test_a_model_that_is_not_there(tmp_path):
    with pytest.raises(OSError, match="model must be a causal language model that can be loaded, got"):
        open_model(f"hf:{tmp_path}/nothing")
