"""The tests in their three parts: every test is in one, and the library's part asks for nothing that the book needs."""

import re

from tiny_book import ROOT, dry_run


def parts() -> dict[str, list[str]]:
    """The tests of each part, as the Makefile hands them to pytest."""
    said = {part: dry_run(f"test-{part}") for part in ("library", "notebooks", "book")}
    return {part: re.findall(r"tests/test_\w+\.py", lines) for part, lines in said.items()}


def test_every_test_is_in_one_part():
    named = [name for part in parts().values() for name in part]
    assert sorted(named) == sorted(f"tests/{path.name}" for path in (ROOT / "tests").glob("test_*.py"))


# What only those have who build the book; tools.imports, meter and programs serve every test.
BOOK_ONLY = re.compile(
    r"^(?:from|import) (?:tiny_book|tests\.browser|yaml|nbformat|jupytext|sphinx|tools\.(?!imports|meter|programs))"
    r"|^from tools import (?!imports\b|meter\b|programs\b)",
    re.MULTILINE,
)


def test_the_library_s_part_needs_the_library_alone():
    """Its lowest packages are installed without those of the book."""
    needs = lambda name: BOOK_ONLY.search((ROOT / name).read_text())
    needs = {part: list(filter(needs, names)) for part, names in parts().items()}
    assert needs["library"] == []
    assert needs["book"] and "tests/test_notebooks.py" in needs["notebooks"], "the control: elsewhere it is seen"
