"""Finding one's way in the built book: hovers and the ledger."""

import re

from browser import ROOT, visit

from lsalib.book.claims import tally
from tools import ledger
from tools.claims import read_claims
from tools.notebooks.pages import Book

CLAIM = "thm2-exact-gap"
CLAIMS = {claim.id: claim for claim in read_claims(ROOT)}


def said_of(name: str) -> str:
    """How the hover of a claim begins: its verdict; up to a formula, our finding."""
    claim = CLAIMS[name]
    return f"{claim.status} {claim.finding.partition('$')[0]}".strip()


# Links of one page, and how what they show begins; a source, with the first author in
# its link.
TIPS = {
    "a[href*='#thm-']": "Theorem",
    "a[href*='#equation-']": "(",
    "a[href*='intro.html#id']": "",
    "a.claim-badge[href$='#thm1-construction']": said_of("thm1-construction"),
}
MOVE = """(e, at) => scrollTo({
    top: scrollY + e.getBoundingClientRect().top - at, behavior: 'instant' })"""


def test_a_link_shows_what_it_leads_to_below_it_or_above_it_where_there_is_no_room(
    browser, address
):
    with visit(browser, address, "book/heads.html") as (page, noise):
        page.set_viewport_size({"width": 1280, "height": 700})
        tip = page.locator("#book-tip")
        for selector, words in TIPS.items():
            link = page.locator(f"article {selector}:visible").last
            for top, above in ((200, False), (660, True)):
                link.evaluate(MOVE, top)
                link.hover()
                tip.wait_for(state="visible")
                assert (words or link.inner_text().split()[0]) in tip.inner_text()
                assert page.locator("[aria-describedby=book-tip]").count() == 1
                at, shown = link.bounding_box(), tip.bounding_box()
                upper, lower = (shown, at) if above else (at, shown)
                assert 0 <= lower["y"] - upper["y"] - upper["height"] < 8
                assert 0 <= shown["y"] <= 700 - shown["height"]
                page.keyboard.press("Escape")
                assert tip.is_hidden()
                page.mouse.move(0, 0)
        # The control: a link to a whole page shows nothing.
        page.locator("article a[href='embedding.html']").first.hover()
        page.wait_for_timeout(600)
        assert tip.is_hidden() and noise == []


def shown(page) -> set[str]:
    """The claims that the ledger shows, each with its row of evidence."""
    ids = "all => all.map(e => e.id || e.previousElementSibling.id)"
    rows = page.locator("table.ledger > tbody > tr:visible").evaluate_all(ids)
    assert sorted(rows) == sorted([*set(rows)] * 2)
    return set(rows)


def ids(source="", status="") -> set[str]:
    return {
        name
        for name, claim in CLAIMS.items()
        if claim.source.startswith(source) and claim.status.startswith(status)
    }


def test_the_ledger_filters_and_finds_and_its_address_opens_a_row(browser, address):
    with visit(browser, address, f"book/claims.html#{CLAIM}") as (page, noise):
        form, counts = page.locator("form.ledger-tools"), page.locator(".ledger-tally")
        evidence = page.locator(f"tr[id='{CLAIM}'] + tr")
        stored = ledger.read_records(Book())[CLAIMS[CLAIM].page]
        records = [record for record in stored if record.id == CLAIM]
        assert evidence.locator("details").get_attribute("open") is not None
        assert tally(records) in evidence.inner_text()
        assert "proof: Theorem" in evidence.inner_text()
        assert shown(page) == ids()
        counts.get_by_role("link", name="refuted as stated").first.click()
        assert shown(page) == ids("P", "refuted as stated") and shown(page)
        summary = "A summary of the paper on softmax attention"
        counts.get_by_role("link", name=summary).click()
        assert shown(page) == ids("S") and shown(page)
        form.get_by_label("Search").fill("qzxvkj")
        assert shown(page) == set()
        assert form.locator("output").inner_text() == f"0 of {len(CLAIMS)} claims"
        form.get_by_role("button", name="Show all").click()
        assert shown(page) == ids() and noise == []


def test_the_ledger_works_by_keyboard_on_a_telephone(browser, address):
    one, other = "softmax-ov-zero-sum", "softmax-length"
    with visit(browser, address, "book/claims.html", width=390) as (page, noise):
        page.evaluate("window.still = 'the same page'")
        search = page.locator("form.ledger-tools").get_by_label("Search")
        # All words that are typed must occur.
        search.press_sequentially(f"{one} {CLAIMS[one].status}")
        assert shown(page) == {one}
        search.press("Enter")
        assert shown(page) == {one} and page.evaluate("window.still") == "the same page"
        search.press_sequentially(f" {other}")
        assert shown(page) == set()
        search.press("Tab")
        page.keyboard.press("Enter")
        assert shown(page) == ids() and search.input_value() == ""

        page.locator(".ledger-tally a", has_text="proved here").last.press("Enter")
        assert shown(page) == ids("new", "proved here") and shown(page)
        row = page.locator("tr[id='right-triangle']")
        evidence = page.locator("tr[id='right-triangle'] + tr")
        table = evidence.locator("table.evidence")
        assert not table.is_visible()
        evidence.locator("summary").press("Enter")
        assert table.is_visible()
        for box in row.bounding_box(), evidence.bounding_box():
            assert 0 <= box["x"] <= 390 - box["width"]
        assert noise == []


def test_the_search_lists_a_page_once_and_first_the_one_whose_title_was_typed(
    browser, address
):
    # As one types it: no capitals and no punctuation.
    asked = {
        re.sub(r"[^\w\s-]", "", Book().titles[stem]).lower(): f"book/{stem}.html"
        for stem in ("pythagoras", "heads", "softmax", "few_heads")
    }

    def found(page, words):
        page.goto(f"{address}search.html")
        page.locator(".bd-search-container input").fill(words)
        page.keyboard.press("Enter")
        page.locator(".search-summary", has_text="found").wait_for()
        # entries of the library stand beside what they are
        pages = page.locator("#search-results > ul > li:not(:has(> span)) > a")
        links = pages.evaluate_all("all => all.map(e => new URL(e.href).pathname)")
        return [link.removeprefix("/") for link in links]

    with visit(browser, address, "search.html") as (page, noise):
        for words, wanted in asked.items():
            links = found(page, words)
            assert links[0] == wanted and len(links) == len(set(links)) > 1
        assert noise == []
        # The control: Sphinx's own order, in which a page also stands twice.
        page.route("**/search.js", lambda route: route.fulfill(body=""))
        own = {words: found(page, words) for words in asked}
    assert any(links[0] != asked[words] for words, links in own.items())
    assert any(len(links) > len(set(links)) for links in own.values())
