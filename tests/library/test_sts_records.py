"""The stored answers: complete, without sentences, and those that the model gives to
the prompts of the data.
"""

import json
from itertools import chain

import numpy as np
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
        assert len(rows) == (100 if "smollm2" in asked["model"] else 500)
        # Answers on record are bare numbers; some are above 5.
        for row in rows:
            for answer in [row["answer"], *row.get("set_answers", [])]:
                number = float(answer)
                assert results.parse(answer) == (number if number <= 5 else None)
        if "set" in result:
            moved = np.array([row["set_expected"] for row in rows])
            assert moved.shape == (500, len(result["set"])) and 0 <= moved.min()
            # The mean score follows what the model writes.
            written = np.array([row["set_answers"] for row in rows], float)
            assert np.corrcoef(written.ravel(), moved.ravel())[0, 1] > 0.7
            assert moved.max() <= 5
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
    known = {"command", "commit", "date", "experiment", "versions", "prompts"}
    assert all(result.keys() - {"set"} == known | {"records"} for result in results)
    # Nothing but answers is a text.
    texts = ("answer", "set_answers")
    columns = {name: [] for name in texts}
    for result in results:
        for name, column in result["records"].items():
            if name in texts:
                columns[name] += column
            else:
                assert not any(isinstance(value, str) for value in column)
    text = "\n".join([*columns["answer"], *chain(*columns["set_answers"])])
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
