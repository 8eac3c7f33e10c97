"""The task of Inspect and the command line around it, against a server on loopback and
a model in this process.
"""

import os
import re
import signal
import sys
import time

import pytest
from numpy.testing import assert_array_equal
from sts_server import serving
from sts_support import asked, data_folder

pytest.importorskip(
    "inspect_ai", reason="Inspect is not installed: pip install '.[sts,inspect]'"
)

from lsalib.sts import __main__ as command
from lsalib.sts import design, models, prompts, records, results
from studies import record_answers

LOCAL = ["--model", "openai-api/local/m"]
SMALL = ["--condition", "none", "guess", "--runs", "8", "--context-size", "2"]


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """The data, and nothing else from outside; no key."""
    data_folder()
    for name, value in {
        "no_proxy": "127.0.0.1",
        "INSPECT_DISPLAY": "none",
        "LSALIB_STS_RESULTS": "",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("LOCAL_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)


def last_guess(prompt):
    """The guess of the query; 2.5 where there is none."""
    return (
        " " + re.findall(r"Initial guess: (\S+)", f"Initial guess: 2.5\n{prompt}")[-1]
    )


def run(server, *more):
    return command.main(
        ["run", *LOCAL, *SMALL, "--option", f"base_url={server.url}", *more]
    )


def test_a_server_is_asked_each_prompt_once_and_scored(tmp_path, capsys):
    """Two requests at a time, without a key, again after a failure.

    What is known of the server is stored.
    """
    words = lambda prompt: f"Score:{last_guess(prompt)}"
    about = ["--about", "weights_sha256=abc", "--about", "server=llama.cpp b1"]
    with serving(words, failures=[503, 429], pause=0.02) as server:
        assert run(server, *about) == 0
    assert len(server.requests) == 2 * 8 + 2 and server.most == 2
    assert all(
        request["temperature"] == 0 and request["max_tokens"] == 150
        for request in server.requests
    )
    found = {one["experiment"]["condition"]: one for one in records.own()}
    sent = [request["messages"] for request in server.requests]
    for name, result in found.items():
        one = design.Experiment(**result["experiment"])
        small = {"style": "chat", "runs": 8, "context_size": 2}
        assert one == design.Experiment(LOCAL[1], name, **small)
        items, texts = asked(result)
        rows = result["records"]
        assert [row["query"] for row in rows] == [item.query_index for item in items]
        assert all(text in sent for text in texts)
        known = {"weights_sha256": "abc", "server": "llama.cpp b1"}
        assert result["versions"].items() >= known.items()
        assert result["versions"]["inspect_ai"]
    right, none = (results.outcome(found[name]) for name in ("guess", "none"))
    assert_array_equal(right.prediction, right.guess)
    assert set(none.prediction) == {2.5}
    said = capsys.readouterr().out
    assert (
        results.table(records.own()) in said
        and "stored in sts-results/modelopenai_api_local_m-" in said
    )
    assert command.main(["show"]) == 0 and capsys.readouterr().out in said
    # Stored for the book, with the digest of the prompts.
    record_answers.store(tmp_path, tmp_path)
    stored = records.json.loads((tmp_path / "m-chat-guess-concat-0.json").read_text())
    assert stored["records"]["answer"][0].startswith("Score: ")
    assert stored["experiment"]["model"] == LOCAL[1]
    assert stored["prompts"] == prompts.digest(asked(stored)[1])


def test_answers_to_other_prompts_are_not_continued(monkeypatch, capsys):
    """The same command asks nothing again, and other prompts are refused.

    Answers without a score are counted.
    """
    with serving(lambda prompt: "maybe 3 or 4") as server:
        assert run(server, "--out", "mine") == run(server, "--out", "mine") == 0
        assert re.search(r" 0 +8 +8 +", capsys.readouterr().out)
        monkeypatch.setattr(prompts, "_TASK", prompts._TASK + " Be brief.")
        assert run(server, "--out", "mine") == 2
        said = capsys.readouterr().err
        assert "error: Existing log file" in said and "continues" not in said
    assert len(server.requests) == 16


def test_what_is_wrong_is_said_in_a_line(monkeypatch, capsys):
    """Before anything is asked, if it is about the settings; and with the reason that a
    server gives.
    """
    nothing = "no finished result in nowhere or below; python -m lsalib.sts run writes"
    for message, words in {
        "runs must be a whole number of at least 1, got 0": ["run", "--runs", "0"],
        "No OTHER_API_KEY defined in": ["run", "--model", "openai-api/other/m"],
        nothing: ["show", "nowhere"],
    }.items():
        assert command.main(words) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ") and message in error
        assert error.count("\n") == 1 and "[" not in error
    with serving(last_guess, failures=[401] * 99) as server:
        assert run(server, "--out", "b") == 2
    error = capsys.readouterr().err
    assert f"not all was answered by {server.url}: Error code: 401 - refused;" in error
    assert "what was answered is kept in b/none,guess; the same command" in error
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    assert command.main(["run", *LOCAL]) == 2
    assert (
        "pip install '.[sts,inspect]' in the book's repository"
        in capsys.readouterr().err
    )
    with pytest.raises(SystemExit):
        command.main(["run", "--option", "none"])
    assert "must be NAME=VALUE, got 'none'" in capsys.readouterr().err


@pytest.mark.parametrize("model", ["openai-api", "openai-api-completions"])
@pytest.mark.parametrize("choices", [None, []])
def test_an_answer_without_choices_is_shown(choices, model, capsys):
    """A server that is overloaded may say so with the status of success."""
    body = {"choices": choices, "error": {"message": "out of slots"}}
    with serving(last_guess, body=body) as server:
        assert run(server, "--model", f"{model}/local/m") == 2
    assert '{"message": "out of slots"}' in capsys.readouterr().err


def test_an_address_that_does_not_answer_is_named(capsys):
    """Soon, with what was answered. At another port only the rest is asked."""
    line = ["--out", "mine", "--option", "max_connections=1"]
    with serving(last_guess, end=9) as server:
        assert run(server, *line) == 2
        # Ten seconds on an idle machine; it never gave up before.
        assert time.monotonic() - server.ended < 60
    said = capsys.readouterr().err
    assert (
        f"not all was answered by {server.url}: ValueError('no answer, but Con" in said
    )
    assert len(records.own("mine")[0]["records"]) == 4
    assert "what was answered is kept in mine/none,guess" in said
    with serving(last_guess) as second:
        assert run(second, "--out", "mine") == 0
    assert len(second.requests) == 16 - 9
    assert [len(one["records"]) for one in records.own("mine")] == [8, 8]


def test_a_command_that_is_stopped_keeps_its_answers(capsys):
    """By SIGTERM, as the scheduler of a cluster sends it: status 143, and one line."""

    def answer(prompt):
        if len(server.requests) == 6:
            os.kill(os.getpid(), signal.SIGTERM)
        return last_guess(prompt)

    with serving(answer, pause=0.1) as server:
        assert run(server, "--out", "mine", "--option", "max_connections=1") == 143
    kept = (
        "stopped; what was answered is kept in mine/none,guess; "
        "the same command continues from there"
    )
    assert re.search(kept, capsys.readouterr().err)
    none, right = records.own("mine")
    runs = lambda one: [each["run"] for each in one["records"]]
    assert 0 < len(runs(none)) < 4 and runs(none) == runs(right)


class Echo:
    """In place of the small model: it copies the guess."""

    version, asked = {"weights_sha256": "def"}, []

    def complete(self, asked, *, max_new_tokens, stop):
        (prompt,) = asked
        self.asked.append((prompt, max_new_tokens, stop))
        return [last_guess(prompt)]


def test_the_small_model_is_a_model_of_inspect(monkeypatch):
    """By default, with versions on record. Texts reach it as they are."""
    monkeypatch.setattr(models, "open_model", lambda name="": Echo())
    line = ["run", *SMALL[:2], "guess", *SMALL[3:], "--out", "mine"]
    assert command.main(line) == 0
    right = next(
        each
        for each in records.own("mine")
        if each["experiment"]["condition"] == "guess"
    )
    one = design.Experiment(**right["experiment"])
    assert one.model == "lsalib/smollm2-135m-instruct" and one.style == "completion"
    assert right["versions"]["weights_sha256"] == "def"
    answers = results.outcome(right)
    assert_array_equal(answers.prediction, answers.guess)
    assert {(text, 150, "\n") for text in asked(right)[1]} <= set(Echo.asked)
    # It completes texts only.
    assert command.main([*line, "--style", "chat"]) == 2
