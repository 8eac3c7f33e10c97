"""The files for GitHub follow its schemas, run pinned actions, and publish only what was tested."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tiny_book import ROOT

import lsalib

WORKFLOWS = {path.stem: path for path in (ROOT / ".github/workflows").glob("*.yml")}
JOBS = {name: yaml.safe_load(path.read_text())["jobs"] for name, path in WORKFLOWS.items()}
SCHEMAS = {
    "github-workflows": ".github/workflows/*.yml",
    "dependabot": ".github/dependabot.yml",
    "github-issue-forms": ".github/ISSUE_TEMPLATE/*.yml",
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_file_follows_its_schema(schema, tmp_path):
    paths = sorted(ROOT.glob(SCHEMAS[schema]))
    broken = tmp_path / paths[0].name
    broken.write_text(re.sub(r"^\w+:", "nonsense:", paths[0].read_text(), count=1, flags=re.MULTILINE))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    right, wrong = (subprocess.run([*command, *files], capture_output=True, text=True) for files in (paths, [broken]))
    assert right.returncode == 0, right.stdout
    assert wrong.returncode == 1 and "nonsense" in wrong.stdout, "the control"


def test_every_action_is_pinned_to_one_commit():
    """A tag can be moved to other code; a commit cannot."""
    text = "".join(path.read_text() for path in WORKFLOWS.values())
    uses = [use for use in re.findall(r"uses: *(.+)", text) if not use.startswith("./")]
    assert len(uses) > 10 and [use for use in uses if not re.fullmatch(r"\S+@[0-9a-f]{40} # v[\d.]+", use)] == []
    assert len(set(uses)) == len({use.partition("@")[0] for use in uses})


@pytest.mark.parametrize(("workflow", "job"), [("book", "deploy"), ("release", "publish")])
def test_nothing_is_published_without_the_tests(workflow, job):
    (tests,) = (name for name, other in JOBS[workflow].items() if other.get("uses") == "./.github/workflows/test.yml")
    assert tests in JOBS[workflow][job]["needs"] and "if" not in JOBS[workflow][job]
    # They run no code of the repository, since they alone can prove to others who they are.
    trusted = [(name, each) for name, jobs in JOBS.items() for each in jobs if "id-token" in str(jobs[each])]
    assert sorted(trusted) == [("book", "deploy"), ("release", "publish")]
    assert not any("run" in step or "checkout" in step["uses"] for step in JOBS[workflow][job]["steps"])


def test_the_workflow_runs_every_part_of_the_tests():
    (parts,) = re.findall(r"^test: ([\w -]+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    run = {step.get("run") for job in JOBS["test"].values() for step in job["steps"] if "if" not in job}
    assert {f"make {part}" for part in parts.split()} <= run and len(parts.split()) >= 4


@pytest.mark.parametrize(("tag", "status"), [(f"v{lsalib.__version__}", 0), ("v0.0.0", 1)])
def test_a_release_has_the_version_of_its_tag(tag, status):
    (script,) = (step["run"] for step in JOBS["release"]["build"]["steps"] if "GITHUB_REF_NAME" in step.get("run", ""))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-e", "-c", script], env={"PATH": path, "GITHUB_REF_NAME": tag}, capture_output=True)
    assert done.returncode == status, done.stderr
