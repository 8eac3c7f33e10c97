"""Sphinx extension of the explorable figures: a container that only a script shows, with the data it starts from."""

import json
from html import escape
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from sphinx.application import Sphinx

from tools.site.explorer_data import EXPLORERS


class explorer(nodes.General, nodes.Element):
    """An explorable figure; its children are the caption."""


class Explorer(Directive):
    """A figure to be moved, below the one that stands still: its name, and a caption of a sentence.

    With ``:folded:`` it is one click away, behind what comes before the caption's colon.
    """

    has_content = True
    required_arguments = 1
    option_spec: ClassVar = {"folded": directives.flag}

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name not in EXPLORERS:
            raise self.error(f"an explorer is one of {', '.join(EXPLORERS)}, got {name!r}")
        if not self.content:
            raise self.error("an explorer has a caption: what there is to be seen")
        box = explorer(explorer=name, folded="folded" in self.options)
        self.state.nested_parse(self.content, self.content_offset, box)
        return [box]


def visit(translator: Any, node: explorer) -> None:
    if node["folded"]:
        lead = node.astext().partition(":")[0]
        words = escape(lead[:1].lower() + lead[1:])
        translator.body.append(f'<details class="explorable" hidden><summary>Explore: {words}</summary>')
    translator.body.append(f'<div class="explorer" data-explorer="{node["explorer"]}" hidden>')


def depart(translator: Any, node: explorer) -> None:
    """The data, in a form that no text in it can end."""
    data = json.dumps(EXPLORERS[node["explorer"]](), ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    closing = f'<script type="application/json">{data}</script></div>' + "</details>" * node["folded"]
    translator.body.append(closing)


def add_files(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    """Scripts and style, where something needs them."""
    names = sorted({node["explorer"] for node in doctree.findall(explorer)}) if doctree else []
    if names:
        app.add_css_file("explorers.css")
        for name in ("explorers", *(f"explorer-{name}" for name in names)):
            app.add_js_file(f"{name}.js", loading_method="defer")


def setup(app: Sphinx) -> None:
    app.add_node(explorer, html=(visit, depart))
    app.add_directive("explorer", Explorer)
    app.connect("html-page-context", add_files)
