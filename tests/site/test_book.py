"""The built book in a real browser: every page, on a telephone and on a desk, by day and by night."""

import os
import re
import shutil

import book_access as access
import book_checks as checks
import book_measures as measures
import pytest
from browser import GENERATED, GIVEN, ROOT, visit
from bs4 import BeautifulSoup
from fontTools.ttLib import TTFont

from lsalib.book import figures
from tools.site import math as sphinx_math
from tools.site.build import missing_pages, toc_pages

PAGES = [f"{page}.html" for page in toc_pages(ROOT)]
OTHERS = ["search.html", "genindex.html", "_modules/lsalib/estimators.html"]
SCREENS = [(width, theme) for width in (390, 1280) for theme in ("light", "dark")]
OURS = "details.claims, .claim-status, .admonition.paper, .admonition.verdict, figcaption, a > code, dl.py"
# Between them these have every part of ours.
SHOWN = ("heads", "api/theory")


def test_every_page_of_the_toc_is_built(html):
    assert missing_pages(html, ["index", *toc_pages(ROOT)]) == []


@pytest.mark.skipif(bool(GIVEN), reason="the given book may have an address")
def test_without_an_address_no_page_offers_a_dead_button(project, html):
    assert all((project / path).is_file() for path in GENERATED), "the build makes what is made from the notebooks"
    assert [checks.buttons(html, page) for page in toc_pages(project)] == [[]] * len(toc_pages(project))


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


BAR = "<path d='M0 0L90 0L90 9L0 9z' style='fill: {}'/>"
FIGURE = "<svg class='drawing' role='img' aria-label='A bar' width='90' height='90' viewBox='0 0 90 90'>{}</svg>"
GREY = FIGURE.format(BAR.format("gray"))
IMAGE = "<img alt='A bar' src=\"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>\">"
PLANTED = {
    "a LaTeX error": (
        '<span class="math"><math alttext="x"><merror>x^1^2</merror></math></span>',
        "LaTeX error: x^1^2",
    ),
    "a formula as LaTeX": (r'<span class="math">\(x^2\)</span>', "not set: \\(x^2\\)"),
    "an empty formula": ('<span class="math"><math alttext="x"></math></span>', "formula of nothing: "),
    "an image from elsewhere": (
        '<img alt="A map" src="http://elsewhere.invalid/map.png">',
        "request to elsewhere: http://elsewhere.invalid",
    ),
    "a missing image": ('<img alt="A map" src="no-such-map.png">', "image not shown: no-such-map.png"),
    "no alt text": (IMAGE.replace("A bar", ""), "image without alt text"),
    "a drawing without words": (GREY.replace("A bar", " "), "image without alt text"),
    "a file name as alt text": (IMAGE.replace("A bar", "bar.png"), "alt text is a file name"),
    "an alt text that is a path": (GREY.replace("A bar", "../_images/0a1b"), "alt text is a file name"),
    "a wide element": (
        '<div id="wide" class="wide" style="width: 2000px">wide</div>',
        'sticks out: <div class="wide">',
    ),
    "something cut off": (
        '<div class="box" style="overflow: hidden"><div style="width: 2000px">wide</div></div>',
        'cut off: <div class="box">',
    ),
    "ink that night hides": (FIGURE.format(BAR.format("black")), "ink rgb(0, 0, 0) on rgb(18, 18, 18): A bar"),
    "a line that night hides": (
        FIGURE.format(BAR.format("gray; stroke: #222")),
        "ink rgb(34, 34, 34) on rgb(18, 18, 18): A bar",
    ),
    "pale words in a figure": (
        FIGURE.format(f"<g id='drawing-0-text_1'>{BAR.format('#666')}</g>"),
        "words rgb(102, 102, 102) on rgb(18, 18, 18): A bar",
    ),
    "a figure of nothing": (FIGURE.format(BAR.format("none")), "figure without solid ink: A bar"),
    "a pale verdict": (
        '<p><span class="claim-status" style="color: #444">pale</span></p>',
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


def test_every_part_of_ours_is_in_the_book(html):
    pages = [BeautifulSoup((html / f"book/{name}.html").read_text("utf-8"), "html.parser") for name in SHOWN]
    assert [part for part in OURS.split(", ") if not any(page.select(part) for page in pages)] == []


def test_ink_for_both_themes_is_accepted_where_black_is_not(browser, address):
    for theme in ("light", "dark"):
        with visit(browser, address, PAGES[1], theme=theme, planted=GREY) as (page, _):
            assert checks.ink_defects(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_figures_colours_stand_out(browser, address, theme):
    with visit(browser, address, PAGES[1], theme=theme) as (page, _):
        ground = checks.ground(page)
    tone = {"light": 1, "dark": 2}[theme]
    shown = {name: tones[tone] for name, tones in figures.PALETTE.items()}
    assert checks.pale(shown, ground, checks.TEXT_CONTRAST) == []
    # Outside of the book, where a drawing is seen as it is drawn.
    assert checks.pale({name: tones[0] for name, tones in figures.PALETTE.items()}, ground) == []
    faint = {"light": "#e0e0e0", "dark": "#303030"}[theme]
    assert checks.pale(figures.COLOURS | {"faint": faint}, ground) == ["faint"]


def test_without_scripts_formulas_and_figures_are_there_and_buttons_for_nothing_are_not(browser, address):
    with visit(browser, address, PAGES[1], scripts=False) as (page, _):
        assert checks.math_defects(page) + checks.overflow_defects(page) == []
        assert page.locator("article .math").count() > 50
        assert not page.get_by_text("Open everything").is_visible()


def test_all_folds_open_and_close_together_also_on_the_next_page(browser, address):
    count = "[...document.querySelectorAll('article details')].map(fold => fold.open)"
    with visit(browser, address, PAGES[1]) as (page, noise):
        assert not any(page.evaluate(count))
        for name, wanted in {"Open everything": True, "Close everything": False}.items():
            page.get_by_role("button", name=name).focus()
            page.keyboard.press("Enter")
            assert set(page.evaluate(count)) == {wanted}
            page.goto(address + PAGES[2])
            assert set(page.evaluate(count)) == {wanted}
        assert noise == []


def test_what_scrolls_sideways_says_so_and_can_be_reached(browser, address):
    wide = (
        "<div class='formula'><div style='width: 900px; height: 9px'></div></div><div class='formula' id='ok'>x</div>"
    )
    with visit(browser, address, PAGES[1], width=390, planted=wide) as (page, _):
        box = page.locator(".formula:has(> div[style])")
        box.scroll_into_view_if_needed()
        page.wait_for_function("document.querySelector('.formula:has(> div[style])').dataset.more === 'right'")
        assert "calc(100% - 40px)" in box.evaluate("e => getComputedStyle(e).maskImage")
        assert box.get_attribute("tabindex") == "0" and "scrolls" in box.get_attribute("aria-label")
        box.evaluate("e => e.scrollLeft = 50")
        page.wait_for_function("document.querySelector('.formula:has(> div[style])').dataset.more === 'left right'")
        assert page.locator("#ok").get_attribute("tabindex") is None


@pytest.mark.parametrize("width", [390, 1280])
def test_an_open_ledger_fits_its_window(browser, address, width):
    with visit(browser, address, "book/claims.html", width=width) as (page, _):
        page.locator("table.ledger details").evaluate_all("all => all.forEach(e => { e.open = true; })")
        assert checks.overflow_defects(page) == []
        # The control: nothing wraps, nothing scrolls.
        page.add_style_tag(
            content=".claims-table { overflow: visible !important } .claims-table td { white-space: nowrap }"
        )
        assert checks.overflow_defects(page) != []


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


def test_the_font_has_every_letter_of_the_formulas_and_says_whose_it_is(html):
    font = TTFont(html / "_static" / sphinx_math.FONT)
    used = {ord(letter) for letter in sphinx_math.used_characters(html)}
    missing = used - set(font.getBestCmap()) - {0x2061, 0xFE00}  # these two are not drawn
    assert {chr(code) for code in missing} == set()
    assert ord("√") in used  # drawn for <msqrt>, and in no formula's text
    assert "MATH" in font and "Open Font License" in font["name"].getDebugName(13)


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
