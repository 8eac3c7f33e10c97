"""What would shut a reader out is seen: planted into a page, each is reported, and the page without it is sound."""

import book_access as access
import pytest
from browser import visit

PAGE = "book/gradients_appendix.html"
PLANTED = {
    "an image without words": ("<img src='../_static/favicon.svg'>", "image-alt: "),
    "pale words": ("<p style='color: #999; background: #fff'>pale</p>", "color-contrast: "),
    "a field without a name": ("<input>", "label: "),
    "a link in what a key opens": ("<details><summary><a href='#'>a</a> b</summary></details>", "nested-interactive: "),
    "a heading without words": ("<h2></h2>", "empty-heading: "),
    "two small buttons": ("<button style='height: 9px; padding: 0; font-size: 6px'>x</button>" * 2, "target-size: "),
    "a low control": ("<button style='height: 9px; padding: 0; font-size: 6px'>x</button>", "small target, "),
    "one name for two places": ("<a href='#one'>here</a> <a href='#two'>here</a>", "2 links are called 'here'"),
    "no ring": ("<a style='outline: none !important' href='#'>x</a>", "no ring: "),
    "a wide word": ("<p style='white-space: nowrap'>" + "w" * 60 + "</p>", "twice the size: "),
}


@pytest.mark.parametrize("defect", PLANTED)
def test_what_would_shut_a_reader_out_is_seen(browser, address, defect):
    planted, report = PLANTED[defect]
    with visit(browser, address, PAGE, planted=planted) as (page, _):
        found = access.defects(page, 1280, "light")
    assert any(line.startswith(report) for line in found), found


def test_by_night_colours_are_looked_at(browser, address):
    with visit(browser, address, PAGE, theme="dark", planted="<p style='color: #444'>pale</p><h2></h2>") as (page, _):
        (found,) = access.defects(page, 390, "dark")
    assert found.startswith("color-contrast: <p")


def test_what_is_the_theme_s_own_is_left_to_it_and_nothing_else(browser, address):
    kept = access.THEMES
    with visit(browser, address, PAGE) as (page, _):
        try:
            access.THEMES = {}
            found = access.axe_defects(page, "light")
        finally:
            access.THEMES = kept
    assert {line.split(":")[0] for line in found} == {"region"}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_code_and_what_is_folded_can_be_read(browser, address, theme):
    with visit(browser, address, PAGE, theme=theme) as (page, _):
        page.evaluate("document.querySelectorAll('article details').forEach(fold => fold.open = true)")
        # What fades in is pale until it is there.
        page.evaluate("Promise.all(document.getAnimations().map(move => move.finished)).then(() => true)")
        assert access.axe_defects(page, theme, looked_into="article") == []
