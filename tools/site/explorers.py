"""Sphinx extension of the interactive figures: a question, its choices and its answer;
a script draws the rest.
"""

import json
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from sphinx.application import Sphinx

from tools.site.explorer_data import explorers


class Explorer(Directive):
    """An interactive figure's words: a question, a list of choices, an answer;
    ``right`` is the correct choice.

    The box is hidden: where the script fails, the page shows nothing.
    """

    has_content = True
    required_arguments = 1
    option_spec: ClassVar = {"right": directives.positive_int}

    def run(self) -> list[nodes.Node]:
        name, right, box = (
            self.arguments[0],
            self.options.get("right", 0),
            nodes.Element(),
        )
        if name not in explorers():
            raise self.error(
                f"an explorer is one of {', '.join(explorers())}, got {name!r}"
            )
        self.state.nested_parse(self.content, self.content_offset, box)
        kinds = [nodes.paragraph, nodes.bullet_list, nodes.paragraph]
        if [type(child) for child in box[:3]] != kinds or not 1 <= right <= len(box[1]):
            raise self.error(
                "an explorer has a question, a list of choices, one of which is right, and an answer"
            )
        # In a form that no text in it can end.
        data = json.dumps(
            explorers()[name], ensure_ascii=False, separators=(",", ":")
        ).replace("</", "<\\/")
        begin = (
            f'<div class="explorer" data-explorer="{name}" data-right="{right}" hidden>'
        )
        end = f'<script type="application/json">{data}</script></div>'
        end += f'<script src="../_static/explorer-{name}.js" defer></script>'
        return [
            nodes.raw("", begin, format="html"),
            *box,
            nodes.raw("", end, format="html"),
        ]


def setup(app: Sphinx) -> None:
    app.add_directive("explorer", Explorer)
