"""The language-model page shows a reader's own results, without being told."""

import json
from pathlib import Path

import jupytext
import matplotlib.pyplot as plt
from sts_support import data_folder, need_encoder

from lsalib.sts import records

PAGE = Path(__file__).parents[1] / "book/llm.md"


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
