"""Note with which versions the tests passed: … 2>&1 | python -m studies.trust.versions PACKAGES PART

    make test-library PACKAGES=lowest 2>&1 | .venv-lowest/bin/python -m studies.trust.versions lowest library

Run it with the Python that ran the tests. It shows what pytest prints and adds to the stored versions.json how many
tests of this part passed, and the versions of all packages that pyproject.toml names. If one failed, it adds nothing.
"""

import argparse
import json
import platform
import re
import sys
import tomllib
from collections import Counter
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

from lsalib import _files
from studies.provenance import provenance
from studies.trust import STORE

ROOT = Path(__file__).resolve().parents[2]
# The last line of pytest, with «=» around it or, in quiet runs, without.
SUMMARY = re.compile(r"^(?:=+ )?(?=\d+ (?:passed|failed|error))(.*) in [\d.]+s", re.MULTILINE)


def counts(log: str) -> Counter[str]:
    """What pytest counted over all its runs in this log: passed, failed, error, skipped."""
    found: Counter[str] = Counter()
    for summary in SUMMARY.findall(log):
        found.update({what.rstrip("s"): int(number) for number, what in re.findall(r"(\d+) (\w+)", summary)})
    return found


def installed(root: Path) -> dict[str, str]:
    """The packages that pyproject.toml names, as far as they are here."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = chain(project["dependencies"], *project["optional-dependencies"].values())
    names = {re.split(r"[^\w.-]", each)[0] for each in wanted}
    present = {each.name.lower().replace("_", "-") for each in metadata.distributions()}
    return {name: metadata.version(name) for name in sorted(names) if name.lower().replace("_", "-") in present}


def add(root: Path, packages: str, part: str, found: Counter[str]) -> None:
    """One entry for each set of packages and each Python; its parts passed with these very versions."""
    path, same = root / STORE / "versions.json", {"packages": packages, "python": platform.python_version()}
    entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    old = next((each for each in entries if same.items() <= each.items()), {})
    new = same | {"versions": installed(root)}
    parts = old["parts"] if old and old["versions"] == new["versions"] else {}
    parts[part] = {
        "passed": found["passed"],
        "skipped": found["skipped"],
        **provenance("python -m studies.trust.versions"),
    }
    entries = [*(each for each in entries if each is not old), new | {"parts": parts}]
    _files.write(path, (json.dumps(entries, indent=1) + "\n").encode())


def main(argv: list[str] | None = None, root: Path = ROOT) -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.trust.versions", description="Note what passed with what.")
    parser.add_argument("packages", help="which packages: locked, lowest, lowest-book, newest")
    parser.add_argument("part", help="what ran: library, notebooks, book, pages")
    args = parser.parse_args(argv)
    lines = []
    for line in sys.stdin:
        print(line, end="", flush=True)
        lines.append(line)
    found = counts("".join(lines))
    if not found["passed"] or found["failed"] or found["error"]:
        raise SystemExit(f"nothing added: {dict(found) or 'no summary of pytest'}")
    add(root, args.packages, args.part, found)


if __name__ == "__main__":
    main()
