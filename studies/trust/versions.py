"""With which versions the tests have passed: ``… 2>&1 | python -m studies.trust.versions PART``.

Run by the Python under which the tests ran, it reads what they printed, shows it, and adds to the stored versions.json
the versions of all that pyproject.toml names and how many tests of this part passed. Where one failed it adds nothing.

    make test-library PACKAGES=lowest 2>&1 | .venv-lowest/bin/python -m studies.trust.versions library
"""

import argparse
import json
import platform
import re
import sys
import tomllib
from collections.abc import Iterable
from datetime import date
from importlib import metadata
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STORE = Path("studies/results/trust/versions.json")
SETS = {
    ".venv": "locked",
    ".venv-lowest": "lowest",
    ".venv-lowest-book": "lowest-book",
    ".venv-newest": "newest",
}
# The last line of pytest, with «=» around it or, in quiet runs, without.
SUMMARY = re.compile(r"^(?:=+ )?(?=\d+ (?:passed|failed|error))(.*) in [\d.]+s", re.MULTILINE)


def counts(log: str) -> dict[str, int]:
    """What pytest counted, over all its runs in this log: passed, failed, skipped."""
    found: dict[str, int] = {}
    for summary in SUMMARY.findall(log):
        for number, what in re.findall(r"(\d+) (\w+)", summary):
            found[what.rstrip("s")] = found.get(what.rstrip("s"), 0) + int(number)
    return found


def asked(root: Path) -> list[str]:
    """The packages that pyproject.toml names."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = chain(project["dependencies"], *project["optional-dependencies"].values())
    return sorted({re.match(r"[\w.-]+", each)[0] for each in named})  # type: ignore[index]


def installed(names: Iterable[str]) -> dict[str, str]:
    """Those of them that are here; of a set without the book's packages, the others."""
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def add(path: Path, packages: str, part: str, passed: int, skipped: int, versions: dict[str, str]) -> None:
    """An entry of its own for each set of packages and each Python; its parts are what passed with these versions."""
    entries = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    same = {"packages": packages, "python": platform.python_version(), "versions": versions}
    kept = [entry for entry in entries if entry["packages"] != packages or entry["python"] != same["python"]]
    parts = next((e["parts"] for e in entries if e not in kept and e["versions"] == versions), {})
    parts[part] = {"passed": passed, "skipped": skipped, "date": f"{date.today()}"}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([*kept, {**same, "parts": parts}], indent=1) + "\n", encoding="utf-8")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.trust.versions", description="Note what passed with what.")
    parser.add_argument("part", help="what ran: library, notebooks, book, pages")
    parser.add_argument("--packages", choices=SETS.values(), help="which set (default: as this environment is called)")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout (default: this one)")
    args = parser.parse_args(argv)
    packages = args.packages or SETS.get(Path(sys.prefix).name)
    if packages is None:
        parser.error(f"{Path(sys.prefix).name} is none of {', '.join(SETS)}; say --packages")
    log = ""
    for line in sys.stdin:
        print(line, end="", flush=True)
        log += line
    found = counts(log)
    if not found.get("passed") or found.get("failed") or found.get("error"):
        raise SystemExit(f"nothing added: {found or 'no summary of pytest'}")
    versions = installed(asked(args.root))
    add(args.root / STORE, packages, args.part, found["passed"], found.get("skipped", 0), versions)
    print(f"{packages}, Python {platform.python_version()}: {args.part}, {found['passed']} passed")


if __name__ == "__main__":
    main()
