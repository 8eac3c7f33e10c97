"""What GitHub is told to do follows its schemas, runs pinned actions, and publishes only what was tested."""

import copy
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tiny_book import ROOT, commit, dry_run

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TEST, RELEASE = (yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text()) for name in ("test", "release"))
SCHEMAS = {
    "github-workflows": ".github/workflows/*.yml",
    "dependabot": ".github/dependabot.yml",
    "github-issue-forms": ".github/ISSUE_TEMPLATE/*.yml",
}


def violations(schema: str, *paths: Path) -> str:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *paths]
    checked = subprocess.run(command, capture_output=True, text=True)
    return "" if checked.returncode == 0 else checked.stdout + checked.stderr


def commands(workflow: dict, *jobs: str) -> list[str]:
    named = jobs or workflow["jobs"]
    return [step["run"] for job in named for step in workflow["jobs"][job]["steps"] if "run" in step]


def actions(job: dict) -> list[str]:
    """The actions of a job, without their versions."""
    return [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_file_follows_its_schema(schema, tmp_path):
    paths = sorted(ROOT.glob(SCHEMAS[schema]))
    assert paths and violations(schema, *paths) == ""
    # The control: another first key.
    broken = tmp_path / paths[0].name
    broken.write_text(re.sub(r"^\w+:", "nonsense:", paths[0].read_text(), count=1, flags=re.MULTILINE))
    assert "nonsense" in violations(schema, broken)


def test_one_workflow_tests_and_publishes_the_book_and_one_releases():
    assert [path.name for path in WORKFLOWS] == ["release.yml", "studies.yml", "test.yml"]


def unpinned(text: str) -> list[str]:
    """Actions that are not named by a full commit with their version beside it: a tag can be moved."""
    uses = re.findall(r"^\s*(?:- )?uses: *(.+)$", text, re.MULTILINE)
    return [use for use in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use)]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned(path):
    text = path.read_text()
    assert text.count("uses:") >= 4 and unpinned(text) == []


@pytest.mark.parametrize("planted", ["@v5", "@main", "@de0fac2e # v6.0.2", "@de0fac2e4500dabe0009e67214ff5f5447ce83dd"])
def test_an_action_that_is_not_is_seen(planted):
    text = re.sub(r"(actions/checkout)@.*", rf"\1{planted}", WORKFLOWS[1].read_text(), count=1)
    assert unpinned(text) == [f"actions/checkout{planted}"]


def test_an_action_is_the_same_commit_everywhere():
    named = {use for path in WORKFLOWS for use in re.findall(r"uses: (\S+)@(\S+)", path.read_text())}
    assert len(named) == len({action for action, _ in named})


def may_write(workflow: dict) -> dict[str, dict]:
    """What jobs may do beyond reading; all of it if the workflow itself may do more."""
    if workflow.get("permissions") != {"contents": "read"}:
        return {"": workflow.get("permissions")}
    return {name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job}


def test_only_what_publishes_may_write():
    assert may_write(TEST) == {"deploy": {"pages": "write", "id-token": "write"}}
    assert may_write(RELEASE) == {"publish": {"id-token": "write"}}
    assert may_write(TEST | {"permissions": "write-all"}) == {"": "write-all"}, "the control"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_job_runs_in_a_container(path):
    """There git takes the checkout for someone else's, and the image's browser is missing."""
    assert [name for name, job in yaml.safe_load(path.read_text())["jobs"].items() if "container" in job] == []


def test_the_jobs_run_all_that_make_test_runs():
    (parts,) = re.findall(r"^test: (.*)$", dry_run("--print-data-base", "help"), re.MULTILINE)
    ran = {command.removeprefix("make ") for command in commands(TEST)}
    assert len(parts.split()) == 4 and set(parts.split()) <= ran
    gate = (ROOT / ".ci/run").read_text()
    assert re.findall(r"^make .*$", gate, re.MULTILINE) == ["make data", "make test", "make book"]


def test_the_library_is_tested_on_every_python_and_with_the_lowest_and_newest_packages():
    job = TEST["jobs"]["library"]
    runs = {(run["python"], run["packages"]) for run in job["strategy"]["matrix"]["include"]}
    assert runs == {("3.11", "locked"), ("3.11", "lowest"), ("3.12", "newest"), ("3.13", "newest")}
    assert job["env"] == {"PACKAGES": "${{ matrix.packages }}"}


def test_every_week_the_book_is_tested_with_the_oldest_and_the_newest_packages():
    triggers = TEST[True]  # what YAML makes of the word «on»
    assert re.fullmatch(r"\d+ \d+ \* \* \d", triggers["schedule"][0]["cron"])
    weekly = """${{ fromJSON(github.event_name == 'schedule' && '["newest", "lowest-book"]' || '["locked"]') }}"""
    for job in (TEST["jobs"]["notebooks"], TEST["jobs"]["book"]):
        assert job["strategy"]["matrix"] == {"packages": weekly}
        assert job["env"] == {"PACKAGES": "${{ matrix.packages }}"}


def test_of_several_books_only_the_usual_one_is_handed_on():
    steps = [step for step in TEST["jobs"]["book"]["steps"] if "upload-pages-artifact" in step.get("uses", "")]
    assert [step["if"] for step in steps] == ["matrix.packages == 'locked'"]


@pytest.mark.parametrize("job", ["library", "notebooks"])
def test_programs_are_kept_where_the_makefile_keeps_them(job):
    """On a runner, whose cache folder is the usual one."""
    steps = TEST["jobs"][job]["steps"]
    (kept,) = [step["with"]["path"] for step in steps if step.get("uses", "").startswith("actions/cache@")]
    env = {name: value for name, value in os.environ.items() if name not in ("LSALIB_PROGRAMS", "XDG_CACHE_HOME")}
    said = dry_run("--print-data-base", "help", env=env | {"HOME": "/home/runner"})
    (folder,) = [line.split("=", 1)[1].strip() for line in said.splitlines() if line.startswith("LSALIB_PROGRAMS")]
    assert folder.replace("$(or $(XDG_CACHE_HOME),$(HOME)/.cache)", "~/.cache") == kept.split()[0]
    assert kept.split()[1:] == ["~/.cache/lsalib/stsb"]


def publishing_defects(workflow: dict) -> list[str]:
    """What would let readers get something else than what was tested on main."""
    jobs = workflow["jobs"]
    book, deploy = jobs["book"], jobs["deploy"]
    does = [step.get("run") or step["uses"] for step in book["steps"]]
    order = [found[0] for what in does if (found := re.search(r"^make [\w-]+|upload-pages", what, re.MULTILINE))]
    defects = []
    if order != ["make address", "make pdf", "make test-book", "upload-pages"]:
        defects.append("the book is not addressed, built, tested and handed on in this order")
    if [step.get("env") for step in book["steps"] if step.get("run") == "make test-book"] != [
        {"BOOK_HTML": step["with"]["path"]} for step in book["steps"] if "upload-pages" in step.get("uses", "")
    ]:
        defects.append("another book is tested than handed on")
    if set(deploy["needs"]) != jobs.keys() - {"deploy"}:
        defects.append("deploy does not wait for every job")
    if deploy["if"] != "github.event_name == 'push' && github.ref == 'refs/heads/main'":
        defects.append("deploy runs elsewhere than on main")
    if commands(workflow, "deploy") or actions(deploy) != ["actions/deploy-pages"]:
        defects.append("deploy makes something of its own")
    return defects


def test_what_was_tested_is_what_is_published():
    assert publishing_defects(TEST) == []


def spoilt(change) -> dict:
    workflow = copy.deepcopy(TEST)
    change(workflow["jobs"])
    return workflow


@pytest.mark.parametrize(
    ("change", "defect"),
    [
        (lambda jobs: jobs["deploy"]["steps"].insert(0, {"run": "make book"}), "deploy makes something of its own"),
        (lambda jobs: jobs["deploy"]["needs"].remove("notebooks"), "deploy does not wait for every job"),
        (lambda jobs: jobs["deploy"].update({"if": "github.ref == 'refs/heads/main'"}), "deploy runs elsewhere"),
        (lambda jobs: jobs["book"]["steps"].insert(2, jobs["book"]["steps"].pop()), "is not addressed, built, tested"),
        (lambda jobs: jobs["book"]["steps"][-1]["with"].update(path="_site"), "another book is tested"),
        (lambda jobs: jobs["book"]["steps"][-2].pop("env"), "another book is tested"),
    ],
)
def test_what_would_publish_something_else_is_seen(change, defect):
    assert [found for found in publishing_defects(spoilt(change)) if defect in found]


# Stands for make, or for Python, and says what it saw.
MAKE = '#!/bin/sh\necho "made with BOOK_COLAB=${BOOK_COLAB-unset}"\n'
PYTHON = '#!/bin/sh\necho "1.2.3"\n'


def shell(script: str, folder: Path, program: str, text: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub does, with a program in front of all others."""
    (folder / "bin").mkdir()
    (folder / "bin" / program).write_text(text)
    (folder / "bin" / program).chmod(0o755)
    variables = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"} | env
    variables.pop("BOOK_COLAB", None)
    return subprocess.run(["bash", "-e", "-c", script], cwd=folder, env=variables, capture_output=True, text=True)


@pytest.mark.parametrize(("now", "colab", "notice"), [("committed", "unset", False), ("other", "no", True)])
def test_the_book_leads_to_colab_only_where_the_address_is_committed(now, colab, notice, tmp_path):
    page = tmp_path / "page.ipynb"
    page.write_text("committed")
    commit(tmp_path)
    page.write_text(now)
    (script,) = [command for command in commands(TEST, "book") if "git diff" in command]
    repository = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "o/r"}
    said = shell(script, tmp_path, "make", MAKE, **repository).stdout
    assert said.endswith(f"made with BOOK_COLAB={colab}\n")
    assert ("::notice::" in said and "make address URL=https://github.com/o/r, and commit" in said) is notice


@pytest.mark.parametrize(("tag", "status"), [("v1.2.3", 0), ("v1.2.4", 1), ("1.2.3", 1)])
def test_a_release_has_the_version_of_its_tag(tag, status, tmp_path):
    (script,) = [command for command in commands(RELEASE, "build") if "__version__" in command]
    done = shell(script, tmp_path, "python", PYTHON, GITHUB_REF_NAME=tag)
    assert done.returncode == status
    assert ("::error::" in done.stdout) is (status == 1)


def test_a_release_publishes_what_was_built_and_looked_at():
    assert RELEASE[True] == {"push": {"tags": ["v*"]}}
    build, publish = RELEASE["jobs"]["build"], RELEASE["jobs"]["publish"]
    does = [step.get("run") or step["uses"].partition("@")[0] for step in build["steps"]]
    order = [next(n for n, what in enumerate(does) if part in what) for part in ("-m build", "__version__", "upload")]
    assert order == sorted(order)
    assert publish["needs"] == "build" and publish["environment"] == "pypi"
    assert actions(publish) == ["actions/download-artifact", "pypa/gh-action-pypi-publish"]
    assert commands(RELEASE, "publish") == []


def test_a_commit_is_held_against_what_the_tests_hold_it_against():
    repos = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [hook["entry"] for repo in repos for hook in repo["hooks"]] == ["make lint"]
