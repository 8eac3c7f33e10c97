"""The notebooks: changed pages are executed, and everything wrong with a page or its
notebook is reported.
"""

import re
import shutil
from pathlib import Path

import pytest
from nbformat.v4 import new_markdown_cell, new_output
from tiny_book import HEADER, edit, make, replace

from tools import __main__ as tools
from tools.notebooks import execute, glue
from tools.notebooks.pages import Book


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The tiny book, executed once."""
    root = tmp_path_factory.mktemp("executed")
    make(root)
    run(root)
    return root


@pytest.fixture
def root(executed, tmp_path):
    return shutil.copytree(executed, tmp_path / "book_copy")


def run(root: Path, *args: str) -> None:
    tools.main(["execute", *args, "--root", str(root)])


def fails(capsys, root: Path, *args: str) -> str:
    """What the command says when it fails, as it must."""
    with pytest.raises(SystemExit) as stop:
        run(root, *args)
    assert stop.value.code not in (None, 0)
    return f"{capsys.readouterr().out}{stop.value}"


def test_a_clean_book_passes_and_stays_as_it_is(root, capfd):
    """A second execution gives the same bytes, with the number that the page glues in
    its prose.
    """
    before = (root / "book/tiny.ipynb").read_bytes()
    assert b"The square is 30.251." in before
    run(root, "--changed")
    tools.main(["validate", "--root", str(root)])
    said = capfd.readouterr().out
    assert "tiny: up to date" in said and "3 passed" in said
    run(root, "tiny")
    assert (root / "book/tiny.ipynb").read_bytes() == before


# Cells: 0 about, 1 prose, 2 install, 3 glue, 4 prose, 5 sum.
NINE = {
    "data": {glue.GLUED: "9"},
    "metadata": {"scrapbook": {"name": "square"}},
}
NEVER_EXECUTED = {"execution_count": None, "outputs": []}
DIFFERS = "book/tiny.ipynb, not as its page makes it; run: make "
OTHER_CODE, OTHER_TEXT = f"{DIFFERS}notebook NAME=tiny", f"{DIFFERS}book"


def checked(root: Path, message: str) -> None:
    with pytest.raises(SystemExit, match=re.escape(message)):
        execute.check(Book(root).pages.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (NEVER_EXECUTED, "tiny-003: executed as number None"),
        ({"source": "2 + 3"}, OTHER_CODE),
        ({"metadata": {}}, OTHER_TEXT),
        (
            {"outputs": [new_output("display_data", **NINE)]},
            "glue “square”: glued with 2 different texts",
        ),
        (
            {"outputs": [new_output("stream", name="stderr", text="beware")]},
            "cell tiny-003: writes to stderr: beware",
        ),
    ],
)
def test_what_is_wrong_with_the_last_cell_is_reported(root, change, message):
    edit(root / "book/tiny.ipynb", lambda cells: cells[5].update(change))
    checked(root, message)


def test_a_cell_too_many_is_reported(root):
    more = new_markdown_cell("More.")
    edit(root / "book/tiny.ipynb", lambda cells: cells.append(more))
    checked(root, OTHER_TEXT)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2 + 2", "2 + 3", OTHER_CODE),
        ("shows the sum", "shows a sum", OTHER_TEXT),
        ("`square`", "`cube`", "book/tiny.ipynb, no cell glues “cube”"),
        ("the sum", "5.238", "book/tiny.md, line 25: 5.238 is typed by hand"),
    ],
)
def test_what_is_wrong_with_a_page_is_reported(root, old, new, message):
    replace(root / "book/tiny.md", old, new)
    checked(root, message)


def test_a_page_that_fails_leaves_the_notebook_unchanged(root, capsys):
    """The error names the cell."""
    page, notebook = root / "book/tiny.md", root / "book/tiny.ipynb"
    before = notebook.read_bytes()
    replace(page, "2 + 2", "1 / 0")
    said = fails(capsys, root, "--changed")
    for words in ("tiny-003", "ZeroDivisionError", "tiny.ipynb is unchanged"):
        assert words in said
    # found before the cell runs
    for role in ("{claim}`wrong-start`", "{cite:t}`wrong-start`"):
        replace(page, "shows the", f"shows {role} the")
        unknown = "book/tiny.md: no claim or source is called 'wrong-start'"
        assert unknown in fails(capsys, root, "--changed")
        replace(page, f"{role} ", "")
    assert notebook.read_bytes() == before


def test_changed_code_is_executed_and_changed_prose_is_not(root, capsys):
    """Of two pages only the one with other code runs; other prose is put into the
    notebook as it is.
    """
    page, more = root / "book/tiny.md", "shows a sum, of {glue:text}`square` kinds"
    replace(page, "shows the sum", more)
    run(root, "--changed")
    assert "tiny: prose updated" in capsys.readouterr().out
    shutil.copy(page, root / "book/twin.md")
    replace(page, "2 + 2", "2 + 3")
    run(root, "--changed")
    assert Book(root).pages["tiny"].stored.cells[5].outputs[0].data["text/plain"] == "5"
    execute.check(Book(root).pages.values())


def test_other_line_ends_are_written_as_on_unix_and_nothing_runs(root, capsys):
    notebook = root / "book/tiny.ipynb"
    before = notebook.read_bytes()
    for path in (notebook, root / "book/tiny.md"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    run(root, "--changed")
    assert "tiny: prose updated" in capsys.readouterr().out
    assert notebook.read_bytes() == before


def test_validation_fails_if_an_output_changes(root, capfd):
    """So does a notebook that was never executed, which nbval alone would pass."""
    notebook, five = root / "book/tiny.ipynb", {"text/plain": "5"}
    edit(notebook, lambda cells: cells[5].outputs[0].data.update(five))
    with pytest.raises(SystemExit, match="Some outputs differ"):
        tools.main(["validate", "tiny", f"--root={root}"])
    assert "Cell outputs differ" in capfd.readouterr().out
    edit(notebook, lambda cells: cells[5].update(NEVER_EXECUTED))
    with pytest.raises(SystemExit, match="executed as number None"):
        tools.main(["validate", f"--root={root}"])


def test_an_unknown_page_is_refused(root, capsys):
    said = fails(capsys, root, "huge")
    assert "No page with code is called huge; there are: tiny" in said


RESULTS = [
    *"5.238 0.0196 -1.024 1.234e-5 65,536 65,536. 1,230 1,234,567 1,234.5".split(),
    *"1,234.567 8.1%".split(),
    "(65,536, or more)",
    "8.1 %",
    "0.05\u202f%",
    "**8.1 %**",
    "| 3.142 | x |",
    ":::{note} 5.238\n:::",
    "```{note}\n:class: tip\n\n5.238\n```",
    "- a\n  - 5.238",
    "[a](b.md), it is 5.238",
]
NO_RESULTS = [
    *"2.0 0.25 5e-4 0.001 12.34 2026-11-21 21.11.2026 §5.1.3 10.48550/arXiv".split(),
    *"5,000 1,200 1,200,35 x1,234 `5.238` $5.238$ $65,536$ {math}`5.238`".split(),
    *"[x](http://x.org/5.238) <https://x.org/5.238> https://x.org/5.238".split(),
    "arXiv 2512.04268",
    "version 1.0.4.post1",
    "10,000 tasks",
    "120,000",
    "(1, 200, 350)",
    "50 %",
    "5.0 %",
    "8.1 of them",
    "`8.1 %`",
    "$$\n5.238\n$$",
    "```python\n5.238\n```",
    "```{code-cell}\n5.238\n```",
    ":::{math}\n5.238\n:::",
    ":::{figure} x.png\n:width: 0.125\n:::",
    "[it is 5.238](b.md)",
]


def test_a_typed_result_is_found_in_its_line_and_nothing_else():
    """Numbers of a setup, dates, versions, formulas, code and links are no results."""
    for texts, count in ((RESULTS, 1), (NO_RESULTS, 0)):
        for text in texts:
            assert len(glue.literals(f"{HEADER}\n{text}\n")) == count, text
    text = (
        "# T\n\nfirst\nsecond 5.238\n\n:::{note}\nthird\n0.0196\n:::\n\na  \nb 5.239\n"
    )
    assert glue.literals(text) == [(4, "5.238"), (8, "0.0196"), (12, "5.239")]
