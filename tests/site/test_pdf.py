"""The book on paper: one document whose links stay inside, nothing folded, nothing cut, nothing of screens alone."""

import shutil
import subprocess
import sys

import pytest
from browser import ROOT, visit

from tools.site import pdf

pytestmark = pytest.mark.xdist_group("pdf")

# Two that lead to each other and to the ledger; a small part of the book is printed in seconds.
PAGES = ["book/intro", "book/gradients_appendix", "book/reference"]


@pytest.fixture(scope="module")
def part(html, tmp_path_factory):
    """A built book of these pages, with what they show."""
    folder = tmp_path_factory.mktemp("paper")
    for name in ("_static", "_images"):
        if (html / name).is_dir():
            shutil.copytree(html / name, folder / name)
    (folder / "book").mkdir()
    for page in PAGES:
        shutil.copy(html / f"{page}.html", folder / "book")
    (folder / pdf.WHOLE).write_text(pdf.whole(folder, PAGES), encoding="utf-8")
    return folder


def test_all_pages_are_one_document(browser, part):
    with visit(browser, f"{part.as_uri()}/", pdf.WHOLE) as (page, _):
        assert page.locator("article").count() == len(PAGES)
        ids = page.locator("[id]").evaluate_all("all => all.map(e => e.id)")
        assert len(ids) > 100 and len(ids) == len(set(ids))
        inside = page.locator("a[href^='#']").evaluate_all("all => all.map(e => e.getAttribute('href').slice(1))")
        assert "gradients_appendix--" in inside and set(inside) <= set(ids)
        assert page.locator("script, button, .headerlink, details:not([open])").count() == 0
        assert page.locator("details[open]").count() > 3 and page.locator("math").count() > 50
        assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--fig-ink')"), "the inks"


def test_it_prints_with_outline_tags_and_page_numbers_and_the_front_page_offers_it(part, monkeypatch):
    # A process of its own: the browser of these tests has its playwright in this one.
    command = "import sys, pathlib; from tools.site import pdf; pdf.print_pdf(*map(pathlib.Path, sys.argv[1:]))"
    subprocess.run([sys.executable, "-c", command, part / pdf.WHOLE, part / pdf.PDF], cwd=ROOT, check=True)
    made = (part / pdf.PDF).read_bytes()
    assert made.startswith(b"%PDF") and b"/Outlines" in made and b"/StructTreeRoot" in made
    assert made.count(b"/Type /Page\n") > len(PAGES)
    monkeypatch.setattr(pdf, "toc_pages", lambda: PAGES)
    pdf.link_it(part)
    assert f'<a href="../{pdf.PDF}">' in (part / f"{PAGES[0]}.html").read_text()


def test_a_reader_who_prints_a_page_gets_all_of_it(browser, address):
    with visit(browser, address, "book/gradients_appendix.html") as (page, _):
        page.set_viewport_size({"width": 700, "height": 1000})  # A4
        page.emulate_media(media="print")
        folds, empty, cut, buttons = page.evaluate("""() => {
            const all = selector => [...document.querySelectorAll("article " + selector)];
            const cut = e => e.clientWidth > 1 && e.scrollWidth > e.clientWidth + 1
                && getComputedStyle(e).overflowX !== "visible";
            const inside = fold => [...fold.children].filter(e => e.tagName !== "SUMMARY");
            const height = e => e.getBoundingClientRect().height;
            return [
                all("details").length,
                all("details").filter(fold => !inside(fold).some(height)).length,
                all("*").filter(e => cut(e) && !e.closest("math, .visually-hidden, .unseen")).map(e => e.className),
                all(":is(button, .headerlink, .copybtn, .folds)").filter(e => e.checkVisibility()).length,
            ];
        }""")
    assert folds > 3 and (empty, cut, buttons) == (0, [], 0)
