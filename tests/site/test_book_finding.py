"""Finding one's way in the built book: search, hovers, the ledger, the ways on, and what the page says of itself."""

import pytest
from browser import visit

from lsalib.book.records import tally
from tools.ledger import claims
from tools.notebooks import labels as numbering
from tools.notebooks.pages import ROOT

LABELS = numbering.labels(ROOT)
CLAIM = "thm2-exact-gap"


def first_results(page, words: str) -> list[str]:
    page.goto(f"{page.url.split('?')[0]}?q={words.replace(' ', '+')}")
    page.get_by_text("Search finished").or_(page.get_by_text("did not match any documents")).first.wait_for()
    return page.locator("#search-results li > a").evaluate_all("all => all.map(e => e.getAttribute('href'))")


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("yq-LSA", "yq_lsa"),
        ("head", "heads"),
        ("gap", "gradients"),
        ("Theorem 2", "gradients"),
        ("MLP", "linear_transformer_block"),
        ("notation", "notation"),
    ],
)
def test_a_search_for_its_subject_shows_the_page_first(browser, address, words, page):
    with visit(browser, address, "search.html") as (tab, noise):
        assert first_results(tab, words)[0] == f"book/{page}.html"
        assert noise == []


def test_theorems_and_claims_are_found(browser, address):
    stem, number = LABELS["thm-exact-gap"]
    with visit(browser, address, "search.html") as (tab, _):
        assert f"book/{stem}.html#thm-exact-gap" in first_results(tab, number)[:3]
        assert first_results(tab, CLAIM)[0] == f"book/claims.html#{CLAIM}"
        # Words of code alone are no subject of the book.
        assert first_results(tab, "set_ylabel") == []


HOVERS = {
    "a theorem": ("a[href$='#thm-exact-gap']", "heads", "Theorem"),
    "an equation": ("a.reference[href$='#equation-heads-lift']", "heads", "("),
    "a source": ("a.reference[href*='intro.html#']", "heads", "arXiv"),
    "a claim": ("a.claim-badge", "heads", ""),
}


@pytest.mark.parametrize("what", HOVERS)
def test_a_link_shows_what_it_leads_to(browser, address, what):
    selector, stem, words = HOVERS[what]
    with visit(browser, address, f"book/{stem}.html") as (page, noise):
        page.locator(f"article {selector}").first.hover()
        tip = page.locator("#book-tip")
        tip.wait_for(state="visible")
        assert words in tip.inner_text() and tip.inner_text().strip()
        assert page.evaluate("document.querySelectorAll('[aria-describedby=book-tip]').length") == 1
        page.keyboard.press("Escape")
        assert tip.is_hidden() and noise == []


def test_a_plain_link_shows_nothing(browser, address):
    """The control: only what has a text of its own is shown."""
    with visit(browser, address, "book/heads.html") as (page, _):
        page.locator("article a[href='embedding.html']").first.hover()
        page.wait_for_timeout(1000)
        assert page.locator("#book-tip").is_hidden()


def rows(page) -> list[str]:
    return page.locator("table.ledger > tbody:visible").evaluate_all("all => all.map(e => e.id)")


CHOICES = ("Verdict", "Paper", "Order")


def test_the_ledger_filters_sorts_and_finds(browser, address):
    listed = claims.read_claims(ROOT)
    with visit(browser, address, "book/claims.html") as (page, noise):
        form = page.locator("form.ledger-tools")
        verdict, paper, order = (form.get_by_role("combobox", name=name, exact=True) for name in CHOICES)
        assert rows(page) == [claim.id for claim in listed]
        verdict.select_option("refuted as stated")
        assert rows(page) == [claim.id for claim in listed if claim.status == "refuted as stated"]
        verdict.select_option("")
        paper.select_option("new")
        assert rows(page) == [claim.id for claim in listed if claim.place == "new"]
        paper.select_option("")
        form.get_by_label("Search").fill("sharp-head-count")
        assert rows(page) == [claim.id for claim in listed if claim.id == "sharp-head-count"]
        form.get_by_label("Search").fill("")
        order.select_option("id")
        assert rows(page) == sorted(claim.id for claim in listed)
        form.get_by_label("Search").fill("qzxvkj")
        assert rows(page) == [] and form.locator("output").inner_text() == f"0 of {len(listed)} claims"
        assert noise == []


def test_an_address_opens_its_row(browser, address):
    records = [claims.check_of(record) for record in claims.read_records(ROOT) if record.id == CLAIM]
    with visit(browser, address, f"book/claims.html#{CLAIM}") as (page, _):
        row = page.locator(f"tbody[id='{CLAIM}']")
        assert row.locator("details").get_attribute("open") is not None
        assert row.locator("details tbody tr").count() == len(records)
        assert tally(records) in row.inner_text()


def test_without_scripts_the_ledger_is_a_table(browser, address):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}book/claims.html")
    assert len(rows(page)) == len(claims.read_claims(ROOT)) and page.locator("form.ledger-tools").count() == 0
    context.close()


def test_pages_describe_themselves_and_say_why_to_go_on(browser, address):
    with visit(browser, address, "book/heads.html") as (page, _):
        described = page.locator("meta[name=description]").get_attribute("content")
        assert "How many" not in described and "Is d+1 the right number?" in described
        assert (
            page.locator("meta[property='og:title']").get_attribute("content").endswith("How many heads does it take?")
        )
        assert page.locator(".prev-next-area .way-why").count() == 2


def test_sources_say_where_they_are_cited(browser, address):
    with visit(browser, address, "book/intro.html") as (page, _):
        cited = page.locator(".citation .cited-in a").evaluate_all("all => all.map(e => e.getAttribute('href'))")
        assert "softmax.html" in cited and "embedding.html" in cited
        # The others are cited on this page alone.
        others = page.locator(".citation:not(:has(.cited-in))").evaluate_all("all => all.map(e => e.id)")
        assert [name for name in others if not page.locator(f"article p a[href='#{name}']").count()] == []


def test_there_is_no_empty_index(html):
    assert not (html / "prf-prf.html").exists() and not (html / "py-modindex.html").exists()
    assert (html / "genindex.html").read_text(encoding="utf-8").count("<li>") > 100
