"""What the pages on language models take for granted: their readout, the guesses in prompts, answers on record."""

import numpy as np
import pytest
from sts_support import data_folder, need_encoder

from lsalib.sts import data, experiment, records, results
from lsalib.sts.design import Experiment, items, prepare, prompt
from lsalib.sts.models import open_model
from studies.experiments import EXPERIMENTS, embeddings, guess_models
from studies.experiments.experiment import differences
from studies.experiments.language_models import without_sentences

COMPLETIONS = [one for one in records.recorded() if one["experiment"]["style"] == "completion"]


def likeliest(row):
    """The likeliest answer of all, which a model that writes digit by digit need not write."""
    return np.argmax(row["logprobs"]) / 10


@pytest.mark.claim("smollm2-copies")
def test_what_is_written_can_be_read_off_the_probabilities():
    """Digit by digit, in nine of ten recorded answers; the likeliest of the 51 is often another one: the control."""
    rows = [row for one in COMPLETIONS for row in one["records"]]
    said = np.array([results.parse(row["answer"]) or 0.0 for row in rows])
    agrees = lambda rule: np.mean(np.abs([rule(row) for row in rows] - said) < 0.051)
    assert agrees(lambda row: results.written(np.array(row["logprobs"]))) > 0.9 > 0.8 > agrees(likeliest)


def test_the_guesses_in_prompts_are_those_of_the_stored_networks():
    """For a few pairs, embedded again; the network of another seed makes other guesses."""
    need_encoder()
    stored, weights, pairs = records.arrays("guesses"), records.arrays("networks"), data.load("test", data_folder())
    some = slice(0, 12)
    u, v = (embeddings.embed(words[some]) for words in (pairs.first, pairs.second))
    for kind in ("concat", "strong"):
        network = guess_models.Network(*(weights[f"{kind}_{name}"] for name in guess_models.Network._fields))
        again = guess_models.predict(network, guess_models.features(kind, u, v))
        np.testing.assert_allclose(again, stored[f"{kind}_test"][:, some], atol=1e-3)
        assert np.abs(again[0] - stored[f"{kind}_test"][1, some]).max() > 0.05


@pytest.fixture(scope="module")
def model():
    try:
        return open_model()
    except ImportError as error:
        pytest.skip(f"SmolLM2 is not installed: {error}")


REPLAYED = [
    {"style": "completion", "condition": "none", "draw": 1},
    {"style": "completion", "condition": "guess", "guess_model": "strong", "draw": 0, "context_split": "dev"},
    {"style": "completion", "condition": "shuffled", "guess_model": "concat", "draw": 2},
    {"style": "completion", "condition": "guess", "guess_model": "concat", "draw": 0, "context_split": "train"},
    {"style": "prefill", "condition": "guess", "guess_model": "strong", "draw": 0},
    {"style": "chat", "condition": "none", "draw": 0},
]


@pytest.mark.claim("smollm2-guess-helps")
@pytest.mark.parametrize("fields", REPLAYED, ids=lambda fields: " ".join(map(str, fields.values())))
def test_an_answer_on_record_is_written_again(fields, model, own_seeds):
    """Letter by letter, with the probabilities of all scores; those of the next run are others."""
    result = records.pick(records.recorded(), **fields)
    asked = Experiment(**result["experiment"])
    item = items(asked, prepare(asked, data_folder()))[0]
    text, (row, other) = prompt(asked, item), result["records"][:2]
    stop, space = ([], "") if asked.style == "chat" else (["\n"], " ")
    (answer,) = model.complete([text], max_new_tokens=asked.max_new_tokens, stop=stop)
    assert without_sentences(answer, item) == row["answer"]
    (logprobs,) = model.score_logprobs([text], [space + answer for answer in experiment.ANSWERS])
    np.testing.assert_allclose(logprobs, row["logprobs"], atol=5e-3)
    assert np.abs(logprobs - other["logprobs"]).max() > 0.1


@pytest.mark.claim("smollm2-silence")
def test_a_look_on_record_is_made_again(model, own_seeds):
    """Attention and relevance of the first run."""
    assert differences("sts/look", EXPERIMENTS["sts/look"]) == []
