"""The numbers that the built book gives to its theorems, equations and figures; notebooks show the same."""

import re
from collections import Counter
from pathlib import Path

import yaml

# A theorem-like directive with its label, a labeled equation, or a cell's figure.
LABELLED = re.compile(
    r"^[:`]{3,}\{prf:(?P<kind>\w+)\}[^\n]*\n(?::\w+:[^\n]*\n)*?:label: (?P<theorem>\S+)"
    r"|^\$\$ *\((?P<equation>[\w:-]+)\)"
    r"|^ +figure:\n(?: +[^\n]*\n)*? +name: (?P<figure>\S+)",
    re.MULTILINE,
)


def title(md: Path) -> str:
    """A page's first heading; its name without one."""
    heading = re.search(r"^# (.+)$", md.read_text(encoding="utf-8"), re.MULTILINE) if md.is_file() else None
    return heading[1] if heading else md.stem


def chapters(root: Path) -> dict[str, int]:
    """Each numbered chapter's number, by the name of its page."""
    parts = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8")).get("parts", [])
    files = [chapter["file"] for part in parts if part.get("numbered") for chapter in part["chapters"]]
    return {Path(name).stem: number for number, name in enumerate(files, start=1)}


def labels(root: Path) -> dict[str, tuple[str, str]]:
    """For each label in a numbered chapter, its page and its name in the book: "Theorem 2.1", "(2.1)", "Figure 2.1"."""
    found: dict[str, tuple[str, str]] = {}
    for stem, chapter in chapters(root).items():
        page, counts = root / "book" / f"{stem}.md", Counter[str]()
        for match in LABELLED.finditer(page.read_text(encoding="utf-8")) if page.is_file() else ():
            group = match.lastgroup or ""
            kind = match["kind"] or group
            counts[kind] += 1
            number = f"{chapter}.{counts[kind]}"
            found[match[group]] = stem, f"({number})" if kind == "equation" else f"{kind.capitalize()} {number}"
    return found
