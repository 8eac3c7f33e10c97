"""How many programs a page may compile: its entry in book/programs.toml."""

import tomllib

from tools.pages import Page


def allowed(page: Page) -> int | None:
    """The page's entry; None where there is none."""
    path = page.root / "book/programs.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")).get(page.stem) if path.is_file() else None


def defects(page: Page, compiled: int) -> list[str]:
    """What is wrong with so many programs; empty if nothing is."""
    limit = allowed(page)
    if limit is None:
        return [f"book/programs.toml: no entry for {page.stem}, which compiles {compiled} programs"]
    if compiled > limit:
        return [
            f"book/{page.stem}.md compiles {compiled} programs, {limit} are allowed by book/programs.toml: "
            f"make profile NAME={page.stem} shows where"
        ]
    return []
