"""The numbers that the built book gives to its theorems, equations and figures, for readers of the notebooks."""

import re
from pathlib import Path

import yaml

# A theorem-like directive with its label, a labelled equation, a figure of a cell: in the order of the text.
LABELLED = re.compile(
    r"^[:`]{3,}\{prf:(?P<kind>\w+)\}[^\n]*\n(?::\w+:[^\n]*\n)*?:label: (?P<theorem>\S+)"
    r"|^\$\$ *\((?P<equation>[\w:-]+)\)"
    r"|^ +figure:\n(?: +[^\n]*\n)*? +name: (?P<figure>\S+)",
    re.MULTILINE,
)


def chapters(root: Path) -> dict[str, int]:
    """The chapters' numbers, by page."""
    parts = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8")).get("parts", [])
    files = [chapter["file"] for part in parts if part.get("numbered") for chapter in part["chapters"]]
    return {Path(name).stem: number for number, name in enumerate(files, start=1)}


def labels(root: Path) -> dict[str, tuple[str, str]]:
    """(page, «Theorem 2.1») for the label of each theorem, equation («(2.1)») and figure in a numbered chapter."""
    found = {}
    for stem, chapter in chapters(root).items():
        page, counts = root / "book" / f"{stem}.md", {}
        for match in LABELLED.finditer(page.read_text(encoding="utf-8")) if page.is_file() else ():
            kind = match["kind"] or match.lastgroup
            counts[kind] = number = counts.get(kind, 0) + 1
            name = f"({chapter}.{number})" if kind == "equation" else f"{kind.capitalize()} {chapter}.{number}"
            found[match[match.lastgroup]] = stem, name
    return found
