"""The built book in a real browser: every page, on a telephone and on a desk, by day and by night."""

import os
import re
import shutil
from pathlib import Path

import pytest

from lsalib.book import figures
from tests import book_access as access
from tests import book_checks as checks
from tests import book_measures as measures
from tests.browser import ROOT, build, chromium, copy_project, serve, visit
from tools import address as address_tool
from tools import headline
from tools.build import missing_pages, toc_pages

PAGES = [f"{page}.html" for page in toc_pages(ROOT)]
OTHERS = ["search.html", "genindex.html", "_modules/lsalib/estimators.html"]
SCREENS = [(width, theme) for width in (390, 1280) for theme in ("light", "dark")]
OURS = ".claim, .claim-status, .admonition.paper, .admonition.verdict, figcaption, a > code, dl.py"


GENERATED = ["book/claims.md", "book/_claims_summary.md", headline.FIGURE]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the checkout, without an address and without what the build itself makes."""
    project = copy_project(tmp_path_factory.mktemp("book"))
    address_tool.main(["", "--root", str(project)])
    for path in GENERATED:
        (project / path).unlink()
    return project


# A book that is there already, to be tested as it is: the one that will be published.
GIVEN = os.environ.get("BOOK_HTML")


@pytest.fixture(scope="module")
def html(project):
    """The built book, one for all tests that read it."""
    return Path(GIVEN).resolve() if GIVEN else build(project, project.parent)


def test_every_page_of_the_toc_is_built(html):
    assert missing_pages(html, ["index", *toc_pages(ROOT)]) == []
    assert not (html / "_static/mathjax/tex-svg-full.js").exists(), "only the used part of MathJax belongs in the book"


@pytest.mark.skipif(bool(GIVEN), reason="the given book may have an address")
def test_without_an_address_no_page_offers_a_dead_button(project, html):
    assert all((project / path).is_file() for path in GENERATED), "the build makes what is made from the notebooks"
    assert [checks.buttons(html, page) for page in toc_pages(project)] == [[]] * len(toc_pages(project))


@pytest.fixture(scope="module")
def address(html):
    with serve(html) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


def page_defects(page, noise) -> list[str]:
    found = checks.math_defects(page) + checks.overflow_defects(page) + checks.image_defects(page)
    return noise + found + checks.ink_defects(page) + checks.text_defects(page, OURS)


@pytest.mark.parametrize("width, theme", SCREENS)
@pytest.mark.parametrize("path", PAGES + OTHERS)
def test_page_is_sound(browser, address, path, width, theme, record_property):
    with visit(browser, address, path, width=width, theme=theme) as (page, noise):
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        found, shut_out = page_defects(page, noise), access.defects(page, width, theme)
        record_property(measures.SHUT_OUT, (path, len(shut_out)))
        assert found + shut_out == []


def test_the_front_door_leads_to_the_first_page(browser, address):
    with visit(browser, address, PAGES[1]) as (page, _):
        page.goto(address)
        page.wait_for_url(address + PAGES[0])


BAR = "<svg xmlns='http://www.w3.org/2000/svg' width='90' height='90'><rect width='90' height='9' fill='{}'/></svg>"
SECOND = BAR.format("gray").replace("</svg>", "<rect y='60' width='30' height='1' fill='black'/></svg>")
FIGURE = "<img alt='A bar' src=\"data:image/svg+xml,{}\">"
PLANTED = {
    "a LaTeX error": (r'<span class="math">\(x^1^2\)</span>', "LaTeX error: x^1^2"),
    "an open brace": (r'<span class="math">\(\frac{1\)</span>', "not set: "),
    "an unknown macro": (r'<span class="math">\(\nosuchmacro\)</span>', "unknown macro: \\nosuchmacro"),
    "a formula MathJax skips": ('<span class="math mathjax_ignore">x^2</span>', "not set: x^2"),
    "an image from elsewhere": (
        '<img alt="A map" src="http://elsewhere.invalid/map.png">',
        "request to elsewhere: http://elsewhere.invalid",
    ),
    "a missing image": ('<img alt="A map" src="no-such-map.png">', "image not shown: no-such-map.png"),
    "no alt text": (FIGURE.format(BAR.format("gray")).replace("A bar", ""), "image without alt text"),
    "a file name as alt text": (
        FIGURE.format(BAR.format("gray")).replace("A bar", "bar.png"),
        "alt text is a file name",
    ),
    "an alt text that is a path": (
        FIGURE.format(BAR.format("gray")).replace("A bar", "../_images/0a1b"),
        "alt text is a file name",
    ),
    "a wide element": (
        '<div id="wide" class="wide" style="width: 2000px">wide</div>',
        'sticks out: <div class="wide">',
    ),
    "something cut off": (
        '<div class="box" style="overflow: hidden"><div style="width: 2000px">wide</div></div>',
        'cut off: <div class="box">',
    ),
    "ink that night hides": (FIGURE.format(BAR.format("black")), "ink rgb(0,0,0) on rgb(18, 18, 18): A bar"),
    "a small ink that night hides": (FIGURE.format(SECOND), "ink rgb(0,0,0) on rgb(18, 18, 18): A bar"),
    "a figure of nothing": (FIGURE.format(BAR.format("none")), "figure without solid ink: A bar"),
    "a pale verdict": (
        '<p class="claim" style="color: #444">pale</p>',
        "words rgb(68, 68, 68) on rgb(18, 18, 18): pale",
    ),
    "a script error": ("<script>undefined.property</script>", "script error"),
    "a console error": ("<script>console.error('broken')</script>", "console: broken"),
}


@pytest.mark.parametrize("defect", PLANTED)
def test_planted_defect_is_seen(browser, address, defect):
    planted, report = PLANTED[defect]
    with visit(browser, address, PAGES[1], width=390, theme="dark", planted=planted) as (page, noise):
        found = page_defects(page, noise)
    assert any(report in line for line in found), found


def test_ink_for_both_themes_is_accepted_where_black_is_not(browser, address):
    for theme in ("light", "dark"):
        with visit(browser, address, PAGES[1], theme=theme, planted=FIGURE.format(BAR.format("gray"))) as (page, _):
            assert checks.ink_defects(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_figures_colours_stand_out(browser, address, theme):
    with visit(browser, address, PAGES[1], theme=theme) as (page, _):
        ground = checks.ground(page)
    assert checks.pale(figures.COLOURS | {"ink": figures.INK}, ground) == []
    faint = {"light": "#e0e0e0", "dark": "#303030"}[theme]
    assert checks.pale(figures.COLOURS | {"faint": faint}, ground) == ["faint"]


def search(page, words: str) -> list[str]:
    """The titles that the book's own search page finds."""
    field = page.locator("main input[name=q], article input[name=q], .bd-search-container input[name=q]").first
    field.fill(words)
    field.press("Enter")
    page.get_by_text("Search finished").or_(page.get_by_text("did not match any documents")).first.wait_for()
    return page.locator("#search-results li > a").all_inner_texts()


@pytest.mark.parametrize("words, found", [("yq-LSA", True), ("qzxvkj", False)])
def test_search(browser, address, words, found):
    with visit(browser, address, "search.html") as (page, noise):
        assert bool(search(page, words)) == found
        assert noise == []


def test_links_lead_somewhere(html):
    assert checks.broken_links(html) == []


def test_code_in_prose_leads_to_the_function_that_it_names(html):
    entries = [page for page in PAGES if page.startswith("book/api/")]
    names = re.findall(r'id="(lsalib\.[\w.]+)"', "".join((html / page).read_text(encoding="utf-8") for page in entries))
    assert len(names) > 100
    assert checks.names_without_links(html, names) == []


def test_nothing_is_loaded_from_elsewhere(html):
    assert checks.outside_assets(html) == []


STATIC = [
    (checks.broken_links, '<a href="#nowhere">x</a>', "no anchor for the link #nowhere"),
    (checks.broken_links, '<a href="no-such-page.html">x</a>', "no file for the link no-such-page.html"),
    (
        checks.broken_links,
        '<a href="claims.html#no-such-claim">x</a>',
        "no anchor for the link claims.html#no-such-claim",
    ),
    (
        checks.outside_assets,
        '<img src="https://elsewhere.invalid/map.png">',
        "<img> from https://elsewhere.invalid/map.png",
    ),
    (
        checks.outside_assets,
        '<script src="//elsewhere.invalid/code.js"></script>',
        "<script> from //elsewhere.invalid/code.js",
    ),
]


def test_planted_links_are_seen(html, tmp_path):
    """All of them on one page; each is reported by its own check."""
    copy = shutil.copytree(html, tmp_path / "html", copy_function=os.link)
    page = copy / PAGES[0]
    text = page.read_text(encoding="utf-8")
    page.unlink()  # the copy is made of links
    planted = "".join(link for _, link, _ in STATIC)
    page.write_text(text.replace("</article>", planted + "</article>", 1), encoding="utf-8")
    found = {check: check(copy) for check in (checks.broken_links, checks.outside_assets)}
    assert [report for check, _, report in STATIC if not any(report in line for line in found[check])] == []


def test_style_from_elsewhere_is_seen(html, tmp_path):
    (tmp_path / "planted.css").write_text('@import "https://elsewhere.invalid/letters.css";', encoding="utf-8")
    assert checks.outside_assets(tmp_path) == ["planted.css: from https://elsewhere.invalid/letters.css"]


def test_contrast_of_black_on_white():
    assert checks.contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert checks.contrast((119, 119, 119), (255, 255, 255)) == pytest.approx(4.48, abs=0.01)
