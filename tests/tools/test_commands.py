"""The commands: each says how it is used, names what is missing, and keeps compiled programs for the next run."""

import os
import re
import subprocess
import sys

import pytest
from tiny_book import ROOT, make

from tools import __main__ as tools
from tools.notebooks import profile
from tools.notebooks.pages import Page


def run(*args: str) -> tuple[int, str]:
    """The exit status of a make command, and what it said."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    env = inherited | {"NAME": "from-the-environment", "URL": "https://github.com/from/environment"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(["make", *args], cwd=ROOT, env=env, text=True, **pipes)
    return done.returncode, done.stdout


def test_make_lists_its_targets_and_names_what_is_missing():
    """A name or an address counts only where it stands on the command line."""
    listed = {line.split()[0] for line in run("help")[1].splitlines()}
    assert listed >= {"book", "test", "check", "page", "notebook", "notebooks", "data"}
    missing = dict.fromkeys(("notebook", "check", "page", "profile", "notebook NAME="), "NAME=…")
    for target, told in (missing | {"address": "URL=https://…"}).items():
        status, said = run(*target.split())
        assert status != 0 and f"make {target.split()[0]} {told}" in said
    status, said = run("setup", "PACKAGES=oldest")
    assert status != 0 and "PACKAGES must be locked, newest, lowest or lowest-book, got oldest" in said


@pytest.mark.parametrize("name", tools.COMMANDS)
def test_each_tool_says_how_it_is_used(name, capsys):
    """``--help`` of every command prints its usage."""
    with pytest.raises(SystemExit) as stop:
        tools.main([name, "--help"])
    assert stop.value.code == 0 and capsys.readouterr().out.startswith("usage: ")


COUNT = """
import jax
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
for n in range(3):
    jax.jit(lambda x: n * x)(1.0)
print(*(events.count(f"/jax/compilation_cache/cache_{kind}") for kind in ("misses", "hits")))
"""


def test_compiled_programs_are_kept_for_the_next_process(tmp_path):
    """With the variables that make exports, a second process finds every program; an empty name keeps none."""

    def counts(folder) -> str:
        exported = run("--silent", "--eval=show: ; @env", "show", f"LSALIB_PROGRAMS={folder}")[1].splitlines()
        env = dict(line.split("=", 1) for line in exported if line.startswith(("JAX_", "PATH=", "HOME=")))
        return subprocess.check_output([sys.executable, "-c", COUNT], env=env, cwd=tmp_path, text=True)

    assert [counts(tmp_path / "kept") for _ in range(2)] == ["3 0\n", "0 3\n"]
    assert counts("").endswith(" 0\n") and [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_profile_counts_the_programs_of_each_cell(tmp_path):
    """The cell that compiles is charged with its program, the others with none."""
    cells = "import jax\n\njax.jit(lambda x: x + 1)(1.0).item()", "x = 1"
    make(tmp_path, "\n# T\n" + "".join(f"\n```{{code-cell}} ipython3\n{cell}\n```\n" for cell in cells))
    said = profile.report(Page(tmp_path, "tiny"))
    assert re.search(r"tiny: [\d.]+ s, 1 programs", said) and "in the compiler: jit(<lambda>)" in said
    counted = set(re.findall(r"^ +[\d.]+ +(\d+) +[\d.]+  (import jax|x = 1)$", said, re.MULTILINE))
    assert counted == {("1", "import jax"), ("0", "x = 1")}
