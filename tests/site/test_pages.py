"""Every page of the built book in a real browser: offline, on a telephone and on a
desk, by day and by night.
"""

import pytest
import survey
from browser import ROOT, visit

from tools.site.build import toc_pages

PAGES = [f"{page}.html" for page in toc_pages(ROOT)]
OTHERS = ["search.html", "genindex.html", "_modules/lsalib/estimators.html"]


@pytest.mark.parametrize("path", PAGES + OTHERS)
def test_page_is_sound(browser, address, path):
    with visit(browser, address, path) as (page, noise):
        found = survey.defects(page)
    assert noise + found == []


# The control for the survey: (what is added to a page, what is said of it), one for
# each thing that it looks at.
BROKEN = [
    ('<span class="math">\\(x^2\\)</span>', "formula not set"),
    (
        "<math><msqrt style='padding-right: 9px'><mi>z</mi></msqrt></math>",
        "a root wider than its content: z",
    ),
    ('<img alt="A map" src="no-such-map.png">', "image not shown"),
    ('<img src="../_static/favicon.svg">', "no alt text"),
    ('<div aria-label="x" role="button"></div>', "aria"),
    (
        '<a href="#one">here</a> <a href="#two">here</a>',
        "2 links to different places are called 'here'",
    ),
    ('<a href="#three" style="outline: none !important">there</a>', "no focus ring"),
    ("<div style='width: 2000px'>wide</div>", "sticks out"),
    (
        "<div style='overflow: hidden'><div style='width: 2000px'>wide</div></div>",
        "cut off",
    ),
    (
        "<button style='height: 9px; padding: 0; font-size: 6px'>x</button>",
        "hard to hit",
    ),
    ("<p style='color: #777; background: #121212'>gray</p>", "pale, 4.18: gray"),
    (
        "<p style='color: #000; background: #fff; opacity: 0.5'>veiled</p>",
        "pale, 3.98: veiled",
    ),
    (
        "<svg class='drawing' role='img' aria-label='A'><path d='M0 0L9 0L9 9z' "
        "style='fill: black'/></svg>",
        "ink rgb(0",
    ),
    (
        "<svg role='img' aria-label='B'><text font-size='6'>small</text></svg>",
        "letters of 6.0 px: B",
    ),
    (
        "<script>console.error('broken')</script><img alt='C' src='http://elsewhere.invalid/c.png'>",
        "request to elsewhere",
    ),
]
ADD = """html => document.querySelector('article').append(
    document.createRange().createContextualFragment(html))"""


def test_what_is_broken_is_seen(browser, address):
    with visit(browser, address, "book/gradients_appendix.html") as (page, noise):
        page.evaluate(ADD, "".join(html for html, _ in BROKEN))
        found = "\n".join(survey.defects(page) + noise)
    assert [said for _, said in BROKEN if said not in found] == []


def test_a_late_font_does_not_move_the_text_unless_the_page_shows_before_it(
    browser, address
):
    held = []

    def again():
        page.reload(wait_until="domcontentloaded")
        page.wait_for_timeout(1000)  # the page without its font
        while held:
            held.pop().continue_()
        page.evaluate("document.fonts.ready.then(() => true)")
        survey.prepare(page)
        return survey.ask(page, "shift")

    with visit(browser, address, "book/api/attention.html") as (page, _):
        page.route("**/*.woff", lambda route: held.append(route))
        assert again() == []
        page.add_init_script("document.fonts.load = () => Promise.resolve()")
        assert "jumps" in str(again())


def test_without_scripts_all_is_there_but_what_needs_them(browser, address):
    with visit(browser, address, "book/heads.html", scripts=False) as (page, noise):
        assert page.locator("article .math math").count() > 50
        assert page.locator("article svg.drawing").count() > 0
        assert not page.get_by_text("Open everything").is_visible()
        page.goto(f"{address}book/claims.html")
        assert page.locator("table.ledger tr[id]:visible").count() > 50
        assert not page.locator("form.ledger-tools").is_visible() and noise == []


def test_pages_work_from_a_folder(browser, html):
    """Without a server; browsers keep fonts from such pages; the console says so."""
    with visit(browser, f"{html.as_uri()}/", "book/heads.html") as (page, _):
        assert page.locator("article .math math").count() > 50
        page.locator(".explorer svg").first.wait_for()


def test_folds_open_and_close_together_also_on_the_next_page_and_for_a_link_into_one(
    browser, address
):
    state = "[...document.querySelectorAll('article details')].map(fold => fold.open)"
    with visit(browser, address, "book/embedding.html") as (page, noise):
        assert not any(page.evaluate(state))
        for word, wanted in ("Open", True), ("Close", False):
            page.get_by_role("button", name=f"{word} everything").press("Enter")
            assert set(page.evaluate(state)) == {wanted}
            page.goto(f"{address}book/gradients.html")
            assert set(page.evaluate(state)) == {wanted}
        target = page.locator("article details div.math[id]").first
        assert not target.is_visible()
        page.evaluate("name => location.hash = name", target.get_attribute("id"))
        target.wait_for(state="visible")
        page.reload()
        assert target.is_visible() and noise == []
        assert page.evaluate(state).count(False) > 5


def test_what_scrolls_sideways_says_so_and_can_be_reached(browser, address):
    with visit(browser, address, "book/heads.html", width=390) as (page, _):
        box = page.locator("article .formula").first
        for change, then in {
            "e.style.maxWidth = '60px'": "[data-more=right][tabindex='0'][role=group]",
            "e.scrollLeft = 20": "[data-more^=left][aria-label*=scrolls]",
            "e.style.maxWidth = ''": ":not([data-more], [tabindex])",
        }.items():
            box.evaluate(f"e => {{ {change}; }}")
            box.and_(page.locator(then)).wait_for()


COPY = """part => {
    getSelection().selectAllChildren(part);
    document.execCommand("copy");
    return navigator.clipboard.readText();
}"""


def test_a_copied_formula_is_its_latex(browser, address):
    with visit(browser, address, "book/heads.html") as (page, _):
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        question = page.locator(".brief-question").evaluate(COPY)
        assert "proves that $d+1$ heads compute" in question and "$$" not in question
        block = page.locator("article div.math").first
        tex = block.locator("math[alttext]").get_attribute("alttext")
        assert block.locator("xpath=..").evaluate(COPY).count(f"$${tex}$$") == 1
        # Words alone are copied as they are.
        assert page.locator("article h1").evaluate(COPY) == "6. How many heads?"
