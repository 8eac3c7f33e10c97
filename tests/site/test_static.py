"""What the built pages say, without a browser: links, numbers of theorems, verdicts and
their counts.
"""

import re
import unicodedata
from collections import Counter
from html import unescape

import pytest
from browser import ROOT
from bs4 import BeautifulSoup
from fontTools.ttLib import TTFont

from tools.claims import read_claims
from tools.ledger import read_records
from tools.notebooks.pages import Book, Page

# One process reads all pages.
pytestmark = pytest.mark.xdist_group("static")

CLAIMS = {claim.id: claim for claim in read_claims(ROOT)}
# Where the built page shows the number of an equation, of a figure, and of a theorem or
# the like.
EQUATION = r'(?s)id="equation-{}">.*?class="eqno">([^<]*)<'
FIGURE = r'(?s)<figure [^>]*id="{}">.*?"caption-number">([^<]*?) <'
THEOREM = (
    r'<div class="proof [^>]*id="{}">\s*<p class="admonition-title">'
    r'<span class="caption-number">([^<]*?) <'
)


@pytest.fixture(scope="module")
def texts(html):
    """Every built page; below _static lie the theme's templates."""
    pages = html.rglob("*.html")
    return {page: page.read_text() for page in pages if "_static" not in page.parts}


@pytest.fixture(scope="module")
def soups(html, texts):
    """The article of each of our own pages, by the page's name; an x stands where a
    formula, drawing or code was.
    """
    found = {}
    for page, text in texts.items():
        if html / "book" in page.parents:
            (article,) = re.findall("(?s)<article.*</article>", text)
            bare = re.sub(r"(?s)<(math|svg|pre)\b.*?</\1>", "x", article)
            found[page.stem] = BeautifulSoup(bare, "html.parser")
    return found


def test_links_lead_somewhere(html, texts):
    anchors = {
        page: {"", *re.findall(r'\b(?:id|name)="([^"]+)"', text)}
        for page, text in texts.items()
    }

    def broken(page, link: str) -> bool:
        path, _, anchor = unescape(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        return not target.is_file() or anchor not in anchors.get(target, {anchor})

    links = {
        page: re.findall(r'<a [^>]*?href="([^":]*)"', text)
        for page, text in texts.items()
    }
    assert sum(map(len, links.values())) > 1000
    for page, found in links.items():
        assert [link for link in found if broken(page, link)] == [], page.name
    heads = html / "book/heads.html"
    for link in ("#nowhere", "no-such-page.html", "claims.html#no-such-claim"):
        assert broken(heads, link)


def test_code_in_prose_leads_to_the_function_that_it_names(soups):
    names = {
        tag["id"] for soup in soups.values() for tag in soup.select("dt[id^='lsalib.']")
    }
    # as a text may write it: without the names of packages
    ends = {name.split(".", n)[-1] for name in names for n in range(name.count("."))}
    named = [
        code
        for soup in soups.values()
        for code in soup.select("code")
        if code.text.removesuffix("()") in ends
    ]
    assert len(names) > 50 and len(named) > 50
    assert [code.text for code in named if not code.find_parent("a")] == []


def test_the_notebooks_number_theorems_equations_and_figures_as_the_book_does(html):
    labels = Book().labels
    assert len(labels) > 60
    for label, (stem, name) in labels.items():
        form = {"(": EQUATION, "F": FIGURE}.get(name[0], THEOREM)
        shown = form.format(re.escape(label.replace("_", "-")))
        text = (html / f"book/{stem}.html").read_text()
        assert re.search(shown, text)[1] == name, label


def test_no_sign_of_punctuation_stands_twice(soups):
    parts = [part for soup in soups.values() for part in soup.select("p")]
    assert len(parts) > 1000
    for part in parts:
        words = [
            "x" if string.find_parent("code") else string for string in part.strings
        ]
        twice = re.search(r".{,40}[,;:]\s?[,;:]", "".join(words))
        assert twice is None, twice


def test_the_font_has_every_letter_of_the_formulas_and_says_whose_it_is(html, texts):
    formulas = re.findall("(?s)<math.*?</math>", "".join(texts.values()))
    used = set(unescape(re.sub("<[^>]*>", "", "".join(formulas))))
    # drawn for <msqrt>, and in no formula's text
    assert len(used) > 100 and "√" not in used
    # A single letter is drawn in italics, which have code points of their own.
    italics = map(chr, [0x210E, *range(0x1D434, 0x1D468), *range(0x1D6E2, 0x1D71C)])
    used |= {
        letter for letter in italics if unicodedata.normalize("NFKC", letter) in used
    }
    font = TTFont(html / "_static/book-math.woff")
    # two that are never drawn
    drawn = {"√", *used} - {"\u2061", "\ufe00"}
    assert {*map(ord, drawn)} <= font.getBestCmap().keys()
    assert "MATH" in font and "Open Font License" in font["name"].getDebugName(13)


def test_every_verdict_is_that_of_its_claim(soups):
    shown = [
        (link["href"].partition("#")[2], link)
        for soup in soups.values()
        for link in soup.select("a.claim-badge[href*='claims.html#']")
    ]
    rows = {row["id"]: row for row in soups["claims"].select("table.ledger tr[id]")}
    assert len(shown) > 100 and rows.keys() == CLAIMS.keys()
    for name, part in [*shown, *rows.items()]:
        assert part.select_one(".claim-status").text == CLAIMS[name].status, name


def test_a_page_gives_its_verdicts_after_the_argument(soups):
    """Each claim of both papers has its verdict on its page, and no opening box has
    one.
    """
    for name, claim in CLAIMS.items():
        # The verdicts on the two contributions close the argument.
        stem = "what_we_know" if claim.page == "intro" else claim.page
        badges = soups[stem].select(f"a[href$='claims.html#{name}']")
        assert badges or claim.source not in ("P", "S"), name
    boxes = [box for soup in soups.values() for box in soup.select(".brief")]
    assert len(boxes) > 15
    assert [box.a for box in boxes if box.select(".claim-status")] == []


def test_the_ledger_counts_its_claims_and_their_evidence(soups):
    lines = soups["claims"].select(".ledger-tally li")
    for whose, line in zip(("P", "S", "A", "new"), lines, strict=True):
        statuses = [each.status for each in CLAIMS.values() if each.source == whose]
        badges = [badge.text.partition(" ") for badge in line.select(".claim-status")]
        counts = {status: int(count) for count, _, status in badges}
        assert counts == Counter(statuses)
        assert f" {len(statuses)} claims" in line.text
    by_page = read_records(Book()).values()
    records = Counter(record.id for page in by_page for record in page)
    for row in soups["claims"].select("table.ledger tr[id]"):
        evidence = row.find_next_sibling("tr").select("details tbody tr")
        assert len(evidence) == records[row["id"]], row["id"]


def test_the_api_pages_type_no_number_by_hand():
    for path in (ROOT / "book/api").glob("*.md"):
        assert Page(Book(), path).typed_numbers() == [], path
