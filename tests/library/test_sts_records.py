"""The stored answers: complete, without sentences, and made from the prompts that the data give."""

import json

import numpy as np
import pytest
from sts_support import data_folder

from lsalib.book import stored
from lsalib.sts import data, prompts, records, results
from lsalib.sts.design import Experiment, items, prepare, prompt


def built(result, folder, **changes):
    """The digest of the prompts, made again."""
    asked = Experiment(**result["experiment"] | changes)
    return prompts.digest([prompt(asked, item) for item in items(asked, prepare(asked, folder))])


def test_every_record_is_whole_and_of_the_prompts_that_the_data_give(own_seeds):
    """The prompts of the stored runs, which rest on the seeds of these."""
    folder, found = data_folder(), records.recorded()
    truth = data.load("test", folder).score
    assert len({tuple(result["experiment"].values()) for result in found}) == len(found)
    for result in found:
        assert built(result, folder) == result["prompts"] and result["versions"]["weights_sha256"]
        assert [row["truth"] for row in result["records"]] == [truth[row["query"]] for row in result["records"]]
        # The first runs, one after the other; all of those that the page began with.
        asked, count = result["experiment"], len(result["records"])
        assert [row["run"] for row in result["records"]] == list(range(count)) and count % 8 * (count - 100) == 0
        whole = (asked["style"], asked["context_split"]) == ("completion", "dev")
        whole &= asked["condition"] in ("none", "guess", "shuffled")
        assert (count == 100) if whole else (count >= 8), asked
        assert (results.mass(result) < 0.1) if asked["style"] == "chat" else (results.mass(result) > 0.7)
        # Answers on record are bare numbers, which no rule about words touches; in chats they are texts.
        for row in result["records"] if asked["style"] != "chat" else ():
            number = float(row["answer"])
            assert results.parse(row["answer"]) == (number if number <= 5 else None)
    # Control: another draw, or the guesses of another seed, are other prompts.
    fields = {"style": "completion", "context_split": "dev", "draw": 0}
    result = records.pick(found, condition="guess", guess_model="concat", **fields)
    for changes in ({"draw": 1}, {"seed": 1}, {"condition": "shuffled"}, {"context_split": "train"}):
        assert built(result, folder, **changes) != result["prompts"]


def test_nothing_recorded_holds_a_sentence():
    pairs = [data.load(split, data_folder()) for split in ("train", "dev", "test")]
    sentences = {text for each in pairs for text in (*each.first, *each.second) if len(text) > 20}
    for path in stored.path("sts").glob("*.json"):
        text = path.read_text()
        assert "first_prompt" not in text
        assert not any(json.dumps(sentence)[1:-1] in text or sentence in text for sentence in sentences)


def test_one_result_is_picked_or_none():
    found = records.recorded()
    one = records.pick(found, condition="none", style="completion", draw=0, context_split="dev")
    assert one["experiment"]["guess_model"] is None
    for fields in ({}, {"draw": 99}):
        with pytest.raises(ValueError, match="fields must single out one result, got "):
            records.pick(found, **fields)


def test_your_own_finished_results_are_found_where_the_variable_says(tmp_path, monkeypatch):
    monkeypatch.setenv("LSALIB_STS_RESULTS", str(tmp_path / "mine"))
    assert records.own() == []
    result = records.pick(records.recorded(), condition="none", style="completion", draw=1)
    without = lambda name: [{key: value for key, value in row.items() if key != name} for row in result["records"]]
    unscored = result | {"records": [*result["records"][:9], *without("logprobs")[9:]]}
    moved = result | {"experiment": result["experiment"] | {"moved": "nothing"}}
    found = {"a": result, "b/c": result | {"records": without("answer")}, "d": unscored, "e": moved}
    for name, content in found.items():
        (tmp_path / "mine" / name).mkdir(parents=True)
        (tmp_path / "mine" / name / "result.json").write_text(json.dumps(content))
    assert records.own() == records.own(tmp_path) == [result, unscored]
    assert records.own(probes=True) == [moved]


@pytest.mark.parametrize("content", ["{", "[]", '{"records": []}', ""])
def test_a_damaged_result_is_named(content, tmp_path):
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(ValueError, match=r"result\.json must be an experiment's result, got a damaged or another"):
        records.own(tmp_path)


def test_stored_guesses_have_the_errors_that_are_stored():
    truth = data.load("test", data_folder()).score
    kept = records.arrays("guesses")
    for name in ("concat", "strong", "cosine"):
        for seed in range(len(kept[f"{name}_test"])):
            expected = kept[f"{name}_mse"][seed, 2]
            np.testing.assert_allclose(((kept[f"{name}_test"][seed] - truth) ** 2).mean(), expected, rtol=1e-3)
    with pytest.raises(ValueError, match=r"name must be a stored result .*look.*, got 'other'"):
        records.arrays("other")
