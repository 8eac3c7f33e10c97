"""Make the font of the book's formulas, a part of STIX Two Math: python -m studies.font
SOURCE

SOURCE is STIXTwoMath-Regular.ttf; the package `ziamath` has it, in its folder `fonts`.
A test names the letters of a formula that the font lacks: add them to LETTERS, and run
this again.
"""

import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

TARGET = Path("book/_static/book-math.woff")
# Code points from the first to the last: ASCII, Greek, arrows of several kinds; and of
# the letters of mathematics italic, script, double-struck and Greek italic ones.
RANGES = (
    "20-7E 391-3C9 2190-2194 21D0-21D4 27F5-27FA "
    "1D434-1D467 1D49C-1D4B5 1D538-1D551 1D6E2-1D71B"
)
LETTERS = (
    "\u00a0\u2009\u200a\u202f\u0332𝐰𝟏±×÷¬·°¯¨ˆˇ˘˙˜ϕϵϑϖϱ‖…′″‴†‡•ℂℎℋℐℑℒℓℕℙℚℛℜℝℤℰℱℳ↦∀∂∃∅∇∈∉∋∏∐∑−∓∗∘√∝∞∠∣∤∥"
    "∧∨∩∪∫∬∮∴∼≃≅≈≠≡≤≥≪≫≺≻≼≽⊂⊃⊆⊇⊕⊖⊗⊘⊙⊢⊤⊥⋀⋁⋂⋃⋅⋆⋮⋯⋱⌈⌉⌊⌋⏞⏟⟂⟦⟧⟨⟩⩽⩾"
)
# Smaller forms of small letters, letters without their dots below hats, flat accents.
FEATURES = ["ssty", "dtls", "flac"]
# Where a bar over a letter begins and ends, in thousandths of the letters' size: the
# font's own merges with the letter.
BAR = (600, 690)


def adjust(font: TTFont) -> None:
    """Correct what browsers make of the font: the height of some indices, thin bars,
    and a gap behind roots.
    """
    math, outlines = font["MATH"].table, font["glyf"]
    widths, names = font["hmtx"], font.getBestCmap()
    # Browsers would place the index of a y or an η by the letter's tail; TeX and print
    # do not.
    math.MathConstants.SubscriptBaselineDropMin.Value = 0
    corners = outlines[names[ord("¯")]].coordinates
    middle = sum(y for _, y in corners) / 4
    corners[:] = [(x, BAR[y > middle]) for x, y in corners]
    # Chromium makes every root as wide as the widest sign for one: all signs become as
    # wide as the smallest.
    root, variants = names[ord("√")], math.MathVariants
    place = variants.VertGlyphCoverage.glyphs.index(root)
    signs = variants.VertGlyphConstruction[place]
    width, _ = widths[root]
    sizes = [size.VariantGlyph for size in signs.MathGlyphVariantRecord]
    for sign in {*sizes, *(part.glyph for part in signs.GlyphAssembly.PartRecords)}:
        advance, left = widths[sign]
        outlines[sign].coordinates.scale((width / advance, 1))
        widths[sign] = (width, round(left * width / advance))


def main(source: str) -> None:
    # its names hold its license, the SIL Open Font License
    options = subset.Options(
        flavor="woff", name_IDs=["*"], layout_features=FEATURES, hinting=False
    )
    font = subset.load_font(source, options)
    part = subset.Subsetter(options)
    part.populate(unicodes=subset.parse_unicodes(RANGES), text=LETTERS)
    part.subset(font)
    adjust(font)
    subset.save_font(font, str(TARGET), options)


if __name__ == "__main__":
    main(*sys.argv[1:])
