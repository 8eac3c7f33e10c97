"""What became of the planted defects, for the page that shows it: python -m studies.trust.report

Joins planted.toml, the list, and planted.json, what caught each, and writes both into the package, where a hosted
notebook finds them, too.
"""

import json
from pathlib import Path

from studies.trust import planted as mutants

ROOT = Path(__file__).resolve().parents[2]
STORE = Path("studies/results/trust/defects.json")


def together(root: Path) -> list[dict]:
    """One entry a defect with a result: where and what it is, what caught it, at first and now, and what pages said."""
    found = mutants.results(root)
    entries = []
    for name, mutant in mutants.mutants(root).items():
        if name in found and found[name].print == mutant.print:
            result = found[name]._asdict()
            entries.append(mutant._asdict() | {of: result[of] for of in ("first", "now", "asked", "page")})
    return entries


def text(root: Path) -> str:
    """A line for each defect, so that a change can be read."""
    entries = together(root)
    if unasked := [entry["name"] for entry in entries if entry["asked"] is None]:
        raise SystemExit(f"No page was asked yet; run: python -m studies.trust.planted --pages {' '.join(unasked)}")
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    return f"[\n{lines}\n]\n"


if __name__ == "__main__":
    (ROOT / STORE).write_text(text(ROOT), encoding="utf-8")
