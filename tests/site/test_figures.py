"""Figures are drawings: the same bytes each time, and parts of a page in the colours of its theme."""

import io
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest

from lsalib.book import figures
from tools.site import figures as sphinx_figures


@pytest.fixture
def drawing():
    """A function that draws one figure and returns it as a notebook would show it."""

    def draw(colour: str = "lsa") -> str:
        figures.use_style()
        figure, ax = plt.subplots()
        ax.plot([1, 2], [3, 1], color=figures.COLOURS[colour], label="a risk")
        ax.imshow(figures.tint(np.eye(2)), extent=(1, 2, 1, 2))
        ax.legend()
        file = io.StringIO()
        figure.savefig(file, format="svg", **figures.BARE)
        plt.close(figure)
        return file.getvalue()

    yield draw
    plt.rcdefaults()


def test_a_figure_has_the_same_bytes_each_time(drawing):
    assert drawing() == drawing() != drawing("gd")
    assert re.search(r"<dc:date>|Matplotlib v", drawing()) is None


def test_a_drawing_in_a_page_has_ids_of_its_own_and_the_theme_s_colours(drawing):
    shown = sphinx_figures.inline(drawing(), "drawing-3", 'a < "b"')
    assert shown.startswith('<svg class="drawing" role="img" aria-label="a &lt; &quot;b&quot;" width="')
    ids = re.findall(r'(?<!\w)id="([^"]*)"', shown)
    leads = re.findall(r'(?:href="#|url\(#)([^")]*)', shown)
    assert len(ids) == len(set(ids)) and {name.startswith("drawing-3-") for name in ids} == {True}
    assert leads and set(leads) <= set(ids)
    assert "var(--fig-lsa)" in shown and "var(--fig-ink)" in shown
    assert set(re.findall(r"(?<=: )#[0-9a-f]{6}\b(?!, var)", shown)) == set()
    assert "<style" not in shown and "<?xml" not in shown and "<!--" not in shown
