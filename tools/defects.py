"""What became of the planted defects, for the page that shows it: python -m tools.defects

Reads tests/mutants.toml, the list, and tests/mutants.json, what caught each, and writes both together into the package,
where a hosted notebook finds them, too.
"""

import json
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STORE = Path("lsalib/data/trust/defects.json")


def together(root: Path) -> list[dict]:
    """One entry a defect: where and what it is, what caught it, when it was new and now, and what pages said of it."""
    listed = tomllib.loads((root / "tests/mutants.toml").read_text(encoding="utf-8"))["mutant"]
    caught = json.loads((root / "tests/mutants.json").read_text(encoding="utf-8"))
    blank = {"aimed": False, "equivalent": ""}
    return [
        {"name": name} | blank | entry | {of: caught[name][of] for of in ("first", "now", "asked", "page")}
        for name, entry in listed.items()
        if name in caught
    ]


def text(root: Path) -> str:
    """A line for each defect, so that a change can be read."""
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in together(root))
    return f"[\n{lines}\n]\n"


if __name__ == "__main__":
    (ROOT / STORE).write_text(text(ROOT), encoding="utf-8")
