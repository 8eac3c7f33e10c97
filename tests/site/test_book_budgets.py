"""Each page within its budget: of words, of code, of height, of what is loaded, and of what moves while it comes."""

import book_measures as measures
import pytest
from browser import ROOT

from tools.site.build import toc_pages

PAGES = [f"{page}.html" for page in toc_pages(ROOT)]


@pytest.mark.parametrize("path", PAGES)
def test_page_keeps_its_budget(browser, address, html, path, record_property):
    measured = measures.measure(browser, address, html, path)
    record_property(measures.PROPERTY, (path, *measured))
    assert measures.over(path, measured) == []


PLANTED = {
    "words": "<p>" + "word " * 2600 + "</p>",
    "lines of code": "<div class='cell_input'><pre>" + "x = 1\n" * 130 + "</pre></div>",
    "height, px": "<div style='height: 15000px'></div>",
    "requests": "".join(f"<img alt='A mark' src='../_static/favicon.svg?{n}'>" for n in range(30)),
    "kB gzipped": "".join(f"<img alt='A mark' src='../searchindex.js?{n}'>" for n in range(24)),
    # After the first picture, however busy the machine is.
    "shift": "<script>requestAnimationFrame(() => requestAnimationFrame(() => {"
    "document.querySelector('article').style.paddingTop = '500px' }))</script>",
}


@pytest.mark.parametrize("defect", PLANTED)
def test_a_page_over_its_budget_is_seen(browser, address, html, defect):
    measured = measures.measure(browser, address, html, PAGES[1], planted=PLANTED[defect])
    found = measures.over(PAGES[1], measured)
    assert any(line.startswith(f"{defect}: ") for line in found), found


def test_folded_text_and_formulas_are_not_counted(browser, address, html):
    folded = (
        "<details><summary></summary>" + "".join(PLANTED[name] for name in ("words", "lines of code")) + "</details>"
    )
    plain = measures.measure(browser, address, html, PAGES[1])
    more = measures.measure(browser, address, html, PAGES[1], planted=folded + "<math><mi>x</mi><mi>y</mi></math>")
    assert more[:2] == plain[:2]


def test_a_list_may_be_long_and_not_heavy():
    long = measures.BUDGET._replace(words=9000, height=90_000)
    assert measures.over("book/claims.html", long) == [] != measures.over("book/heads.html", long)
    assert measures.over("book/claims.html", long._replace(weight=601)) == ["kB gzipped: 601 of 600"]


def test_the_table_marks_what_is_over():
    rows = {"a.html": measures.BUDGET._replace(words=2501), "book/claims.html": measures.BUDGET}
    head, first, second = measures.table(rows, {"a.html": 3})
    assert "words ≤ 2500" in head and "2,501!" in first and first.endswith("3!")
    assert "!" not in second and second.endswith("–")
