"""The task of Inspect, against a server on loopback."""

import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import sts_server
from sts_server import serving
from sts_support import ROOT, data_folder

pytest.importorskip("inspect_ai", reason="Inspect is not installed: pip install 'lsalib[inspect]'")

from inspect_ai import eval as inspect_eval
from inspect_ai.model import GenerateConfig, ModelAPI, ModelOutput, modelapi

from lsalib.sts import __main__ as command
from lsalib.sts import design, experiment, prompts, records, results
from lsalib.sts.inspect_task import stsb
from lsalib.sts.models import open_model

SMALL = {"runs": 8, "context_size": 2}
CHAT = design.Experiment("openai-api/local/m", "guess", style="chat", **SMALL)


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """The data, and nothing else from outside."""
    if folder := data_folder():
        monkeypatch.setenv("LSALIB_STS_DATA", folder)
    for name, value in {"LOCAL_API_KEY": "none", "no_proxy": "127.0.0.1", "INSPECT_DISPLAY": "none"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)


def last_guess(prompt):
    """The guess of the query, in words; a constant where there is none."""
    found = re.findall("Initial guess: (.*)", prompt)
    return f"The initial guess was {found[-1]}; refined score: {found[-1]}" if found else " 2.5"


def asked(task, server, model="openai-api/local/m", **options):
    log, *_ = inspect_eval(task, model=model, model_base_url=server.url, log_dir="logs", **options)
    return log


def test_each_prompt_is_asked_once_and_scored(tmp_path):
    with serving(last_guess, failures=[503, 429]) as server:
        log = asked(stsb(**SMALL), server)
    assert log.status == "success", log.error
    assert sum(server.asked.values()) == 3 * 8 + 2, "two were asked again"
    assert all(request["temperature"] == 0 and request["max_tokens"] == 150 for request in server.requests)
    found = {one["experiment"]["condition"]: one for one in records.own(tmp_path)}
    for name, result in found.items():
        one = design.Experiment(**result["experiment"])
        runs = design.items(one, design.prepare(one))
        assert one == design.Experiment(CHAT.model, name, style="chat", **SMALL)
        assert [row["query"] for row in result["records"]] == [item.query_index for item in runs]
        sent = {request["messages"][-1]["content"]: request["messages"] for request in server.requests}
        for item in runs:
            written = prompts.build(item.context, item.query, guesses=name != "none", style="chat")
            assert sent[written[1]["content"]] == written
    outcomes = {name: results.outcome(result) for name, result in found.items()}
    echo, none = outcomes["guess"], outcomes["none"]
    np.testing.assert_array_equal(echo.prediction, echo.guess)
    assert set(none.prediction) == {2.5}
    assert (outcomes["shuffled"].prediction != echo.prediction).any(), "control"
    # What Inspect prints are the errors of the records; a cluster has a run in each condition.
    # Inspect writes "lsalib/mean_…" if lsalib is installed.
    metrics = log.results.scores[0].metrics.items()
    shown = {name.removeprefix("lsalib/"): metric.value for name, metric in metrics}
    errors = {name: (one.prediction - one.truth) ** 2 for name, one in outcomes.items()}
    for name, values in errors.items():
        assert shown[f"mean_{name}"] == pytest.approx(values.mean())
        assert shown[f"mean_{name}, stderr"] == pytest.approx(values.std(ddof=1) / 8**0.5)
    by_run = np.sum([*errors.values()], axis=0)
    assert shown["mean_all, stderr"] == pytest.approx(by_run.std(ddof=1) / 8**0.5 / 3)
    everything = np.concatenate([*errors.values()])
    apart = everything.std(ddof=1) / len(everything) ** 0.5
    assert shown["mean_all, stderr"] != pytest.approx(apart, rel=0.01), "control: runs are not independent"


def test_a_probe_of_written_answers_measures_what_is_known(tmp_path):
    """A model that follows the query's guess half way."""
    half = lambda prompt: f"Score: {1 + 0.5 * float(re.findall('Initial guess: (.*)', prompt)[-1]):.3f}"
    with serving(half) as server:
        assert asked(stsb("guess", probe=True, **SMALL), server).status == "success"
    arms = {one["experiment"]["moved"]: one for one in records.own(tmp_path, probes=True)}
    known = {"query guess": 0.5, "context guess": 0, "context score": 0, "all": 0.5, "all less the three": 0}
    for part, values in results.effects(arms).items():
        np.testing.assert_allclose(values, known[part], atol=0.006)


@pytest.mark.parametrize("style", ["chat", "prefill", "completion"])
def test_scores_are_those_of_the_answer_s_own_tokens(style, tmp_path):
    model = "openai-api-completions/local/m" if style == "completion" else "openai-api/local/m"
    with serving(last_guess) as server:
        log = asked(stsb("guess", style=style, readout="both", runs=1, context_size=1), server, model)
    assert log.status == "success"
    ((row,),) = [one["records"] for one in records.own(tmp_path)]
    (plain,) = [request for request in server.requests if "prompt_logprobs" not in request]
    said, space = [one["content"] for one in plain.get("messages", ())], "" if style == "chat" else " "
    before = plain["prompt"] if style == "completion" else "\n".join(said) + "\n" * (style == "chat")
    assert before.endswith("Score:") is (style != "chat")
    for answer, value in zip(experiment.ANSWERS, row["logprobs"], strict=True):
        pieces = sts_server.tokens(space + answer)
        values = [sts_server.logprob(before + "".join(pieces[:k]), piece) for k, piece in enumerate(pieces)]
        assert value == pytest.approx(sum(values)) and value != pytest.approx(sum(values[1:]))
    told = [request for request in server.requests if "prompt_logprobs" in request]
    assert len(told) == 51
    begun = {"chat": told, "prefill": server.requests, "completion": []}[style]
    assert [request for request in server.requests if request.get("continue_final_message")] == begun
    assert not any(request["add_generation_prompt"] for request in begun)


def test_what_cannot_be_asked_is_said(capfd):
    with pytest.raises(ValueError, match="readout must be written or both, got 'spoken'"):
        stsb(readout="spoken")
    with serving(last_guess, told=False) as server:
        for options, model, words in (
            ({"readout": "both"}, CHAT.model, "readout must be written for openai-api/local/m, got both"),
            ({"style": "completion"}, CHAT.model, "style must be one that the provider can ask, got completion"),
            ({}, "openai-api-completions/local/m", "style must be one that the provider can ask, got chat"),
        ):
            log = asked(stsb("none", runs=1, **options), server, model)
            assert log.status == "error" and words in log.error.message


RUN = ["run", "--model", "openai-api/local/m", "--condition", "none", "guess", "--runs", "8", "--context-size", "2"]


def test_the_command_line_hands_on_to_inspect_and_continues_at_another_port(tmp_path, capfd):
    """What was answered before a stop is not asked again."""
    with serving(last_guess, pause=lambda: time.sleep(0.5)) as first:
        line = [sys.executable, "-m", "lsalib.sts", *RUN, "--out", "mine", "--option", f"base_url={first.url}"]
        line += ["--option", "max_connections=1"]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "INSPECT_DISPLAY": ""}
        with open("printed", "w") as out, subprocess.Popen(line, env=environment, stderr=-1, stdout=out) as process:
            while sum(first.asked.values()) < 5 and process.poll() is None:
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            said = process.stderr.read().decode()
    assert process.returncode == 143 and "stopped; what was answered is kept in mine" in said
    assert re.search(r"Steps: +\d+/16", Path("printed").read_text()), "progress off a terminal"
    with serving(last_guess) as second:
        options = ["--option", f"base_url={second.url}", "--option", "max_connections=2"]
        assert command.main([*RUN, "--out", "mine", *options]) == 0
    assert "MSE less: none" in capfd.readouterr().out
    assert 8 < sum(second.asked.values()) < 16 and sum(second.asked.values()) + sum(first.asked.values()) <= 16 + 1
    assert [len(one["records"]) for one in records.own("mine")] == [8, 8]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the files of a running process")
@pytest.mark.parametrize("answered", [0, 4])
def test_a_full_disk_keeps_what_it_has(answered):
    """Files cannot grow any more, from the start or from the fifth request on. Then there is room for the rest."""
    import resource

    def start(server):
        line = [sys.executable, "-m", "lsalib.sts", *RUN, "--out", "mine", "--option", f"base_url={server.url}"]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        return subprocess.Popen([*line, "--option", "max_connections=1"], env=environment, stderr=-1, stdout=-1)

    def fill():
        if sum(first.asked.values()) == answered + 1:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))

    with serving(last_guess, pause=fill) as first, start(first) as process:
        if not answered:  # Inspect's own files begin
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
        said = process.communicate()[1].decode()
    assert process.returncode == 2
    kept = (
        "what was answered is kept in mine/none,guess; when the cause is removed, the same command continues from there"
    )
    assert re.search(f"^error: .*; {kept}$", said, re.MULTILINE), said
    with serving(last_guess) as second, start(second) as process:
        process.communicate()
    assert process.returncode == 0 and sum(second.asked.values()) == 16 - answered
    assert [len(one["records"]) for one in records.own("mine")] == [8, 8]


def test_answers_to_other_prompts_are_not_continued(monkeypatch, capfd):
    """Neither another draw nor other prompts with the same settings; the same are, and ask nothing again."""
    with serving(last_guess) as server:
        line = [*RUN, "--out", "mine", "--option", f"base_url={server.url}"]
        assert command.main(line) == command.main(line) == 0
        assert sum(server.asked.values()) == 16
        capfd.readouterr()
        assert command.main([*line, "--draw", "1"]) == 2
        first = capfd.readouterr().err
        monkeypatch.setattr(prompts, "_TASK", prompts._TASK + " Be brief.")
        assert command.main(line) == 2
        for said in (first, capfd.readouterr().err):
            assert "error: Existing log file" in said and "continues" not in said
    assert sum(server.asked.values()) == 16


def test_inspect_s_own_command_runs_the_task(tmp_path):
    with serving(last_guess) as server:
        line = "inspect eval lsalib/stsb --model openai-api/local/m -T runs=2 -T context_size=1 --log-dir logs".split()
        line = [str(Path(sys.executable).with_name("inspect")), *line[1:], "--model-base-url", server.url]
        done = subprocess.run(line, capture_output=True, text=True)
        assert done.returncode == 0 and sum(server.asked.values()) == 6, done.stdout + done.stderr
    assert [len(one["records"]) for one in records.own(tmp_path)] == [2, 2, 2]


def registered(small):
    """A model of this process as two providers of Inspect: for conversations, and for texts to complete."""

    class InProcess(ModelAPI):
        def __init__(self, model_name, base_url=None, api_key=None, config=None, **_):
            super().__init__(model_name, base_url, api_key, [], config or GenerateConfig())

        def max_connections(self):
            return 1

        async def generate(self, input, tools, tool_choice, config):
            talk = [{"role": each.role, "content": each.text} for each in input]
            prompt = input[0].text if isinstance(self, Completions) else talk
            (answer,) = small.complete([prompt], max_new_tokens=config.max_tokens, stop=config.stop_seqs or ())
            return ModelOutput.from_content(self.model_name, answer)

    class Completions(InProcess):
        pass

    modelapi("small")(lambda: InProcess)
    modelapi("small-completions")(lambda: Completions)


@pytest.mark.parametrize(("style", "provider"), [("completion", "small-completions"), ("prefill", "small")])
def test_the_small_model_as_a_provider_writes_what_it_writes_here(style, provider, tmp_path, own_seeds):
    """The control is the answer of the other run."""
    try:
        small = open_model()
    except ImportError as error:
        pytest.skip(f"SmolLM2 is not installed: {error}")
    registered(small)
    settings = {"runs": 2, "context_size": 1, "max_new_tokens": 8}
    log, *_ = inspect_eval(stsb("guess", style=style, **settings), model=f"{provider}/{small.name}", log_dir="logs")
    assert log.status == "success", log.error
    (result,) = records.own(tmp_path)
    one = design.Experiment(small.name, "guess", style=style, **settings)
    texts = [design.prompt(one, item) for item in design.items(one, design.prepare(one))]
    written = small.complete(texts, max_new_tokens=8, stop=["\n"])
    found = [row["answer"] for row in result["records"]]
    assert found == written and found != written[::-1]


def test_unreadable_answers_fail_the_run_and_a_refusal_too(capfd):
    with serving(lambda prompt: "I cannot say." if "guess" in prompt else "maybe 3 or 4") as server:
        assert command.main([*RUN, "--out", "a", "--option", f"base_url={server.url}"]) == 1
    assert "error: most answers have no score; guess: 8 of 8, none: 8 of 8" in capfd.readouterr().err
    with serving(last_guess, failures=[401] * 99) as server:
        assert command.main([*RUN, "--out", "b", "--option", f"base_url={server.url}"]) == 2
    assert (
        "not all was answered: " in (said := capfd.readouterr().err)
        and "Error code: 401 - refused" in said
        and "what was answered is kept in b" in said
    )


def test_a_server_of_one_s_own_needs_no_key_and_is_described(monkeypatch, tmp_path):
    """It is asked two things at a time; the record has the words and the digest that the user gives."""
    monkeypatch.delenv("LOCAL_API_KEY")
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    about = ["--weights", "m.gguf", "--note", "llama.cpp b1"]
    open_now, most, lock = [], [], threading.Lock()

    def pause():
        with lock:
            open_now.append(1)
            most.append(len(open_now))
        time.sleep(0.05)
        with lock:
            open_now.pop()

    with serving(last_guess, pause=pause) as server:
        assert command.main([*RUN, *about, "--out", "mine", "--option", f"base_url={server.url}"]) == 0
    assert max(most) == 2
    for result in records.own("mine"):
        digest = hashlib.sha256(b"GGUF").hexdigest()
        known = {"note": "llama.cpp b1", "weights": "m.gguf", "weights_sha256": digest}
        assert result["versions"].items() >= known.items() and result["versions"]["inspect_ai"]


def test_what_inspect_refuses_is_said_without_its_markup(monkeypatch, capsys):
    monkeypatch.delenv("OTHER_API_KEY", raising=False)
    assert command.main([*RUN[:2], "openai-api/other/m", *RUN[3:], "--out", "mine"]) == 2
    error = capsys.readouterr().err
    assert "No OTHER_API_KEY defined in the environment" in error and "[" not in error and error.count("\n") == 1
