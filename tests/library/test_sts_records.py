"""The stored answers: complete, without sentences, and those that the model gives to
the prompts of the data.
"""

import json
from itertools import chain

import numpy as np
import pytest
from sts_support import asked, data_folder, small_model

from lsalib.sts import data, prompts, records, results
from lsalib.sts.design import Item
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
    return prompts.digest(asked(result, **changes)[1])


def test_every_record_is_whole_and_of_the_prompts_that_the_data_give():
    found, truth = records.recorded(), data.load("test", data_folder()).score
    assert len({tuple(result["experiment"].values()) for result in found}) == len(found)
    for result in found:
        assert (
            built(result) == result["prompts"] and result["versions"]["weights_sha256"]
        )
        rows = result["records"]
        assert [row["truth"] for row in rows] == [truth[row["query"]] for row in rows]
        # the first runs, one after the other
        count = 100 if "smollm2" in result["experiment"]["model"] else 500
        assert [row["run"] for row in rows] == [*range(count)]
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
    texts = []
    for result in results:
        columns = result["records"]
        texts += [*columns.pop("answer"), *chain(*columns.pop("set_answers", []))]
        # Nothing but answers is a text.
        assert not any(isinstance(value, str) for value in chain(*columns.values()))
    text = "\n".join(texts)
    assert not any(sentence in text for sentence in sentences)


@pytest.mark.claim("guess-helps-two-sizes")
def test_an_answer_on_record_is_written_again():
    """Letter by letter; the next one is another."""
    model, result = small_model(), first(records.recorded())
    (item, *_), (text, *_) = asked(result)
    tokens = result["experiment"]["max_new_tokens"]
    (answer,) = model.complete([text], max_new_tokens=tokens, stop="\n")
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
    other = item._replace(query=Example("One.", "Two."), context=[])
    assert without_sentences(answer, other) == answer


def test_results_in_a_file_are_refused(tmp_path, monkeypatch):
    (file := tmp_path / "mine").write_text("")
    monkeypatch.setenv("LSALIB_STS_RESULTS", str(file))
    with pytest.raises(
        ValueError, match=f"LSALIB_STS_RESULTS must .* got the file {file}"
    ):
        records.own()
