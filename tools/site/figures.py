"""Sphinx extension of the book's figures: drawings stand in the page itself, in the
colors of its theme.
"""

import html
import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from lsalib.book.figures import PALETTE

# What a drawing brings for a file of its own; the style would hold for the whole page.
FRAME = re.compile(
    r"^.*?(?=<svg)|<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->"
    r"|<defs>\s*</defs>",
    re.DOTALL,
)
IDS = re.compile(r'((?<!\w)id="|href="#|url\(#)')
POINTS = 4 / 3  # pixels


def inline(drawing: str, name: str, alt: str) -> str:
    """The drawing as a part of a page: its ids begin with its name, its colors are the
    theme's.
    """
    ((box, *sides),) = re.findall(
        r'<svg[^>]* width="[\d.]+pt"[^>]* (viewBox="0 0 ([\d.]+) ([\d.]+)")', drawing
    )
    width, height = (round(float(side) * POINTS) for side in sides)
    body = FRAME.sub("", drawing).split(">", 1)[1]
    for color, (drawn, _, _) in PALETTE.items():
        body = body.replace(drawn, f"var(--fig-{color})")
    shaded = r"color-mix(in srgb, \1, var(--fig-shade) 14%)"
    body = re.sub(r"(?<=: )(#[0-9a-f]{6})\b", shaded, body)
    lines = IDS.sub(rf"\g<1>{name}-", re.sub(r"\s*\n\s*", "\n", body))
    label = html.escape(" ".join(alt.split()))
    return (
        f'<svg class="drawing" role="img" aria-label="{label}" width="{width}" '
        f'height="{height}" {box}>{lines}'
    )


class DrawingsInline(SphinxPostTransform):
    """A drawing that a cell shows becomes a part of the page."""

    default_priority = 5  # before images are copied
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        number = 0
        for image in list(self.document.findall(nodes.image)):
            uri = image["uri"]
            if "jupyter_execute" in uri and uri.endswith(".svg"):
                file = Path(self.app.srcdir, uri.lstrip("/"))
                drawing = file.read_text(encoding="utf-8")
                svg = inline(drawing, f"drawing-{number}", image.get("alt", ""))
                image.replace_self(nodes.raw("", svg, format="html"))
                number += 1


def add_sheet(app, page, template, context, doctree) -> None:
    """The colors of figures in both themes, from the one table of them; others are
    shaded.
    """
    sheet = "--fig-shade: light-dark(black, white); "
    for name, (_, light, dark) in PALETTE.items():
        sheet += f"--fig-{name}: light-dark({light}, {dark}); "
    context["metatags"] = (
        context.get("metatags", "") + f"<style>html {{ {sheet}}}</style>"
    )


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", add_sheet)
    app.add_post_transform(DrawingsInline)
