"""The workflows say what their schema allows, and publish only what was tested."""

import os
import subprocess
import sys

import pytest
import yaml
from tiny_book import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def violations(*paths) -> str:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", *paths]
    checked = subprocess.run(command, capture_output=True, text=True)
    return "" if checked.returncode == 0 else checked.stdout + checked.stderr


def commands(name: str) -> list[str]:
    workflow = yaml.safe_load((ROOT / ".github/workflows" / name).read_text())
    return [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]


def test_workflows_follow_their_schema():
    assert [path.name for path in WORKFLOWS] == ["newest-jax.yml", "publish.yml", "test.yml"]
    assert violations(*WORKFLOWS) == ""


def test_a_workflow_that_does_not_is_seen(tmp_path):
    broken = tmp_path / "broken.yml"
    broken.write_text((ROOT / ".github/workflows/test.yml").read_text().replace("runs-on", "runs-at"))
    assert "runs-at" in violations(broken)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_read_and_no_more(path):
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_job_runs_in_a_container(path):
    """There git takes the checkout for someone else's, and the image's browser is missing."""
    assert [name for name, job in yaml.safe_load(path.read_text())["jobs"].items() if "container" in job] == []


def test_the_tests_are_the_gate():
    assert commands("test.yml") == [".ci/run"]


def test_programs_are_kept_where_the_makefile_keeps_them():
    """On a runner, whose cache folder is the usual one."""
    steps = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]["test"]["steps"]
    (kept,) = [step["with"]["path"] for step in steps if step.get("uses", "").startswith("actions/cache@")]
    env = {**os.environ, "HOME": "/home/runner"}
    for name in ("LSALIB_PROGRAMS", "XDG_CACHE_HOME"):
        env.pop(name, None)
    said = subprocess.run(
        ["make", "--print-data-base", "--dry-run", "help"], cwd=ROOT, env=env, capture_output=True, text=True
    ).stdout
    (folder,) = [line.split("=", 1)[1].strip() for line in said.splitlines() if line.startswith("LSALIB_PROGRAMS")]
    assert folder.replace("$(or $(XDG_CACHE_HOME),$(HOME)/.cache)", "~/.cache") == kept


def test_publishing_writes_the_address_before_it_builds():
    written, compared, built = commands("publish.yml")
    assert [written, built] == ['make address URL="$GITHUB_SERVER_URL/$GITHUB_REPOSITORY"', "make book"]
    assert "BOOK_COLAB=no" in compared


@pytest.mark.parametrize(
    ("now", "colab", "notice"),
    [("committed", "", ""), ("other", "BOOK_COLAB=no\n", "make address URL=https://github.com/o/r, and commit")],
)
def test_publishing_leads_to_colab_only_where_the_address_is_committed(now, colab, notice, tmp_path):
    page, env = tmp_path / "page.ipynb", tmp_path / "env"
    page.write_text("committed")
    for command in (["init", "--quiet"], ["add", "page.ipynb"], ["commit", "--quiet", "--message=state"]):
        subprocess.run(
            ["git", "-c", "user.name=test", "-c", "user.email=test@localhost", *command], cwd=tmp_path, check=True
        )
    page.write_text(now)
    env.touch()
    variables = os.environ | {
        "GITHUB_ENV": str(env),
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "o/r",
    }
    script = commands("publish.yml")[1]
    said = subprocess.run(
        ["bash", "-e", "-c", script], cwd=tmp_path, env=variables, capture_output=True, text=True, check=True
    ).stdout
    assert env.read_text() == colab and notice in said and said.startswith("::notice::" if notice else "")


def test_newest_jax_is_tested_after_the_lock_is_installed():
    steps = commands("newest-jax.yml")
    order = ["make setup", ".venv/bin/python -m pip install --upgrade jax jaxlib optax", "make data", "make test"]
    assert [steps.index(step) for step in order] == sorted(steps.index(step) for step in order)
