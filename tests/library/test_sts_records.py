"""The stored answers: complete, without sentences, and those that the model gives to the prompts of the data."""

import json

import numpy as np
import pytest
from sts_support import data_folder, small_model

from lsalib.sts import data, prompts, records, results
from lsalib.sts.design import Experiment, items, prepare, prompt
from studies.record_answers import without_sentences


def built(result, **changes):
    """The digest of the prompts, made again."""
    asked = Experiment(**result["experiment"] | changes)
    return prompts.digest([prompt(asked, item) for item in items(asked, prepare(asked, data_folder()))])


def test_every_record_is_whole_and_of_the_prompts_that_the_data_give():
    found, truth = records.recorded(), data.load("test", data_folder()).score
    assert len({tuple(result["experiment"].values()) for result in found}) == len(found)
    for result in found:
        assert built(result) == result["prompts"] and result["versions"]["weights_sha256"]
        rows, asked = result["records"], result["experiment"]
        assert [row["truth"] for row in rows] == [truth[row["query"]] for row in rows]
        assert [row["run"] for row in rows] == list(range(len(rows))), "the first runs, one after the other"
        assert len(rows) == (100 if (asked["style"], asked["context_split"]) == ("completion", "dev") else 16) or (
            asked["context_split"] == "train" and len(rows) == 32
        )
        assert (results.mass(result) < 0.1) if asked["style"] == "chat" else (results.mass(result) > 0.7)
        # Answers on record are bare numbers, which no rule about words touches; in chats they are texts.
        for row in rows if asked["style"] != "chat" else ():
            number = float(row["answer"])
            assert results.parse(row["answer"]) == (number if number <= 5 else None)
    # Control: another draw, or the guesses of another seed, are other prompts.
    fields = {"style": "completion", "context_split": "dev", "draw": 0}
    result = records.pick(found, condition="guess", guess_model="concat", **fields)
    for changes in ({"draw": 1}, {"seed": 1}, {"condition": "shuffled"}, {"context_split": "train"}):
        assert built(result, **changes) != result["prompts"]


def test_nothing_recorded_holds_a_sentence():
    pairs = [data.load(split, data_folder()) for split in ("train", "dev", "test")]
    sentences = {text for each in pairs for text in (*each.first, *each.second) if len(text) > 20}
    results = [json.loads(path.read_bytes()) for path in records.FOLDER.glob("*.json")]
    known = {"command", "commit", "date", "experiment", "versions", "prompts", "records"}
    assert all(result.keys() == known for result in results)
    rows = [row for result in results for row in result["records"]]
    # Nothing but an answer, and how it ended, is a text.
    assert all(
        not isinstance(value, str) for row in rows for name, value in row.items() if name not in ("answer", "finish")
    )
    text = "\n".join({row.get("answer", "") for row in rows})
    assert not any(sentence in text for sentence in sentences)


def test_one_result_is_picked_or_none():
    found = records.recorded()
    one = records.pick(found, condition="none", style="completion", draw=0, context_split="dev")
    assert one["experiment"]["guess_model"] is None
    for fields in ({}, {"draw": 99}):
        with pytest.raises(ValueError, match="fields must single out one result, got "):
            records.pick(found, **fields)


@pytest.mark.claim("smollm2-copies")
def test_what_is_written_can_be_read_off_the_probabilities():
    """Digit by digit, in nine of ten recorded answers; the likeliest of the 51 is often another one: the control."""
    found = [one for one in records.recorded() if one["experiment"]["style"] == "completion"]
    rows = [row for one in found for row in one["records"]]
    said = np.array([results.parse(row["answer"]) or 0.0 for row in rows])
    logprobs = np.array([row["logprobs"] for row in rows])
    agrees = lambda scores: np.mean(np.abs(scores - said) < 0.051)
    assert agrees(results.written(logprobs)) > 0.9 > 0.8 > agrees(logprobs.argmax(1) / 10)


REPLAYED = [
    {"style": "completion", "condition": "guess", "guess_model": "strong", "draw": 0, "context_split": "dev"},
    {"style": "prefill", "condition": "shuffled", "draw": 1},
]


@pytest.mark.claim("smollm2-guess-helps")
@pytest.mark.parametrize("fields", REPLAYED, ids=lambda fields: fields["style"])
def test_an_answer_on_record_is_written_again(fields):
    """Letter by letter, with the probabilities of all scores; those of the next run are others."""
    model, result = small_model(), records.pick(records.recorded(), **fields)
    asked = Experiment(**result["experiment"])
    item = items(asked, prepare(asked, data_folder()))[0]
    text, (row, other) = prompt(asked, item), result["records"][:2]
    (answer,) = model.complete([text], max_new_tokens=asked.max_new_tokens, stop="\n")
    assert without_sentences(answer, item) == row["answer"]
    (logprobs,) = model.score_logprobs([text], [f" {answer}" for answer in results.ANSWERS])
    np.testing.assert_allclose(logprobs, row["logprobs"], atol=5e-3)
    assert np.abs(logprobs - other["logprobs"]).max() > 0.1
