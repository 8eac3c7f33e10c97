"""Numbers in prose: fill in those that code glues, and find those that were typed by
hand.
"""

import re
from collections.abc import Iterator

from nbformat import NotebookNode

GLUED = "application/papermill.record/text/plain"
ROLE = re.compile(r"\{glue:text\}`([^`]+)`")

# A number, perhaps in groups of three, perhaps with decimals or a percent sign. Parts
# of a version (1.0.4), of a list (1,200,35), of a word or of a DOI are not numbers.
NUMBER = re.compile(
    r"(?<![\w.])((?<!,)\d{1,3}(?:,\d{3})+(?!\w|,\d)|\d+)(?:\.(\d+))?(?!\d|\.\d|/[A-Za-z])(\s?%)?"
)
ARXIV = re.compile(r"\d{4}\.\d{5}")
# A fence with what it is for, and its body; the header of a page; formulas, code,
# links, tags and options in a text.
FENCE = re.compile(
    r"^([`:]{3,})(?:\{([\w:-]+)\})?.*\n((?:.*\n)*?)\1[ ]*$", re.MULTILINE
)
NO_PROSE = re.compile(
    r"\A---\n.*?^---$|\$\$.*?\$\$|\$[^$]+\$|\\begin\{(\w+\*?)\}.*?\\end\{\1\}|`[^`]*`"
    r"|\[[^\]]*\]\([^)]*\)|<[\w/][^>]*>|https?://\S+|^:[\w-]+:[^\n]*$",
    re.DOTALL | re.MULTILINE,
)
CODE = (None, "code", "code-block", "code-cell", "math", "raw")


def recorded(notebook: NotebookNode) -> list[tuple[str, str]]:
    """The (name, text) pairs that the notebook's outputs glue, in order."""
    pairs = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if GLUED in output.get("data", {}):
                pairs.append((output.metadata.scrapbook.name, output.data[GLUED]))
    return pairs


def fill(markdown: str, values: dict[str, str]) -> str:
    """Replace each name in the prose by its glued text; a name without a text stays."""
    return ROLE.sub(lambda role: values.get(role[1], role[0]), markdown)


def literals(markdown: str) -> list[tuple[int, str]]:
    """The (line, number) pairs of results that were typed into prose, where code should
    glue them.

    A result is a decimal with at least three significant digits after its point (5.238,
    0.0196), a percentage with a decimal (8.1 %), or a whole number such as 65,536.
    Round numbers of a setup (2.0, 0.25, 5e-4, 5,000, 50 %), dates, versions, section
    numbers and arXiv ids are not. Code, formulas and links do not count.
    """
    prose = NO_PROSE.sub(_blank, FENCE.sub(_fenced, markdown))
    return [
        (line, number)
        for line, text in enumerate(prose.split("\n"), start=1)
        for number in _results(text)
    ]


def _blank(found: re.Match[str]) -> str:
    """As many lines, without words."""
    return "\n" * found[0].count("\n")


def _fenced(found: re.Match[str]) -> str:
    """What a directive holds is text, too, and may hold others."""
    inside = (
        found[0].replace(found[3], FENCE.sub(_fenced, found[3])).replace(found[1], "")
    )
    return _blank(found) if found[2] in CODE else inside


def _results(text: str) -> Iterator[str]:
    for found in NUMBER.finditer(text):
        whole, decimals, percent = found[1], found[2] or "", found[3]
        significant = decimals if whole.strip("0") else decimals.lstrip("0")
        fine = (len(significant) >= 3 and not ARXIV.fullmatch(found[0])) or (
            percent and decimals.strip("0")
        )
        if fine or ("," in whole and len(whole.replace(",", "").rstrip("0")) >= 3):
            yield found[0]
