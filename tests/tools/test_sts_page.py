"""The language-model page shows a reader's own results, without being told; and its cell for a hosted notebook runs."""

import json
import re
import shlex
import sys
import types
from pathlib import Path
from unittest.mock import Mock

import jupytext
import matplotlib.pyplot as plt
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from sts_support import data_folder, need_encoder

from lsalib.sts import __main__ as command
from lsalib.sts import _store, records
from lsalib.sts.models import open_model, smollm2

PAGE = Path(__file__).parents[2] / "book/llm.md"


def cells_up_to(name: str) -> list[str]:
    """The code that the page shows, up to the cell with this figure."""
    shown = []
    for cell in jupytext.read(PAGE).cells:
        if cell.cell_type == "code" and "remove-cell" not in cell.metadata.get("tags", []):
            shown.append(cell.source)
            if cell.metadata.get("mystnb", {}).get("figure", {}).get("name") == name:
                return shown
    raise AssertionError(f"no figure {name} on the page")


def drawn(folder: Path, monkeypatch) -> tuple[list[str], list[int]]:
    """The models in the legend, and the number of points in both panels, with these own results."""
    monkeypatch.setenv("LSALIB_STS_RESULTS", str(folder))
    seen = {}
    with plt.rc_context():
        for source in cells_up_to("fig-llm-errors"):
            exec(source, seen)
        plt.close("all")
    return seen["models"], [len(ax.containers) for ax in seen["axes"]]


def test_the_page_plots_your_own_results(tmp_path, monkeypatch):
    need_encoder()
    data_folder()
    monkeypatch.setattr(plt, "show", lambda: None)
    theirs, (completions, chats) = drawn(tmp_path, monkeypatch)
    assert theirs == ["smollm2-135m-instruct"] and completions > chats > 2
    # A chat model behind a server, which gives no probabilities.
    asked = {"condition": "guess", "guess_model": "concat", "style": "completion"}
    mine = records.pick(records.recorded(), draw=0, **asked)
    mine["experiment"] |= {"model": "openai:mine", "style": "chat"}
    mine["records"] = [record | {"logprobs": None} for record in mine["records"]]
    (tmp_path / "result.json").write_text(json.dumps(mine))
    assert drawn(tmp_path, monkeypatch) == ([*theirs, "openai:mine"], [completions, chats + 1])


HOSTED = re.search(r"^```ipython3\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
SMALL = {
    "hf:Qwen/Qwen2.5-7B-Instruct": "smollm2-135m-instruct",
    "--option load_in_4bit=true": "--runs 2 --context-size 1 --max-new-tokens 4",
}


class Hosted:
    """What a hosted notebook does with lines that are no Python; the command line runs in this process."""

    def __init__(self, names: dict):
        self.names, self.installed, self.said = names, [], []

    def run_line_magic(self, magic, line):
        assert magic == "pip"
        self.installed.append(line)

    def system(self, line):
        python, *words = shlex.split(line.format(**self.names))
        assert python == "python" and words[:2] == ["-m", "lsalib.sts"]
        self.said.append(words[2])
        assert command.main(words[2:]) == 0


@pytest.fixture
def hosted(monkeypatch, tmp_path):
    """The cell's code with the smallest model, and a drive that is a folder."""
    data_folder()
    try:
        open_model(SMALL["hf:Qwen/Qwen2.5-7B-Instruct"])
    except ImportError as error:
        pytest.skip(f"SmolLM2 is not installed: {error}")
    cell = HOSTED
    for theirs, ours in (SMALL | {"/content/drive": str(tmp_path)}).items():
        assert theirs in cell
        cell = cell.replace(theirs, ours)
    monkeypatch.setenv("LSALIB_STS_RESULTS", "")  # what the cell says is undone after the test
    monkeypatch.setattr(plt, "show", lambda: None)
    monkeypatch.setitem(sys.modules, "google", types.ModuleType("google"))
    monkeypatch.setitem(sys.modules, "google.colab", types.SimpleNamespace(drive=Mock(), userdata=Mock()))
    return TransformerManager().transform_cell(cell)


def test_the_cell_for_a_hosted_notebook_goes_from_nothing_to_the_figure(hosted, tmp_path, monkeypatch, capsys):
    """With the smallest model in the large one's place; again, it asks nothing."""
    answers = []
    for again in (False, True):
        if again:
            monkeypatch.setattr(smollm2.SmolLM2, "_read", Mock(side_effect=AssertionError("asked again")))
        shell = Hosted(names := {})
        names["get_ipython"] = Mock(return_value=shell)
        exec(hosted, names)
        said = capsys.readouterr().out
        assert shell.said == ["run"] * 9 + ["probe", "show"] and len(shell.installed) == 1
        assert len(plt.gca().containers) == len(names["found"]) == 9
        plt.close("all")
        # The contrasts of both kinds, over all draws, from the same table that `show` prints.
        for contrast in ("guess - none", "guess - the guess itself", "guess - shuffled", "guess - permuted"):
            assert contrast in said
        kept = sorted((tmp_path / "MyDrive/sts-results").rglob("result.jsonl"))
        assert len(kept) == 9 + 4 * 5
        answers.append(list(map(_store.read, kept)))
    assert answers[0] == answers[1]
