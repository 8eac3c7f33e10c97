"""Numbers in prose: fill in those that code glues, and find those that were typed by hand."""

import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.front_matter import front_matter_plugin
from mdit_py_plugins.myst_role import myst_role_plugin
from nbformat import NotebookNode

GLUED = "application/papermill.record/text/plain"
ROLE = re.compile(r"\{glue:text\}`([^`]+)`")

# A number, perhaps in groups of three, perhaps with decimals or a percent sign. Parts of a version (1.0.4), of a list
# (1,200,35), of a word or of a DOI are not numbers.
NUMBER = re.compile(r"(?<![\w.])((?<!,)\d{1,3}(?:,\d{3})+(?!\w|,\d)|\d+)(?:\.(\d+))?(?!\d|\.\d|/[A-Za-z])(\s?%)?")
ARXIV = re.compile(r"\d{4}\.\d{5}")
OPTION = re.compile(r"^:[\w-]+:.*$", re.MULTILINE)
NOT_PROSE = ("code", "code-block", "code-cell", "math", "raw")

PARSER = MarkdownIt("commonmark").enable("table")
for plugin in (front_matter_plugin, dollarmath_plugin, amsmath_plugin, colon_fence_plugin, myst_role_plugin):
    PARSER.use(plugin)


def recorded(notebook: NotebookNode) -> list[tuple[str, str]]:
    """The (name, text) pairs that the notebook's outputs glue, in order."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [(o.metadata.scrapbook.name, o.data[GLUED]) for o in outputs if GLUED in o.get("data", {})]


def glue_names(markdown: str) -> list[str]:
    """The names of glued texts that the prose asks for."""
    return ROLE.findall(markdown)


def fill(markdown: str, values: dict[str, str]) -> str:
    """Replace each name in the prose by its glued text; a name without a text stays."""
    return ROLE.sub(lambda role: values.get(role[1], role[0]), markdown)


def literals(markdown: str) -> list[tuple[int, str]]:
    """The (line, number) pairs of results that were typed into prose, where code should glue them.

    A result is a decimal with at least three significant digits after its point (5.238, 0.0196), a percentage with a
    decimal (8.1 %), or a whole number such as 65,536. Round numbers of a setup (2.0, 0.25, 5e-4, 5,000, 50 %), dates,
    versions, section numbers and arXiv ids are not. Code, formulas and links do not count.
    """
    return [(line, number) for line, text in _prose(markdown) for number in _results(text)]


def _results(text: str) -> Iterator[str]:
    for found in NUMBER.finditer(text):
        whole, decimals, percent = found[1], found[2] or "", found[3]
        significant = decimals if whole.strip("0") else decimals.lstrip("0")
        fine = (len(significant) >= 3 and not ARXIV.fullmatch(found[0])) or (percent and decimals.strip("0"))
        if fine or ("," in whole and len(whole.replace(",", "").rstrip("0")) >= 3):
            yield found[0]


def _prose(markdown: str, line: int = 1) -> Iterator[tuple[int, str]]:
    """The (line, text) pairs of running text, including the text inside directives."""
    for token in PARSER.parse(markdown):
        begin = line + (token.map[0] if token.map else 0)
        if token.type in ("fence", "colon_fence") and token.info.startswith("{"):
            name, _, title = token.info[1:].partition("}")
            if name not in NOT_PROSE:
                yield from _prose(title, begin)
                yield from _prose(OPTION.sub("", token.content), begin + 1)
        elif token.type == "inline":
            yield from _texts(token.children or [], begin)


def _texts(children: list[Token], line: int) -> Iterator[tuple[int, str]]:
    links = 0
    for child in children:
        links += (child.type == "link_open") - (child.type == "link_close")
        line += child.type in ("softbreak", "hardbreak")
        if child.type == "text" and not links:
            yield line, re.sub(r"https?://\S+", "", child.content)
