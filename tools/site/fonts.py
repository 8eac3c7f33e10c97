"""Fonts of which the book needs a few letters."""

from collections.abc import Iterable
from pathlib import Path

from fontTools import subset

PRELOAD = '<link rel="preload" href="{}" as="font" type="font/woff" crossorigin="anonymous">'


def cut(source: Path, target: Path, letters: Iterable[str], features: Iterable[str] = ()) -> None:
    """Write the part of a font that has these letters, as WOFF; whose it is and its licence stay in it."""
    options = subset.Options(flavor="woff", name_IDs=["*"], layout_features=list(features), hinting=False)
    font = subset.load_font(str(source), options)
    part = subset.Subsetter(options)
    part.populate(unicodes=sorted(map(ord, letters)))
    part.subset(font)
    if "MATH" in font:
        # Browsers would hang the index of a y or an η by its tail; TeX and print do not.
        font["MATH"].table.MathConstants.SubscriptBaselineDropMin.Value = 0
    subset.save_font(font, str(target), options)


def preload(context: dict, path: str) -> None:
    """Let a page ask for this font at once, before a style sheet names it."""
    context["metatags"] = context.get("metatags", "") + PRELOAD.format(context["pathto"](path, 1))
