"""Figures are drawings: the same bytes each time, and parts of a page in the colors of
its theme.
"""

import io
import re

import matplotlib.pyplot as plt
import numpy as np

from lsalib.book import figures
from tools.site import figures as sphinx_figures


def draw(color: str = "lsa") -> str:
    """A figure as a notebook would show it."""
    with plt.rc_context():
        figures.use_style()
        figure, ax = plt.subplots()
        ax.plot([1, 2], [3, 1], color=figures.color_of(color), label="a risk")
        ax.imshow(figures.tint(np.eye(2)), extent=(1, 2, 1, 2))
        ax.legend()
        file = io.StringIO()
        figure.savefig(file, format="svg", **figures.BARE)
        plt.close(figure)
    return file.getvalue()


def test_a_drawing_is_the_same_each_time_with_its_own_ids_and_the_theme_s_colors():
    drawing = draw()
    assert drawing == draw() != draw("gd")
    assert not re.search(r"<dc:date>|Matplotlib v", drawing)
    shown = sphinx_figures.inline(drawing, "drawing-3", 'a < "b"')
    name = 'aria-label="a &lt; &quot;b&quot;"'
    assert shown.startswith(f'<svg class="drawing" role="img" {name} width="')
    ids = re.findall(r'(?<!\w)id="([^"]*)"', shown)
    leads = re.findall(r'(?:href="#|url\(#)([^")]*)', shown)
    assert len(ids) == len(set(ids)) and set(leads) <= set(ids)
    assert leads and all(name.startswith("drawing-3-") for name in ids)
    assert "var(--fig-lsa)" in shown and "var(--fig-ink)" in shown
    assert not re.search(r"(?<=: )#[0-9a-f]{6}\b(?!, var)|<style|<\?xml|<!--", shown)
