"""The transformer on a small random model, against plain NumPy: logits, greedy answers, probabilities of answers."""

import numpy as np
import pytest
import sts_models_reference as reference
from sts_models_reference import TINY, VOCAB, tiny

from lsalib.sts import _llama as llama

PARAMS = tiny()
PROMPTS = [[3], [5, 1, 7, 7, 2], np.random.default_rng(0).integers(0, VOCAB, 40).tolist()]
ANSWERS = [[4], [4, 9], [4, 9, 1], [2, 2, 2, 2], [0, 0]]
COUNT = 12


def read(prompt, params=PARAMS):
    return llama.read(params, TINY, prompt, COUNT)


def greedy(prompt, *stops):
    return llama.greedy(PARAMS, TINY, read(prompt), np.isin(np.arange(VOCAB), stops), COUNT)


def test_logits_are_those_of_plain_numpy():
    """The padding on the right is never seen. With W_q and W_k in the other order it is another model."""
    for seed, prompt in enumerate(PROMPTS):
        params = tiny(seed)
        expected = reference.logits(params, TINY, prompt)[-1]
        np.testing.assert_allclose(read(prompt, params).logits, expected, atol=2e-4)
    turned = lambda stack, heads: np.stack([reference.halves(leaf, heads) for leaf in stack])
    q, k = turned(params.layers["attn_q"], 4), turned(params.layers["attn_k"], 2)
    other = params._replace(layers=params.layers | {"attn_q": q, "attn_k": k})
    assert np.abs(read(prompt, other).logits - expected).max() > 1e-2


def test_greedy_answers_are_those_without_a_cache():
    """They end with the first token that stops them, or at the limit."""
    expected = [reference.greedy(PARAMS, TINY, prompt, COUNT) for prompt in PROMPTS]
    assert [greedy(prompt) for prompt in PROMPTS] == expected and len(set(map(tuple, expected))) == 3
    end = expected[2][3]
    assert greedy(PROMPTS[2], end, VOCAB + 1) == expected[2][: expected[2].index(end) + 1]


def test_logprobs_of_answers_are_those_of_whole_sequences():
    for prompt in PROMPTS:
        found = llama.logprobs(PARAMS, TINY, read(prompt), ANSWERS)
        np.testing.assert_allclose(found, reference.logprobs(PARAMS, TINY, prompt, ANSWERS), atol=1e-4)
    # The control: after another last token.
    other = llama.logprobs(PARAMS, TINY, read([*prompt[:-1], prompt[-1] - 1]), ANSWERS)
    assert np.abs(other - found).max() > 1e-2


@pytest.mark.parametrize("prompt", [[], [1] * (TINY.context - COUNT + 1)], ids=["empty", "long"])
def test_a_prompt_without_room_is_refused(prompt):
    with pytest.raises(
        ValueError, match=rf"prompt must have 1 to 244 tokens, so that 12 can follow, got {len(prompt)}"
    ):
        read(prompt)
