"""The workflows say what their schema allows, and publish only what was tested."""

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


def test_the_tests_are_the_gate():
    assert commands("test.yml") == [".ci/run"]


def test_publishing_writes_the_address_before_it_builds():
    assert commands("publish.yml") == ['make address URL="$GITHUB_SERVER_URL/$GITHUB_REPOSITORY"', "make book"]


def test_newest_jax_is_tested_after_the_lock_is_installed():
    steps = commands("newest-jax.yml")
    assert steps.index("make setup") < steps.index(".venv/bin/python -m pip install --upgrade jax jaxlib optax") < steps.index("make test")
