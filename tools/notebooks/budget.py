"""How many programs a page may compile: its entry in book/programs.toml."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

from tools.notebooks.pages import Page


def allowed(page: Page) -> int | None:
    """The page's entry; None where there is none."""
    path = page.root / "book/programs.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")).get(page.stem) if path.is_file() else None


def meant_for(root: Path) -> str | None:
    """The JAX that requirements.txt names: another one cuts the same computation into other programs."""
    path = root / "requirements.txt"
    named = re.search(r"^jax==([^\s;]+)", path.read_text(encoding="utf-8"), re.MULTILINE) if path.is_file() else None
    return named[1] if named else None


def binding(page: Page) -> bool:
    """Whether the limits are for the JAX that is installed; where none is named, they are."""
    return meant_for(page.root) in (None, version("jax"))


def defects(page: Page, compiled: int) -> list[str]:
    """What is wrong with so many programs; empty if nothing is."""
    limit = allowed(page)
    if limit is None:
        return [f"book/programs.toml: no entry for {page.stem}, which compiles {compiled} programs"]
    if compiled > limit and binding(page):
        return [
            f"book/{page.stem}.md compiles {compiled} programs, {limit} are allowed by book/programs.toml: "
            f"make profile NAME={page.stem} shows where"
        ]
    return []
