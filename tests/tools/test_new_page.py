"""A new page passes: we follow CONTRIBUTING.md in a copy of the checkout, up to building the book."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from tiny_book import ROOT, replace

from tools.notebooks import address, new_page

GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
(SECTION,) = re.findall(r"^## Add a page.*?(?=^## )", GUIDE, re.MULTILINE | re.DOTALL)
*STEPS, BOOK = [line for block in re.findall(r"```bash\n(.*?)```", SECTION, re.DOTALL) for line in block.splitlines()]
(STEM,) = {re.search(r"NAME=(\w+)", line)[1] for line in STEPS}
NOT_COPIED = (".git", ".venv*", "_build", "study-runs", "build", "*.egg-info", "__pycache__", ".*_cache")


def test_a_page_begins_passes_and_fails_when_it_says_something_wrong(tmp_path):
    """Every step of the recipe passes and shows the number and the claim; a wrong formula stops the page."""
    assert BOOK.startswith("make book") and [line.split()[1] for line in STEPS] == ["page", "notebook", "check"]
    project = tmp_path / "project"
    shutil.copytree(ROOT, project, ignore=shutil.ignore_patterns(*NOT_COPIED))
    address.main(["", "--root", str(project)])
    (project / ".venv").mkdir()
    (project / ".venv/.ready").touch()

    def run(line):
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PACKAGES"))}
        env, pipes = inherited | {"PYTHONPATH": str(project)}, {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        command = [*shlex.split(line), f"PY={sys.executable}"]
        done = subprocess.run(command, cwd=project, env=env, text=True, timeout=900, **pipes)
        return done.returncode, done.stdout

    for line in STEPS:
        status, said = run(line)
        assert status == 0, f"{line}: {said}"
    assert "5.238" in (project / f"book/{STEM}.ipynb").read_text()
    taken = f"book/{STEM}.md, book/{STEM}.ipynb, _toc.yml, book/claims.toml"
    for name, known in {STEM: taken, "claims": "book/claims.md, _toc.yml"}.items():
        with pytest.raises(SystemExit, match=re.escape(f"NAME={name} is taken, by {known}; choose another")):
            new_page.main([name, "--root", str(project)])
    replace(project / f"book/{STEM}.md", "return d * (d + 1) / (C + d + 1)", "return d * (d + 1) / (C + d)")
    status, said = run(f"make check NAME={STEM}")
    assert status and f"{STEM}.md has changed code" in said
    status, said = run(f"make notebook NAME={STEM}")
    assert status and "ClaimError" in said and f"{STEM}.ipynb is unchanged" in said


@pytest.mark.parametrize("name", ["../a", "Heads", "1st", "a-b", "a b", "_a", "a__b", "é"])
def test_a_bad_name_is_refused(name):
    """A page's name is made of small letters, digits and single underscores."""
    with pytest.raises(SystemExit, match=re.escape(f"NAME={name!r} is no page's name; expected small letters")):
        new_page.main([name])
