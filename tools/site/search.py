"""Sphinx extension of the search: words of code do not count; pages, theorems and claims are found by their names."""

import tomllib

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

from tools.ledger.claims import read_claims
from tools.notebooks import labels as numbering
from tools.notebooks.pages import ROOT


def subjects(stem: str) -> list[str]:
    """What book/subjects.toml says that the page is about."""
    listed = tomllib.loads((ROOT / "book/subjects.toml").read_text(encoding="utf-8"))
    return listed.get(stem, [])


def names(stem: str, doctree: nodes.document) -> list[tuple[str, str]]:
    """(name, id) of what a reader may look for on the page; "" is the page itself."""
    found = [(subject, "") for subject in subjects(stem)]
    labels = numbering.labels(ROOT)
    for node in doctree.findall(lambda node: isinstance(node, nodes.Element) and bool(node.get("ids"))):
        label = node["ids"][0]
        if node.get("title") and label in labels:
            found += [(labels[label][1], label), (str(node["title"]), label)]
    if stem == "claims":
        found += [(claim.id, claim.id) for claim in read_claims(ROOT)]
    return found


def index_nodes(entries: list[tuple[str, str]]) -> list[addnodes.index]:
    return [addnodes.index(entries=[("single", name, target, "main", None)]) for name, target in entries]


class Builder(StandaloneHTMLBuilder):
    """HTML, with a search index of the prose."""

    name = "html"

    def index_page(self, pagename: str, doctree: nodes.document, title: str) -> None:
        prose = doctree.deepcopy()
        for node in list(prose.findall(lambda node: isinstance(node, (nodes.literal_block, nodes.raw)))):
            node.parent.remove(node)
        prose += index_nodes(names(pagename.rpartition("/")[2], prose))
        super().index_page(pagename, prose, title)


def setup(app: Sphinx) -> None:
    app.add_builder(Builder, override=True)
