"""README and CONTRIBUTING: the code runs, the figure is the book's, paths and commands
exist.
"""

import re

import pytest
from tiny_book import ROOT

from lsalib import tasks, theory
from lsalib.sts import __main__ as sts
from tools import ledger
from tools.notebooks.pages import Book

README, CONTRIBUTING, MAKEFILE = (
    (ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", "Makefile")
)


def test_the_ten_lines_run_and_land_where_the_theory_says(
    capsys, tmp_path, monkeypatch
):
    """Fresh tasks put the trained layer near its exact optimum, and above gradient
    descent.
    """
    monkeypatch.chdir(tmp_path)  # the last line saves a file
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    exec(compile(code, "README.md", "exec"), {})
    assert [path.name for path in tmp_path.iterdir()] == ["fit.npz"]
    *risks, estimate = capsys.readouterr().out.splitlines()
    gd, best, exact = map(float, risks)
    task = tasks.GaussianTask([2.0] * 10, 10)
    wanted = [theory.gd_risk(task), theory.optimal_risk(task)]
    assert [gd, best] == pytest.approx(wanted, rel=1e-7)
    mean, error = map(float, re.findall(r"=([\d.e-]+)", estimate))
    # A million fresh tasks tell the trained layer's risk to a hundredth: near its
    # optimum, well above gradient descent.
    assert error < 0.02
    assert abs(mean - best) < 0.01 * best + 5 * error
    assert abs(mean - exact) < 5 * error
    assert mean - 5 * error > gd


def test_the_figure_is_the_one_of_the_book():
    assert re.search(rf"!\[[^]]+\]\([^)]*\b{ledger.FIGURE.as_posix()}\)", README)
    assert (ROOT / ledger.FIGURE).read_text() == ledger.headline(Book(ROOT))


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_paths_and_commands_exist(text):
    commands = re.findall(r"(?m)(?:`|^)make ([a-z-]+)", text)
    assert "test" in commands
    for command in commands:
        assert re.search(rf"(?m)^{command}:", MAKEFILE), command
    paths = set(
        re.findall(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:txt|toml|md|cff|yml))`", text)
    )
    # Made up, or named inside their folder.
    paths -= {
        *"book/NAME.md NAME.md book/first_light.md claims.toml release.yml".split()
    }
    assert len(paths) > 5
    for path in paths:
        assert (ROOT / path).exists(), path


def test_the_questions_to_language_models_are_understood(capsys):
    written = re.findall(r"(?m)^python -m lsalib\.sts ([^#\n]+)", README)
    assert [command.split()[0] for command in written] == ["run", "run", "show"]
    for command in written:
        sts._parser().parse_args(command.split())
    with pytest.raises(SystemExit):
        sts._parser().parse_args([*written[0].split(), "--guess", "wild"])
    assert "invalid choice: 'wild'" in capsys.readouterr().err
