"""The commands: each says how it is used, and names what is missing."""

import os
import subprocess

import pytest
from tiny_book import ROOT

from tools import __main__ as tools


def run(words: str) -> str:
    """What a make command says when it fails, and lists when it does not."""
    own = os.environ | {"NAME": "elsewhere", "MAKEFLAGS": ""}
    command = ["make", *words.split()]
    done = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True)
    return done.stderr if done.returncode else done.stdout


def test_make_lists_its_targets_and_names_what_is_missing():
    """A name counts only where it stands on the command line."""
    listed = {line.split()[0] for line in run("help").splitlines()}
    assert listed >= {"book", "test", "check", "notebook", "notebooks", "data"}
    for target in ("notebook", "check", "notebook NAME="):
        assert f"make {target.split()[0]} NAME=…" in run(target)
    wrong = run("setup PACKAGES=oldest")
    assert "PACKAGES must be locked or newest, got oldest" in wrong


@pytest.mark.parametrize("name", tools.COMMANDS)
def test_each_tool_says_how_it_is_used(name, capsys):
    with pytest.raises(SystemExit) as stop:
        tools.main([name, "--help"])
    assert stop.value.code == 0 and capsys.readouterr().out.startswith("usage: ")
