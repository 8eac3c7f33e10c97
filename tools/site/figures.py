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
    r"^.*?(?=<svg)|<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->|<defs>\s*</defs>",
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
    body = re.sub(
        r"(?<=: )(#[0-9a-f]{6})\b",
        r"color-mix(in srgb, \1, var(--fig-shade) 14%)",
        body,
    )
    head = f'<svg class="drawing" role="img" aria-label="{html.escape(" ".join(alt.split()))}" width="{width}"'
    lines = IDS.sub(rf"\g<1>{name}-", re.sub(r"\s*\n\s*", "\n", body))
    return f'{head} height="{height}" {box}>{lines}'


class DrawingsInline(SphinxPostTransform):
    """A drawing that a cell shows becomes a part of the page."""

    default_priority = 5  # before images are copied
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        shown = [
            image
            for image in self.document.findall(nodes.image)
            if image["uri"].endswith(".svg")
        ]
        for number, image in enumerate(
            image for image in shown if "jupyter_execute" in image["uri"]
        ):
            drawing = (Path(self.app.srcdir) / image["uri"].lstrip("/")).read_text(
                encoding="utf-8"
            )
            svg = inline(drawing, f"drawing-{number}", image.get("alt", ""))
            image.replace_self(nodes.raw("", svg, format="html"))


def add_sheet(
    app: Sphinx,
    pagename: str,
    template: str,
    context: dict,
    doctree: nodes.document | None,
) -> None:
    """The colors of figures in both themes, from the one table of them; others are
    shaded.
    """
    inks = "".join(
        f"--fig-{name}: light-dark({light}, {dark}); "
        for name, (_, light, dark) in PALETTE.items()
    )
    sheet = f"html {{ --fig-shade: light-dark(black, white); {inks}}}"
    context["metatags"] = context.get("metatags", "") + f"<style>{sheet}</style>"


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", add_sheet)
    app.add_post_transform(DrawingsInline)
