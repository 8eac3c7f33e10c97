"""The commands: each says how it is used, and names what is missing."""

import os
import subprocess

import pytest
from tiny_book import ROOT

from tools import __main__ as tools


def run(*args: str) -> tuple[int, str]:
    """The exit status of a make command, and what it said."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("MAKE")
    }
    done = subprocess.run(
        ["make", *args],
        cwd=ROOT,
        env=inherited | {"NAME": "elsewhere"},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_make_lists_its_targets_and_names_what_is_missing():
    """A name counts only where it stands on the command line."""
    listed = {line.split()[0] for line in run("help")[1].splitlines()}
    assert listed >= {"book", "test", "check", "notebook", "notebooks", "data"}
    for target in ("notebook", "check", "notebook NAME="):
        status, said = run(*target.split())
        assert status != 0 and f"make {target.split()[0]} NAME=…" in said
    status, said = run("setup", "PACKAGES=oldest")
    assert status != 0 and "PACKAGES must be locked or newest, got oldest" in said


@pytest.mark.parametrize("name", tools.COMMANDS)
def test_each_tool_says_how_it_is_used(name, capsys):
    with pytest.raises(SystemExit) as stop:
        tools.main([name, "--help"])
    assert stop.value.code == 0 and capsys.readouterr().out.startswith("usage: ")
