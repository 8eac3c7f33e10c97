"""Finding one's way in the built book: search, hovers, the ledger, and the ways on."""

import pytest
from browser import ROOT, visit

from lsalib.book.claims import tally
from tools.ledger import claims
from tools.notebooks import pages

CLAIM = "thm2-exact-gap"
SEARCHED = {"transformer block": "book/linear_transformer_block.html", "notation": "book/notation.html", "qzxvkj": None}


def test_a_search_shows_the_page_with_this_title_first(browser, address):
    first = {}
    with visit(browser, address, "search.html") as (page, noise):
        for words in SEARCHED:
            page.goto(f"{address}search.html?q={words.replace(' ', '+')}")
            page.get_by_text("Search finished").or_(page.get_by_text("did not match any documents")).first.wait_for()
            found = page.locator("#search-results li > a").evaluate_all("all => all.map(e => e.getAttribute('href'))")
            first[words] = found[0].partition("#")[0] if found else None
    assert first == SEARCHED and noise == []


def test_a_link_shows_what_it_leads_to_below_it_or_above_it_where_there_is_no_room(browser, address):
    tips = {
        "a[href$='#thm-exact-gap']": "Theorem",
        "a.reference[href$='#equation-heads-lift']": "(",
        "a.reference[href*='intro.html#']": "arXiv",
        "p > a.claim-badge": "",
    }
    move = "(e, at) => scrollTo({ top: scrollY + e.getBoundingClientRect().top - at, behavior: 'instant' })"
    with visit(browser, address, "book/heads.html") as (page, noise):
        page.set_viewport_size({"width": 1280, "height": 700})
        tip = page.locator("#book-tip")
        for selector, words in tips.items():
            link = page.locator(f"article {selector}").last
            for height, below in ((200, True), (660, False)):
                link.evaluate(move, height)
                link.hover()
                tip.wait_for(state="visible")
                assert words in tip.inner_text() and tip.inner_text().strip()
                assert page.locator("[aria-describedby=book-tip]").count() == 1
                at, shown = link.bounding_box(), tip.bounding_box()
                gap = shown["y"] - at["y"] - at["height"] if below else at["y"] - shown["y"] - shown["height"]
                assert 0 <= gap < 8 and 0 <= shown["y"] and shown["y"] + shown["height"] <= 700
                page.keyboard.press("Escape")
                assert tip.is_hidden()
                page.mouse.move(0, 0)
        # The control: a link to a whole page shows nothing.
        page.locator("article a[href='embedding.html']").first.hover()
        page.wait_for_timeout(600)
        assert tip.is_hidden() and noise == []


def test_the_ledger_filters_and_finds_and_its_address_opens_a_row(browser, address):
    listed = claims.read_claims(ROOT)

    def shown() -> set[str]:
        return set(page.locator("table.ledger > tbody:visible").evaluate_all("all => all.map(e => e.id)"))

    def ids(source="", status="") -> set[str]:
        return {each.id for each in listed if each.source.startswith(source) and each.status.startswith(status)}

    with visit(browser, address, f"book/claims.html#{CLAIM}") as (page, noise):
        form, counts = page.locator("form.ledger-tools"), page.locator(".ledger-tally")
        row = page.locator(f"tbody[id='{CLAIM}']")
        records = [record for record in claims.read_records(ROOT)["initial_guess"] if record.id == CLAIM]
        assert row.locator("details").get_attribute("open") is not None
        assert tally(records) in row.inner_text()
        assert shown() == ids()
        counts.get_by_role("link", name="refuted as stated").first.click()
        assert shown() == ids("P", "refuted as stated") and 0 < len(shown()) < 5
        counts.get_by_role("link", name="A summary of the paper on softmax attention").click()
        assert shown() == ids("S") and 0 < len(shown()) < len(listed)
        form.get_by_label("Search").fill("zero-sum")
        assert shown() == {"softmax-ov-zero-sum"}
        form.get_by_role("button", name="Show all").click()
        assert shown() == ids()
        form.get_by_label("Search").fill("qzxvkj")
        assert shown() == set() and form.locator("output").inner_text() == f"0 of {len(listed)} claims"
        assert noise == []


def test_pages_describe_themselves_and_say_why_to_go_on_and_who_cites(browser, address):
    with visit(browser, address, "book/heads.html") as (page, _):
        described = page.locator("meta[name=description]").get_attribute("content")
        assert "How many" not in described and "Is d+1 the right number?" in described
        assert page.locator(".prev-next-area .way-why").count() == 2
        page.goto(f"{address}book/intro.html")
        cited = page.locator(".citation .cited-in a").evaluate_all("all => all.map(e => e.getAttribute('href'))")
        assert "softmax.html" in cited and "embedding.html" in cited
        # The others are cited on this page alone.
        others = page.locator(".citation:not(:has(.cited-in))").evaluate_all("all => all.map(e => e.id)")
        assert [name for name in others if not page.locator(f"article p a[href='#{name}']").count()] == []


@pytest.mark.parametrize("page", sorted(f"api/{md.stem}" for md in (ROOT / "book/api").glob("*.md")))
def test_the_api_pages_type_no_number_by_hand(page):
    assert pages.text_defects(pages.Page(ROOT, page)) == []
