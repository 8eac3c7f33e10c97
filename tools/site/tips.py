"""Sphinx extension of the hovers: what a link to a theorem, an equation, a source or a
claim leads to, beside the link.

The texts lie in one script, which a page loads when a reader first rests on such a
link: so they are there offline, and cost nothing before.
"""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from sphinx.application import Sphinx

DATA = "_static/tips-data.js"
# Where a theorem, a numbered equation, a source or a claim's row begins.
BEGIN = re.compile(
    r'<(?P<tag>div|tr) class="[^"]*\b(?:proof|math|citation|source-\w+)\b[^"]*" '
    r'id="(?P<id>[^"]+)"[^>]*>'
)
# What belongs to the page: names of parts, and links to the part itself.
OWN = re.compile(r' id="[^"]*"|<a class="headerlink".*?</a>', re.DOTALL)


def parts(page: str) -> Iterator[tuple[str, str]]:
    """The name and the HTML of what a link may lead to."""
    for begin in BEGIN.finditer(page):
        depth = 0
        for tag in re.finditer(rf"<(/?){begin['tag']}\b", page[begin.start() :]):
            depth += -1 if tag[1] else 1
            if depth == 0:
                break
        end = begin.start() + tag.end()
        yield begin["id"], OWN.sub("", f"{page[begin.start() : end]}>")


def collect(tips: dict[str, str], app: Sphinx, page: str, *args) -> None:
    """Theorems, numbered equations, sources; of a claim's row, its verdict and what we
    find.
    """
    body = args[1].get("body", "") if page.startswith("book/") else ""
    for name, part in parts(body):
        if part.startswith("<tr"):
            *_, finding, verdict = re.findall(r"<td[^>]*><p>(.*?)</p>", part, re.DOTALL)
            part = f"{verdict} {finding}"
        tips[f"{page}.html#{name}"] = part


def write(tips: dict[str, str], app: Sphinx, error: Exception | None) -> None:
    if error is None:
        data = json.dumps(tips, ensure_ascii=False, sort_keys=True)
        text = f"window.bookTips = {data};\n"
        (Path(app.outdir) / DATA).write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> None:
    tips: dict[str, str] = {}
    app.connect("html-page-context", partial(collect, tips))
    app.connect("build-finished", partial(write, tips))
    app.add_js_file("tips.js", loading_method="defer")
