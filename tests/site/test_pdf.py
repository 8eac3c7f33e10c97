"""The book on paper: one document whose links stay inside, nothing folded, nothing cut,
nothing of screens alone.
"""

import shutil
import subprocess
import sys

import pytest
from browser import ROOT, visit

from tools.site import pdf

pytestmark = pytest.mark.xdist_group("pdf")

# Two that lead to each other and to the ledger; a small part of the book is printed in
# seconds.
PAGES = ["book/intro", "book/gradients_appendix", "book/reference"]
# A process of its own: the browser of these tests has its playwright in this one.
PRINT = """import sys, pathlib; from tools.site import pdf
pdf.print_pdf(*map(pathlib.Path, sys.argv[1:]))"""


def test_all_pages_are_one_document_which_prints_with_outline_and_tags(
    browser, html, tmp_path
):
    shutil.copytree(html / "_static", tmp_path / "_static")
    document, made = tmp_path / pdf.WHOLE, tmp_path / pdf.PDF
    document.parent.mkdir()
    document.write_text(pdf.whole(html, PAGES))
    with visit(browser, f"{tmp_path.as_uri()}/", pdf.WHOLE) as (page, _):
        count = lambda selector: page.locator(selector).count()
        ids = page.locator("[id]").evaluate_all("all => all.map(e => e.id)")
        assert len(ids) > 100 and len(ids) == len(set(ids))
        inside = page.locator("a[href^='#']").evaluate_all(
            "all => all.map(e => e.hash)"
        )
        assert "#gradients_appendix--" in inside
        assert set(inside) <= {f"#{name}" for name in ids}
        assert count("article") == len(PAGES)
        assert count("script, button, .headerlink, details:not([open])") == 0
        assert count("details[open]") > 3 and count("math") > 50
        inks = "getComputedStyle(document.body).getPropertyValue('--fig-ink')"
        assert page.evaluate(inks)
    subprocess.run([sys.executable, "-c", PRINT, document, made], cwd=ROOT, check=True)
    printed = made.read_bytes()
    assert printed.startswith(b"%PDF")
    assert b"/Outlines" in printed and b"/StructTreeRoot" in printed
    assert printed.count(b"/Type /Page\n") > len(PAGES)


def test_a_reader_who_prints_a_page_gets_all_of_it(browser, address):
    with visit(browser, address, "book/gradients_appendix.html") as (page, _):
        page.set_viewport_size({"width": 700, "height": 1000})  # A4
        page.emulate_media(media="print")
        folds, empty, cut, buttons = page.evaluate("""() => {
            const article = document.querySelector("article");
            const all = selector => [...article.querySelectorAll(selector)];
            const cut = e => e.clientWidth > 1 && e.scrollWidth > e.clientWidth + 1
                && getComputedStyle(e).overflowX !== "visible";
            const inside = fold =>
                [...fold.children].filter(e => e.tagName !== "SUMMARY");
            const seen = e => e.checkVisibility() && e.getBoundingClientRect().height;
            return [
                all("details").length,
                all("details").filter(fold => !inside(fold).some(seen)).length,
                all("*").filter(e => cut(e)
                    && !e.closest("math, .visually-hidden, .unseen"))
                    .map(e => e.className),
                all(":is(button, .headerlink, .copybtn, .folds)")
                    .filter(e => e.checkVisibility()).length,
            ];
        }""")
    assert folds > 3 and (empty, cut, buttons) == (0, [], 0)
