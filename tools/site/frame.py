"""Sphinx extension of what surrounds a page's text: its description, the ways on, and the list of sources."""

from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform

from tools.site.claims import facts


def briefs(env: BuildEnvironment) -> dict[str, dict[str, str]]:
    """The question and the answer of each page that has a box."""
    return env.__dict__.setdefault("book_briefs", {})


def note_brief(app: Sphinx, doctree: nodes.document) -> None:
    """Keep question and answer: they describe the page, and say why to go there."""
    for box in doctree.findall(lambda node: "brief" in getattr(node, "attributes", {}).get("classes", ())):
        parts = [" ".join(part.astext().split()) for part in box if not isinstance(part, facts)]
        briefs(app.env)[app.env.docname] = {"question": parts[0], "answer": parts[1]}


def description(app: Sphinx, pagename: str) -> str:
    """What search machines show of the page."""
    brief = briefs(app.env).get(pagename)
    text = f"{brief['question']} {brief['answer']}" if brief else app.config.html_title
    return f'<meta name="description" content="{escape(text)}">\n'


def ways(app: Sphinx, context: dict) -> None:
    """Previous and next say what the page asks, not only how it is called."""
    for side in ("prev", "next"):
        page = context.get(side) or {"link": ""}
        stem = page["link"].rpartition("/")[2].removesuffix(".html")
        if brief := briefs(app.env).get(f"book/{stem}"):
            why = f'<span class="way-why">{escape(brief["question"])}</span>'
            context[side] = {**page, "title": f"{page['title']}{why}"}


def add_context(app: Sphinx, pagename: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    context["metatags"] = context.get("metatags", "") + description(app, pagename)
    ways(app, context)


class CitedIn(SphinxPostTransform):
    """Behind each source, the pages that cite it."""

    default_priority = 900
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        if not list(self.document.findall(nodes.citation)):
            return
        domain: Any = self.env.get_domain("cite")
        pages: dict[str, list[str]] = {}
        for ref in domain.citation_refs:
            for key in (target.key for target in ref.targets):
                pages.setdefault(key, []).append(ref.docname)
        keys = {citation.citation_id: citation.key for citation in domain.citations}
        for node in self.document.findall(nodes.citation):
            key = next((keys[name] for name in node["ids"] if name in keys), "")
            if found := dict.fromkeys(page for page in pages.get(key, ()) if page != self.env.docname):
                links = (self.link(page) for page in found)
                line = nodes.paragraph("", "Cited in: ", classes=["cited-in"])
                for number, link in enumerate(links):
                    line += [nodes.Text(", ")] * bool(number) + [link]
                node += line

    def link(self, page: str) -> nodes.reference:
        way = self.app.builder.get_relative_uri(self.env.docname, page)
        return nodes.reference("", self.env.titles[page].astext(), refuri=way, internal=True)


def visit_citation(translator, node: nodes.citation) -> None:
    """A plain box: docutils makes list items of roles that no list may have."""
    translator.body.append(translator.starttag(node, "div", CLASS="citation"))


def depart_citation(translator, node: nodes.citation) -> None:
    translator.body.append("</div>\n")


def visit_label(translator, node: nodes.label) -> None:
    """The text cites by author and year; the list needs no second, shorter name."""
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", note_brief)
    app.connect("html-page-context", add_context)
    app.add_post_transform(CitedIn)
    app.add_node(nodes.citation, override=True, html=(visit_citation, depart_citation))
    app.add_node(nodes.label, override=True, html=(visit_label, None))
