"""Sphinx extension of the interactive figures: a question, its choices and its answer; a script draws the rest."""

import json
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from sphinx.application import Sphinx

from tools.site.explorer_data import explorers


class explorer(nodes.General, nodes.Element):
    """An interactive figure; its children are the question, the list of choices, and the answer."""


class Explorer(Directive):
    """An interactive figure's words: a question, a list of choices, an answer; ``right`` is the correct choice."""

    has_content = True
    required_arguments = 1
    option_spec: ClassVar = {"right": directives.positive_int}

    def run(self) -> list[nodes.Node]:
        name, right = self.arguments[0], self.options.get("right", 0)
        if name not in explorers():
            raise self.error(f"an explorer is one of {', '.join(explorers())}, got {name!r}")
        box = explorer(explorer=name, right=right)
        self.state.nested_parse(self.content, self.content_offset, box)
        kinds = [nodes.paragraph, nodes.bullet_list, nodes.paragraph]
        if [type(child) for child in box[:3]] != kinds or not 2 <= len(box[1]) <= 4:
            raise self.error("an explorer has a question, a list of two to four choices, and an answer")
        if not 1 <= right <= len(box[1]):
            raise self.error(f"right is the number of the correct choice, 1 to {len(box[1])}, got {right}")
        return [box]


def visit(translator: Any, node: explorer) -> None:
    """A box that is hidden: where the script fails, the page shows nothing."""
    translator.body.append(
        f'<div class="explorer" data-explorer="{node["explorer"]}" data-right="{node["right"]}" hidden>'
    )


def depart(translator: Any, node: explorer) -> None:
    """The data, in a form that no text in it can end."""
    data = json.dumps(explorers()[node["explorer"]], ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    translator.body.append(f'<script type="application/json">{data}</script></div>')


def add_files(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    """Scripts and style, on pages that have an explorer."""
    names = sorted({node["explorer"] for node in doctree.findall(explorer)}) if doctree else []
    if names:
        app.add_css_file("explorers.css")
        for name in ("explorers", *(f"explorer-{name}" for name in names)):
            app.add_js_file(f"{name}.js", loading_method="defer")


def setup(app: Sphinx) -> None:
    app.add_node(explorer, html=(visit, depart))
    app.add_directive("explorer", Explorer)
    app.connect("html-page-context", add_files)
