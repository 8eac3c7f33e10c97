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
LABELS = Book().labels
# Where the built page shows the number of an equation, of a figure, and of a theorem or
# the like.
EQUATION = r'id="equation-{}">.*?class="eqno">([^<]*)<'
FIGURE = r'<figure [^>]*id="{}">.*?"caption-number">([^<]*?) <'
THEOREM = (
    r'<div class="proof [^>]*id="{}">\s*<p class="admonition-title">'
    r'<span class="caption-number">([^<]*?) <'
)


@pytest.fixture(scope="module")
def texts(html):
    """Every built page; below _static lie the theme's templates."""
    pages = [
        page for page in html.resolve().rglob("*.html") if "_static" not in page.parts
    ]
    return {page: page.read_text(encoding="utf-8") for page in pages}


@pytest.fixture(scope="module")
def soups(html, texts):
    """The article of each of our own pages, by the page's name; an x stands where a
    formula, drawing or code was.
    """
    own = {
        page.stem: text
        for page, text in texts.items()
        if (html.resolve() / "book") in page.parents
    }
    bare = lambda text: re.sub(r"<(math|svg|pre)\b.*?</\1>", "x", text, flags=re.DOTALL)
    articles = {
        stem: re.search("<article.*</article>", bare(text), re.DOTALL)
        for stem, text in own.items()
    }
    return {
        stem: BeautifulSoup(article[0], "html.parser")
        for stem, article in articles.items()
    }


@pytest.fixture(scope="module")
def ledger(soups):
    return soups["claims"]


def test_links_lead_somewhere(html, texts):
    anchors = {
        page: set(re.findall(r'\b(?:id|name)="([^"]+)"', text))
        for page, text in texts.items()
    }

    def broken(page, link: str) -> bool:
        path, _, anchor = unescape(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        return not target.is_file() or (
            bool(anchor) and target in anchors and anchor not in anchors[target]
        )

    links = [
        (page, link)
        for page, text in texts.items()
        for link in re.findall(r'<a [^>]*?href="([^":]*)"', text)
    ]
    assert (
        len(links) > 1000
        and [(page.name, link) for page, link in links if broken(page, link)] == []
    )
    heads = html.resolve() / "book/heads.html"
    assert all(
        broken(heads, link)
        for link in ("#nowhere", "no-such-page.html", "claims.html#no-such-claim")
    )


def test_around_the_text_no_link_leads_elsewhere_but_to_the_repository(texts):
    around = [
        re.sub("<article.*</article>", "", text, flags=re.DOTALL)
        for text in texts.values()
    ]
    away = {
        link
        for text in around
        for link in re.findall(r'<a [^>]*?href="([^"]*://[^"]*)"', text)
    }
    repository = Book().address
    assert [
        link
        for link in away
        if not repository or repository.removeprefix("https://") not in link
    ] == []


def test_code_in_prose_leads_to_the_function_that_it_names(soups):
    names = {
        tag["id"] for soup in soups.values() for tag in soup.select("dt[id^='lsalib.']")
    }
    ends = {name.split(".", n)[-1] for name in names for n in range(name.count("."))}
    codes = [
        (stem, code) for stem, soup in soups.items() for code in soup.select("code")
    ]
    named = [
        (stem, code) for stem, code in codes if code.text.removesuffix("()") in ends
    ]
    assert len(names) > 50 and len(named) > 50
    assert [
        (stem, code.text) for stem, code in named if not code.find_parent("a")
    ] == []


def test_the_notebooks_number_theorems_equations_and_figures_as_the_book_does(html):
    wrong = {}
    for label, (stem, name) in LABELS.items():
        form = {"(": EQUATION, "F": FIGURE}.get(name[0], THEOREM)
        text = (html / f"book/{stem}.html").read_text(encoding="utf-8")
        found = re.search(
            form.format(re.escape(label.replace("_", "-"))), text, re.DOTALL
        )
        if not found or found[1] != name:
            wrong[label] = (name, found and found[1])
    assert len(LABELS) > 60 and wrong == {}


def test_no_sign_of_punctuation_stands_twice(soups):
    words = lambda part: "".join(
        "x" if string.find_parent("code") else string for string in part.strings
    )
    parts = [
        (stem, words(part)) for stem, soup in soups.items() for part in soup.select("p")
    ]
    twice = re.compile(r".{,40}[,;:]\s?[,;:]")
    assert (
        len(parts) > 1000
        and [(stem, found[0]) for stem, text in parts if (found := twice.search(text))]
        == []
    )


def test_the_font_has_every_letter_of_the_formulas_and_says_whose_it_is(html, texts):
    formulas = re.findall("<math.*?</math>", "".join(texts.values()), re.DOTALL)
    used = set(unescape(re.sub("<[^>]*>", "", "".join(formulas))))
    # drawn for <msqrt>, and in no formula's text
    assert len(used) > 100 and "√" not in used
    # A single letter is drawn in italics, which have code points of their own.
    italics = [0x210E, *range(0x1D434, 0x1D468), *range(0x1D6E2, 0x1D71C)]
    plain = {unicodedata.normalize("NFKC", chr(code)): chr(code) for code in italics}
    used |= {"√", *(plain[letter] for letter in used & plain.keys())}
    font = TTFont(html / "_static/book-math.woff")
    drawn = {letter for letter in used if ord(letter) not in (0x2061, 0xFE00)}
    assert {
        letter for letter in drawn if ord(letter) not in font.getBestCmap()
    } == set()
    assert "MATH" in font and "Open Font License" in font["name"].getDebugName(13)


def test_every_verdict_is_that_of_its_claim(soups, ledger):
    links = [
        link
        for soup in soups.values()
        for link in soup.select("a.claim-badge[href*='claims.html#']")
    ]
    shown = [
        (link["href"].partition("#")[2], link.select_one(".claim-status").text)
        for link in links
    ]
    rows = [
        (row["id"], row.select_one("td .claim-status").text)
        for row in ledger.select("table.ledger tr[id]")
    ]
    assert len(shown) > 100 and sorted(name for name, _ in rows) == sorted(CLAIMS)
    assert [
        (name, said) for name, said in shown + rows if said != CLAIMS[name].status
    ] == []


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


def test_the_ledger_counts_its_claims_and_their_evidence(ledger):
    lines = ledger.select(".ledger-tally li")
    for whose, line in zip(("P", "S", "A", "new"), lines, strict=True):
        statuses = [each.status for each in CLAIMS.values() if each.source == whose]
        badges = [badge.text.partition(" ") for badge in line.select(".claim-status")]
        counts = {status: int(count) for count, _, status in badges}
        assert counts == Counter(statuses)
        assert int(re.search(r"(\d+) claims", line.text)[1]) == len(statuses)
    by_page = read_records(Book()).values()
    records = Counter(record.id for page in by_page for record in page)
    shown = {
        row["id"]: len(row.find_next_sibling("tr").select("details tbody tr"))
        for row in ledger.select("table.ledger tr[id]")
    }
    assert shown == {name: records[name] for name in CLAIMS}


@pytest.mark.parametrize("page", sorted((ROOT / "book/api").glob("*.md")))
def test_the_api_pages_type_no_number_by_hand(page):
    assert Page(Book(), page).typed_numbers() == []
