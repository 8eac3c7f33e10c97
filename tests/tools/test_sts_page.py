"""The cell of the language-model page for a hosted notebook runs, and the page shows
its results.
"""

import re
import shlex
import sys
from unittest.mock import Mock

import jupytext
import matplotlib.pyplot as plt
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from sts_server import serving
from sts_support import data_folder
from tiny_book import ROOT

from lsalib.sts import __main__ as command

PAGE = ROOT / "book/llm.md"


@pytest.fixture(autouse=True)
def the_figure_stays_open(monkeypatch):
    data_folder()
    monkeypatch.setattr(plt, "show", lambda: None)
    with plt.rc_context():
        yield
        plt.close("all")


# Inspect leaves its connections to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed (<socket|transport):ResourceWarning")
def test_the_cell_for_a_hosted_notebook_goes_from_nothing_to_the_figure(
    tmp_path, monkeypatch, capsys
):
    """With a server on loopback as the model, and a folder as the drive.

    The page's last cell shows the results.
    """
    pytest.importorskip(
        "inspect_ai", reason="Inspect is not installed: pip install '.[sts,inspect]'"
    )
    (cell,) = re.findall(r"(?ms)^```ipython3\n(.*?)^```$", PAGE.read_text())
    for name, value in {"no_proxy": "127.0.0.1", "INSPECT_DISPLAY": "none"}.items():
        monkeypatch.setenv(name, value)
    # the cell sets it; this undoes that after the test
    monkeypatch.setenv("LSALIB_STS_RESULTS", "")
    monkeypatch.setitem(sys.modules, "google", Mock())
    monkeypatch.setitem(sys.modules, "google.colab", Mock())
    names: dict = {}

    def system(line):
        """Run the command line in this process."""
        assert line.startswith("python -m lsalib.sts ")
        assert command.main(shlex.split(line.format(**names))[3:]) == 0

    def answer(prompt):
        return re.findall("Initial guess: (.*)", f"Initial guess: 2.5\n{prompt}")[-1]

    shell = Mock(system=system)
    names["get_ipython"] = Mock(return_value=shell)
    with serving(answer) as server:
        for large, small in {
            "vllm/Qwen/Qwen2.5-7B-Instruct": "openai-api/local/m",
            "/content/drive": str(tmp_path),
            "quantization=bitsandbytes --option dtype=half": f"base_url={server.url}",
            "--option generation_config=vllm --option max_model_len=4096": (
                "--runs 2 --context-size 1"
            ),
        }.items():
            assert large in cell
            cell = cell.replace(large, small)
        exec(TransformerManager().transform_cell(cell), names)
    shell.run_line_magic.assert_called_once()  # %pip
    assert len(plt.gca().containers) == 3
    # The contrasts, over all draws, from the table that `show` prints and the page's
    # last cell.
    said = capsys.readouterr().out
    for other in ("none", "constant", "the guess itself", "shuffled"):
        assert f"less: {other}" in said
    assert " 0,1,2 " in said
    cells = [cell.source for cell in jupytext.read(PAGE).cells]
    (last,) = [source for source in cells if "if own else" in source]
    exec("from lsalib.sts import records, results\n" + last, {})
    assert capsys.readouterr().out in said
    assert len(list((tmp_path / "MyDrive/sts-results").rglob("*.eval"))) == 3
