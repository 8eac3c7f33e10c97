"""Every page of the built book in a real browser: offline, on a telephone and on a desk, by day and by night."""

import re

import pytest
import survey
from browser import GIVEN, ROOT, visit
from bs4 import BeautifulSoup
from fontTools.ttLib import TTFont

from tools.notebooks import labels as numbering
from tools.site import math as sphinx_math
from tools.site.build import toc_pages

PAGES = [f"{page}.html" for page in toc_pages(ROOT)]
OTHERS = ["search.html", "genindex.html", "_modules/lsalib/estimators.html"]
LABELS = numbering.labels(ROOT)
# Where the built page shows the number of an equation, of a figure, and of a theorem or the like.
EQUATION = r'id="equation-{}">.*?class="eqno">([^<]*)<'
FIGURE = r'<figure [^>]*id="{}">.*?"caption-number">([^<]*?) <'
THEOREM = r'<div class="proof [^>]*id="{}">\s*<p class="admonition-title"><span class="caption-number">([^<]*?) <'


@pytest.mark.parametrize("path", PAGES + OTHERS)
def test_page_is_sound(browser, address, path):
    with visit(browser, address, path) as (page, noise):
        found = survey.defects(page)
    assert noise + found == []


# The control for the survey: (what is added to a page, what is said of it), one for each thing that it looks at.
BROKEN = [
    ('<span class="math">\\(x^2\\)</span>', "formula not set"),
    ('<img alt="A map" src="no-such-map.png">', "image not shown"),
    ('<img src="../_static/favicon.svg">', "no alt text"),
    ('<a href="#one">here</a> <a href="#two">here</a>', "2 links to different places are called 'here'"),
    ('<a href="#three" style="outline: none !important">there</a>', "no focus ring"),
    ("<div style='width: 2000px'>wide</div>", "sticks out"),
    ("<div style='overflow: hidden'><div style='width: 2000px'>wide</div></div>", "cut off"),
    ("<button style='height: 9px; padding: 0; font-size: 6px'>x</button>", "hard to hit"),
    ("<p style='color: #777; background: #121212'>pale</p>", "color-contrast"),
    ("<svg class='drawing' role='img' aria-label='A'><path d='M0 0L9 0L9 9z' style='fill: black'/></svg>", "ink rgb(0"),
    ("<svg role='img' aria-label='B'><text font-size='6'>small</text></svg>", "letters of 6.0 px: B"),
    (
        "<script>console.error('broken')</script><img alt='C' src='http://elsewhere.invalid/c.png'>",
        "request to elsewhere",
    ),
]


def test_what_is_broken_is_seen(browser, address):
    with visit(browser, address, "book/gradients_appendix.html") as (page, noise):
        added = "".join(html for html, _ in BROKEN)
        page.evaluate(
            "html => document.querySelector('article').append(document.createRange().createContextualFragment(html))",
            added,
        )
        found = survey.defects(page) + noise
    assert [said for _, said in BROKEN if not any(said in line for line in found)] == []


def test_code_and_folds_can_be_read_by_day_and_by_night(browser, address):
    with visit(browser, address, "book/gradients_appendix.html") as (page, _):
        survey.prepare(page)
        for theme in ("light", "dark"):
            survey.ask(page, "theme", theme)
            assert survey.axe(page, only_contrast=True, whole=True) == []


def test_the_front_door_leads_to_the_first_page(browser, address):
    with visit(browser, address, PAGES[1]) as (page, _):
        page.goto(address)
        page.wait_for_url(address + PAGES[0])


def test_without_scripts_all_is_there_but_what_needs_them(browser, address):
    with visit(browser, address, "book/heads.html", scripts=False) as (page, noise):
        assert page.locator("article .math math").count() > 50 and page.locator("article svg.drawing").count() > 0
        assert not page.get_by_text("Open everything").is_visible() and not page.locator(".explorer").is_visible()
        page.goto(f"{address}book/claims.html")
        assert page.locator("table.ledger > tbody:visible").count() > 50
        assert not page.locator("form.ledger-tools").is_visible() and noise == []


def test_pages_work_from_a_folder(browser, html):
    """Without a server; browsers keep fonts from such pages, and say so on the console."""
    with visit(browser, f"{html.as_uri()}/", "book/heads.html") as (page, _):
        page.locator("article a.claim-badge").first.hover()
        page.locator("#book-tip").wait_for(state="visible")
        page.locator(".explorer").wait_for(state="attached")
        assert page.locator(".explorer").get_attribute("data-values")


def test_all_folds_open_and_close_together_also_on_the_next_page(browser, address):
    state = "[...document.querySelectorAll('article details')].map(fold => fold.open)"
    with visit(browser, address, "book/embedding.html") as (page, noise):
        assert not any(page.evaluate(state))
        for name, wanted in {"Open everything": True, "Close everything": False}.items():
            page.get_by_role("button", name=name).focus()
            page.keyboard.press("Enter")
            assert set(page.evaluate(state)) == {wanted}
            page.goto(f"{address}book/pythagoras.html")
            assert set(page.evaluate(state)) == {wanted}
        assert noise == []


def test_a_link_into_a_closed_fold_opens_it_also_where_all_were_closed(browser, address):
    with visit(browser, address, "book/gradients.html") as (page, _):
        page.get_by_role("button", name="Close everything").click()
        target = page.locator("article details div.math[id]").first
        assert not target.is_visible()
        name = target.get_attribute("id")
        page.evaluate("name => location.hash = name", name)
        page.wait_for_function("name => document.getElementById(name).checkVisibility()", arg=name)
        page.reload()
        assert target.is_visible() and page.locator("article details:not([open])").count() > 5


def test_nothing_but_its_content_makes_a_root_wide(browser, address):
    gap = "root => root.getBoundingClientRect().right - root.lastElementChild.getBoundingClientRect().right"
    with visit(browser, address, "book/softmax.html") as (page, _):
        gaps = [root.evaluate(gap) for root in page.locator("article msqrt").all()]
    assert gaps and max(gaps) < 1


def test_what_scrolls_sideways_says_so_and_can_be_reached(browser, address):
    with visit(browser, address, "book/heads.html", width=390) as (page, _):
        page.evaluate("""() => document.querySelector("article .formula").style.maxWidth = "60px" """)
        box = page.locator("article .formula").first
        box.scroll_into_view_if_needed()
        page.wait_for_function("document.querySelector('article .formula').dataset.more === 'right'")
        assert box.get_attribute("tabindex") == "0" and "scrolls" in box.get_attribute("aria-label")
        box.evaluate("e => e.scrollLeft = 20")
        page.wait_for_function("document.querySelector('article .formula').dataset.more.startsWith('left')")
        box.evaluate("e => e.style.maxWidth = ''")
        page.wait_for_function("!document.querySelector('article .formula').dataset.more")
        assert box.get_attribute("tabindex") is None


# One process reads all pages.
STATIC = pytest.mark.xdist_group("static")


@pytest.fixture(scope="module")
def soups(html):
    """Every built page; below _static lie the theme's templates."""
    pages = [page for page in html.rglob("*.html") if "_static" not in page.relative_to(html).parts]
    return {page.resolve(): BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser") for page in pages}


@STATIC
def test_links_lead_somewhere(html, soups):
    anchors = {page: {tag.get("id") or tag.get("name") for tag in soup.find_all(True)} for page, soup in soups.items()}

    def broken(page, link: str) -> bool:
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        return not target.is_file() or (bool(anchor) and target in anchors and anchor not in anchors[target])

    links = [(page, tag["href"]) for page, soup in soups.items() for tag in soup.select("a[href]:not([href*='://'])")]
    assert len(links) > 1000
    assert [(page.name, link) for page, link in links if not link.startswith("mailto:") and broken(page, link)] == []
    heads = html.resolve() / "book/heads.html"
    assert (
        broken(heads, "#nowhere") and broken(heads, "no-such-page.html") and broken(heads, "claims.html#no-such-claim")
    )


@STATIC
@pytest.mark.skipif(bool(GIVEN), reason="the given book may have an address")
def test_without_an_address_no_page_offers_a_dead_button(soups):
    away = {
        link["href"]
        for soup in soups.values()
        for link in soup.select("a[href*='://']")
        if not link.find_parent("article")
    }
    assert away == set()


@STATIC
def test_code_in_prose_leads_to_the_function_that_it_names(soups):
    names = {tag["id"] for soup in soups.values() for tag in soup.select("dt[id^='lsalib.']")}
    ends = {name.split(".", n)[-1] for name in names for n in range(name.count("."))}
    codes = [(page, code) for page, soup in soups.items() for code in soup.select("article code")]
    named = [(page.name, code) for page, code in codes if code.text.removesuffix("()") in ends]
    assert len(names) > 100 and len(named) > 50
    assert [(page, code.text) for page, code in named if not code.find_parent("a")] == []


def test_the_font_has_every_letter_of_the_formulas_and_says_whose_it_is(html):
    font = TTFont(html / "_static" / sphinx_math.FONT)
    used = {ord(letter) for letter in sphinx_math.used_characters(html)}
    missing = used - set(font.getBestCmap()) - {0x2061, 0xFE00}  # these two are not drawn
    assert {chr(code) for code in missing} == set()
    assert ord("√") in used  # drawn for <msqrt>, and in no formula's text
    assert "MATH" in font and "Open Font License" in font["name"].getDebugName(13)


def test_the_notebooks_number_theorems_equations_and_figures_as_the_book_does(html):
    wrong = {}
    for label, (stem, name) in LABELS.items():
        form = {"(": EQUATION, "F": FIGURE}.get(name[0], THEOREM)
        text = (html / f"book/{stem}.html").read_text(encoding="utf-8")
        found = re.search(form.format(re.escape(label.replace("_", "-"))), text, re.DOTALL)
        if not found or found[1] != name:
            wrong[label] = (name, found and found[1])
    assert len(LABELS) > 60 and wrong == {}
