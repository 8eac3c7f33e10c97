"""The stored answers: complete, without sentences, and those that the model gives to
the prompts of the data.
"""

import json

import pytest
from sts_support import data_folder, small_model

from lsalib.sts import data, prompts, records, results
from lsalib.sts.design import Experiment, Item, items, prepare, prompt
from lsalib.sts.prompts import Example
from studies.record_answers import without_sentences

FIRST = {
    "model": "smollm2-135m-instruct",
    "condition": "guess",
    "guess_model": "strong",
    "draw": 0,
}


def first(found):
    """The first draw of the small model with strong guesses."""
    (one,) = [each for each in found if FIRST.items() <= each["experiment"].items()]
    return one


def built(result, **changes):
    """The digest of the prompts, made again."""
    asked = Experiment(**result["experiment"] | changes)
    return prompts.digest(
        [prompt(asked, item) for item in items(asked, prepare(asked, data_folder()))]
    )


def test_every_record_is_whole_and_of_the_prompts_that_the_data_give():
    found, truth = records.recorded(), data.load("test", data_folder()).score
    assert len({tuple(result["experiment"].values()) for result in found}) == len(found)
    for result in found:
        assert (
            built(result) == result["prompts"] and result["versions"]["weights_sha256"]
        )
        rows, asked = result["records"], result["experiment"]
        assert [row["truth"] for row in rows] == [truth[row["query"]] for row in rows]
        assert [row["run"] for row in rows] == list(range(len(rows))), (
            "the first runs, one after the other"
        )
        assert len(rows) == 100 or "smollm2" not in asked["model"]
        # Answers on record are bare numbers; some are above 5.
        for row in rows:
            number = float(row["answer"])
            assert results.parse(row["answer"]) == (number if number <= 5 else None)
    # Control: another draw, or the guesses of another seed, are other prompts.
    result = first(found)
    for changes in ({"draw": 1}, {"seed": 1}, {"condition": "shuffled"}):
        assert built(result, **changes) != result["prompts"]


def test_nothing_recorded_holds_a_sentence():
    pairs = [data.load(split, data_folder()) for split in ("train", "dev", "test")]
    sentences = {
        text for each in pairs for text in (*each.first, *each.second) if len(text) > 20
    }
    results = [json.loads(path.read_bytes()) for path in records.FOLDER.glob("*.json")]
    known = {
        "command",
        "commit",
        "date",
        "experiment",
        "versions",
        "prompts",
        "records",
    }
    assert all(result.keys() == known for result in results)
    rows = [row for result in results for row in result["records"]]
    # Nothing but an answer, and how it ended, is a text.
    assert all(
        not isinstance(value, str)
        for row in rows
        for name, value in row.items()
        if name not in ("answer", "finish")
    )
    text = "\n".join({row.get("answer", "") for row in rows})
    assert not any(sentence in text for sentence in sentences)


@pytest.mark.claim("guess-helps-two-sizes")
def test_an_answer_on_record_is_written_again():
    """Letter by letter; the next one is another."""
    model, result = small_model(), first(records.recorded())
    asked = Experiment(**result["experiment"])
    item = items(asked, prepare(asked, data_folder()))[0]
    (answer,) = model.complete(
        [prompt(asked, item)], max_new_tokens=asked.max_new_tokens, stop="\n"
    )
    row, other = result["records"][:2]
    assert without_sentences(answer, item) == row["answer"] != other["answer"]


def test_answers_are_stored_without_the_sentences_of_their_prompts():
    """Whole sentences, and four words in a row of one; in another prompt's company an
    answer stays as it is.
    """
    context = [Example("A dog runs in the park.", "Rain", 3.0)]
    item = Item(0, 0, [0], context, Example("A cat sleeps.", "The cat is on a mat."))
    answer = "Sentence 1: a dog runs in the sun, rain. A cat sleeps! The cat is 3.5"
    assert without_sentences(answer, item) == "Sentence 1: … sun, …. …! The cat is 3.5"
    assert (
        without_sentences(
            answer, item._replace(query=Example("One.", "Two."), context=[])
        )
        == answer
    )
