"""The files for GitHub follow its schemas, run pinned actions, and publish only what was tested."""

import re
import subprocess
import sys

import pytest
import yaml
from tiny_book import ROOT

WORKFLOWS = {path.stem: path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")}
JOBS = {name: yaml.safe_load(text)["jobs"] for name, text in WORKFLOWS.items()}
SCHEMAS = {
    "github-workflows": ".github/workflows/*.yml",
    "dependabot": ".github/dependabot.yml",
    "github-issue-forms": ".github/ISSUE_TEMPLATE/*.yml",
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_file_follows_its_schema(schema):
    """GitHub understands the workflows, the list of updates and the issue forms."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, *sorted(ROOT.glob(SCHEMAS[schema]))], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_action_is_pinned_to_one_commit():
    """A tag can be moved to other code; a commit cannot."""
    uses = [use for use in re.findall(r"uses: *(.+)", "".join(WORKFLOWS.values())) if not use.startswith("./")]
    assert len(uses) > 10 and [use for use in uses if not re.fullmatch(r"\S+@[0-9a-f]{40} # v[\d.]+", use)] == []


@pytest.mark.parametrize(("workflow", "job"), [("book", "deploy"), ("release", "publish")])
def test_nothing_is_published_without_the_tests(workflow, job):
    """What is published needs the workflow of the tests, which runs every part of them."""
    (tests,) = (name for name, other in JOBS[workflow].items() if other.get("uses") == "./.github/workflows/test.yml")
    assert tests in JOBS[workflow][job]["needs"] and "if" not in JOBS[workflow][job]
    (parts,) = re.findall(r"^test: ([\w -]+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    run = {step.get("run") for job in JOBS["test"].values() for step in job["steps"] if "if" not in job}
    assert {f"make {part}" for part in parts.split()} <= run and len(parts.split()) >= 4
