"""What the page on language models takes for granted: its readout of probabilities, and the guesses in its prompts."""

import numpy as np
import pytest
from sts_support import data_folder, need_encoder

from lsalib.sts import data, embeddings, guess, records, results

COMPLETIONS = [one for one in records.recorded() if one["experiment"]["style"] == "completion"]


def digit_by_digit(row):
    """The likelier first digit, then the likelier second one, by sums over the answers in words."""
    answers = {f"{k / 10:.1f}": np.exp(value) for k, value in enumerate(row["logprobs"])}
    first = max("012345", key=lambda digit: sum(p for answer, p in answers.items() if answer[0] == digit))
    return float(max((answer for answer in answers if answer[0] == first), key=answers.get))


def likeliest(row):
    """The likeliest answer of all, which a model that writes digit by digit need not write."""
    return np.argmax(row["logprobs"]) / 10


@pytest.mark.claim("smollm2-copies")
def test_what_is_written_can_be_read_off_the_probabilities():
    """In nine of ten recorded answers; the likeliest of the 51 answers is often another one: the control."""
    rows = [row for one in COMPLETIONS for row in one["records"]]
    said = np.array([results.parse(row["answer"], "lenient") or 0.0 for row in rows])
    agrees = lambda rule: np.mean(np.abs([rule(row) for row in rows] - said) < 0.051)
    assert agrees(digit_by_digit) > 0.9 > 0.8 > agrees(likeliest)


def test_the_guesses_in_prompts_are_those_of_the_stored_networks():
    """For a few pairs, embedded again; the network of another seed makes other guesses."""
    need_encoder()
    stored, pairs = records.arrays("guesses"), data.load("test", data_folder())
    some = slice(0, 12)
    u, v = (embeddings.embed(words[some]) for words in (pairs.first, pairs.second))
    for kind in ("concat", "strong"):
        network = guess.Network(*(stored[f"{kind}_{name}"] for name in guess.Network._fields))
        again = guess.predict(network, guess.features(kind, u, v))
        np.testing.assert_allclose(again, stored[f"{kind}_test"][:, some], atol=1e-3)
        assert np.abs(again[0] - stored[f"{kind}_test"][1, some]).max() > 0.05
