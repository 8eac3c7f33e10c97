"""The commands: each runs its tool, names what is missing, and keeps compiled programs for the next run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_book import ROOT, dry_run, make

from tools import __main__ as tools
from tools.notebooks import profile
from tools.notebooks.pages import Page


def run(*args: str, cwd: Path = ROOT, **env: str) -> tuple[int, str]:
    """The exit status of a make command, and what it said."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")} | env
    done = subprocess.run(
        ["make", *args], cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.returncode, done.stdout


TARGETS = {
    "book": ["tools execute --changed", "tools build"],
    "pdf": ["tools build", "tools pdf"],
    "test": ["ruff check", "mypy", "lsalib tests/library", "tests/tools", "tools validate", "tests/site"],
    "check NAME=heads": ["tools check heads"],
    "page NAME=first_light": ['tools page "first_light"', "tools execute first_light", "tools ledger"],
    "profile NAME=heads": ["tools profile heads"],
    "notebook NAME=heads": ["tools execute heads", "tools ledger"],
    "notebooks": ["tools execute --all", "tools ledger"],
    "data": ["lsalib.sts data"],
    "address URL=": ['tools address ""'],
}


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_runs_its_commands_in_this_order(target):
    said = dry_run(*target.split())
    found = [said.find(f"-m {command}" if command.startswith("tools ") else command) for command in TARGETS[target]]
    assert found[0] >= 0 and found == sorted(found)


def test_help_lists_the_targets():
    listed = {line.split()[0] for line in run("help")[1].splitlines()}
    assert {target.split()[0] for target in TARGETS} <= listed and run("no-such-target")[0] != 0


@pytest.mark.parametrize("target", ["notebook", "check", "page", "profile", "address", "notebook NAME="])
def test_a_missing_name_or_address_is_reported(target):
    status, said = run(*target.split(), NAME="from-the-environment", URL="https://github.com/from/environment")
    command = target.split()[0]
    assert status != 0 and f"make {command} {'URL=https://…' if command == 'address' else 'NAME=…'}" in said


def test_unknown_packages_are_refused():
    status, said = run("setup", "PACKAGES=oldest")
    assert status != 0 and "PACKAGES must be locked, newest, lowest or lowest-book, got oldest" in said


@pytest.mark.parametrize("name", tools.COMMANDS)
def test_each_tool_says_how_it_is_used(name, capsys):
    with pytest.raises(SystemExit) as stop:
        tools.main([name, "--help"])
    assert stop.value.code == 0 and capsys.readouterr().out.startswith("usage: ")


@pytest.mark.parametrize("arguments", [[], ["huge"]])
def test_an_unknown_tool_is_refused_with_the_list(arguments):
    with pytest.raises(SystemExit, match=r"(?s)usage: .*execute .*build "):
        tools.main(arguments)


COUNT = """
import jax
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
for n in range(5):
    jax.jit(lambda x: n * x)(1.0)
print(*(events.count(f"/jax/compilation_cache/cache_{kind}") for kind in ("misses", "hits")))
"""


def test_compiled_programs_are_kept_for_the_next_process(tmp_path):
    def start(folder: Path | str) -> subprocess.Popen[str]:
        exported = run("--silent", "--eval=show: ; @env", "show", f"LSALIB_PROGRAMS={folder}")[1].splitlines()
        env = dict(line.split("=", 1) for line in exported if line.startswith(("JAX_", "PATH=", "HOME=")))
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([sys.executable, "-c", COUNT], env=env, cwd=tmp_path, **pipes)

    def counts(process: subprocess.Popen[str]) -> list[int]:
        said, complaints = process.communicate()
        assert (process.returncode, complaints) == (0, "")
        return list(map(int, said.split()))

    both = [start(tmp_path / "kept") for _ in range(2)]
    assert all(misses + hits == 5 for misses, hits in map(counts, both))
    assert counts(start(tmp_path / "kept")) == [0, 5]
    # Control: an empty folder name keeps nothing.
    assert counts(start(""))[1] == counts(start(""))[1] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_profile_counts_the_programs_of_each_cell(tmp_path):
    cells = "import jax\n\njax.jit(lambda x: x + 1)(1.0).item()", "x = 1"
    make(tmp_path, "\n# T\n" + "".join(f"\n```{{code-cell}} ipython3\n{cell}\n```\n" for cell in cells))
    page = Page(tmp_path, "tiny")
    total, (install, compiles, plain) = profile.of_page(page)
    assert [name for name, _ in compiles[1].programs] == ["jit(<lambda>)"] == [name for name, _ in total.programs]
    assert install[1].programs == plain[1].programs == [] and plain[0] == "x = 1"
    assert total.wall > compiles[1].wall > compiles[1].compiling > 0
    assert "tiny: " in profile.report(page, keep=False)


# Stand-ins for a machine's programs; each notes its arguments.
STAND_INS = dict.fromkeys(("apt-get", "git", "python3", "chromium", "rm"), 'echo "${0##*/} $*" >> calls')
STAND_INS["make"] = 'echo "make $*, ${LSALIB_STS_DATA-no data}" >> calls'


def gate(root: Path, *missing: str, **env: str) -> list[str]:
    """What the gate calls on a machine without these programs."""
    (root / "bin").mkdir(parents=True)
    shutil.copytree(ROOT / ".ci", root / ".ci")
    for name in STAND_INS.keys() - set(missing):
        (root / "bin" / name).write_text(f"#!/bin/sh\n{STAND_INS[name]}\n")
        (root / "bin" / name).chmod(0o755)
    for name, program in {"dirname": "dirname", "id": "id", "sudo": "env"}.items():
        (root / "bin" / name).symlink_to(str(shutil.which(program)))
    command, env = [str(shutil.which("bash")), ".ci/run"], {"PATH": str(root / "bin"), **env}
    subprocess.run(command, cwd=root, env=env, capture_output=True, timeout=60)
    return [call for call in (root / "calls").read_text().splitlines() if not call.startswith("python3")]


def test_the_gate_installs_what_is_missing_and_runs_everything(tmp_path):
    calls = ["make data, no data", "make test, no data", "rm -rf _build", "make book, no data"]
    assert gate(tmp_path / "whole") == calls
    installed = gate(tmp_path / "bare", "git", "python3", "chromium")[:2]
    assert installed[0].startswith("apt-get update") and installed[1].endswith(" git python3 python3-venv chromium")


@pytest.mark.parametrize(("env", "found"), [({}, "{}/shared/data/stsb"), ({"LSALIB_STS_DATA": "/other"}, "/other")])
def test_the_gate_takes_the_sentence_pairs_beside_the_checkout(env, found, tmp_path):
    (tmp_path / "shared/data/stsb").mkdir(parents=True)
    assert gate(tmp_path / "checkout", **env)[0] == f"make data, {found.format(tmp_path)}"
