"""Sphinx extension of the book: formulas are set as MathML when the book is built."""

import html
import re
from collections.abc import Callable
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

log = logging.getLogger(__name__)

# Behind which signs a formula in a line of text may go on in the next one.
RELATIONS = set("=≠<>≤≥≈≡∼∈⊂⊆→⇒⟹⟺↦∝≔≪≫,;")
OPENING, CLOSING = set("([{⟨⌊⌈"), set(")]}⟩⌋⌉")
# A large bracket with an exponent; Chromium draws it small unless it stands in a row of
# its own.
LARGE = re.compile(r"<(msub|msup|msubsup)>(<mo [^>]*minsize[^>]*>[^<]*</mo>)")
# A formula in a line of text, with a bracket before it and the signs behind it.
AROUND = re.compile(
    r'([(\[“]?)<span class="math (?:(?!</span>).)*</span>([.,;:!?)\]’”]*)', re.DOTALL
)
# An environment that holds no other.
INNERMOST = re.compile(r"\\begin\{(\w+\*?)\}((?!\\begin).)*?\\end\{\1\}", re.DOTALL)
CONVERTER = LatexToMathML(fancy_error=False)


def rows(tex: str) -> str:
    """The formula, its lines aligned where it breaks into several outside of every
    environment.
    """
    tex = re.sub(r"\\(begin|end)\{(equation|align|gather)\}", r"\\\1{\2*}", tex.strip())
    tex = re.sub(r"\n\s*\n", r" \\\\ ", tex)
    outer = tex
    while INNERMOST.search(outer):
        outer = INNERMOST.sub("", outer)
    return rf"\begin{{aligned}}{tex}\end{{aligned}}" if r"\\" in outer else tex


def mathml(tex: str, display: bool) -> str:
    """The formula as MathML, with its LaTeX for who copies it.

    Raises:
        LatexError: if it is no LaTeX, or none that the converter knows.
    """
    made = CONVERTER.convert_with_local_state(
        rows(tex) if display else tex, displaystyle=display
    )
    # the one entity that XML does not know
    root = ElementTree.fromstring(made.replace("&ApplyFunction;", "\u2061"))
    for node in list(root.iter()):
        lower_prime(node)
    first, *others = pieces(root, ends_column if display else ends_line)
    first.set("alttext", " ".join(tex.split()))
    parts = (
        ElementTree.tostring(piece, "unicode", short_empty_elements=False)
        for piece in [first, *others]
    )
    return LARGE.sub(r"<\1><mrow>\2</mrow>", "<wbr>".join(parts))


def lower_prime(node: Element) -> None:
    """A prime beside its letter: the font has it raised and small, and an exponent is
    raised and made small again.
    """
    if node.tag in ("msup", "msubsup") and node[-1].text in ("′", "″"):
        *base, prime = node
        prime.attrib |= {"lspace": "0", "rspace": "0"}
        if node.tag == "msubsup":
            below = Element("msub")
            below.extend(base)
            base = [below]
        node.tag = "mrow"
        node[:] = [*base, prime]


def pieces(root: Element, ends: Callable[[Element, Element], bool]) -> list[Element]:
    """A formula in parts, cut outside of all brackets where a part may end."""
    parts, depth = [Element("math", root.attrib)], 0
    for node in root:
        parts[-1].append(node)
        # A closing bracket may carry an exponent.
        mark = node[0] if node.tag in ("msup", "msub", "msubsup") else node
        sign = (mark.text or "") if mark.tag == "mo" else ""
        depth += (sign in OPENING) - (sign in CLOSING)
        if depth == 0 and ends(node, parts[-1]):
            parts.append(Element("math", root.attrib))
    return parts if len(parts[-1]) or len(parts) == 1 else parts[:-1]


def ends_line(node: Element, part: Element) -> bool:
    """In a line of text: behind a relation or a comma, in a very long part behind a
    plus or a minus.
    """
    size = len("".join(part.itertext()))
    return node.tag == "mo" and (
        (size > 5 and node.text in RELATIONS) or (size > 14 and node.text in ("+", "−"))
    )


def ends_column(node: Element, part: Element) -> bool:
    """On a line of its own: where LaTeX has \\quad or \\qquad."""
    return node.tag == "mspace" and node.get("width") in ("1em", "2em")


def set_formula(node: nodes.Element, display: bool) -> str:
    """The node's MathML; LaTeX that cannot be set is a warning, and stands as it is."""
    try:
        return mathml(node.astext(), display)
    except LatexError as error:
        log.warning(
            "LaTeX error at character %s in the formula %s",
            error,
            node.astext(),
            location=node,
        )
        return html.escape(node.astext())


def visit_math(writer, node: nodes.math) -> None:
    start = writer.starttag(node, "span", "", CLASS="math notranslate nohighlight")
    writer.body.append(f"{start}{set_formula(node, display=False)}</span>")
    raise nodes.SkipNode


def visit_block(writer, node: nodes.math_block) -> None:
    writer.body.append(
        writer.starttag(node, "div", "", CLASS="math notranslate nohighlight")
    )
    writer.body.append(f'<div class="formula">{set_formula(node, display=True)}</div>')
    if node["number"]:
        writer.body.append(
            f'<span class="eqno">({get_node_equation_number(writer, node)})'
        )
        writer.add_permalink_ref(node, "Link to this equation")
        writer.body.append("</span>")
    writer.body.append("</div>\n")
    raise nodes.SkipNode


def unbroken(html: str) -> str:
    """The page, where a bracket before a formula and signs behind it go with it:
    browsers would part them.
    """

    def joined(found: re.Match[str]) -> str:
        together = found[2] or (found[1] and "<wbr>" not in found[0])
        return f'<span class="unbroken">{found[0]}</span>' if together else found[0]

    return AROUND.sub(joined, html)


def keep_together(app, page, template, context, doctree) -> None:
    context["body"] = unbroken(context.get("body", ""))


def setup(app: Sphinx) -> None:
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_block, None))
    app.connect("html-page-context", keep_together)
