"""The built book as one PDF, with outline, links and page numbers: python -m tools.site.pdf [--out DIR]

Chromium prints all pages as one document, so that links between them lead from page to page of the PDF.
"""

import argparse
import os
import re
from pathlib import Path

from bs4 import BeautifulSoup, Tag
from playwright.sync_api import PdfMargins, sync_playwright

from tools.site.build import ROOT, toc_pages
from tools.site.chromium import FLAGS, executable

WHOLE, PDF = "whole.html", "book.pdf"
# Where the front page offers the file, once there is one.
PLACE = '<span id="pdf"></span>'
# A page number below each page; Chromium fills in the spans of these classes.
FOOTER = """<div style="width: 100%; font: 8px sans-serif; text-align: center">
<span class="pageNumber"></span> / <span class="totalPages"></span></div>"""
MARGIN: PdfMargins = {"top": "18mm", "bottom": "18mm", "left": "16mm", "right": "16mm"}
# Where an element names another by its id.
NAMING = ("aria-labelledby", "aria-describedby", "for")
# What is of use on a screen only.
SCREEN_ONLY = "script, button, .headerlink, .explorer, .ledger-tools, .copybtn"


def own(page: str, name: str) -> str:
    """A page's id, as it is called where all pages are one: «heads--thm-few-heads»."""
    return f"{Path(page).name}--{name}"


def article(html: Path, page: str, pages: list[str]) -> Tag:
    """The page's article with ids of its own; links to pages of the book lead into the document."""
    soup = BeautifulSoup((html / f"{page}.html").read_text(encoding="utf-8"), "html.parser")
    found = soup.select("article.bd-article")[0]
    for useless in found.select(SCREEN_ONLY):
        useless.decompose()
    # On paper the checks stand in the chapters; the ledger says how many there are.
    for details in found.select("table.ledger details"):
        count = details.select("summary")[0]
        count.name = "p"
        details.replace_with(count)
    for details in found.select("details"):
        details["open"] = ""
    for tag in found.find_all(True):
        for name, value in [(name, str(value)) for name, value in tag.attrs.items() if isinstance(value, str)]:
            if name == "id" or name in NAMING:
                tag[name] = " ".join(own(page, part) for part in value.split())
            elif name in ("href", "xlink:href", "src"):
                tag[name] = moved(page, value, pages)
            elif "url(#" in value:
                tag[name] = re.sub(r"url\(#([^)]+)\)", lambda found: f"url(#{own(page, found[1])})", value)
    found["id"] = own(page, "")
    return found


def moved(page: str, address: str, pages: list[str]) -> str:
    """The address as it is where all pages are one, at the top of the built book."""
    path, _, anchor = address.partition("#")
    if re.match(r"[a-z]+:", address):
        return address
    target = os.path.normpath(Path(page).parent / path) if path else f"{page}.html"
    known = target.removesuffix(".html")
    return f"#{own(known, anchor)}" if known in pages else target + ("#" + anchor if anchor else "")


def whole(html: Path, pages: list[str]) -> str:
    """All articles in one document, with the style sheets that they have in the book."""
    first = BeautifulSoup((html / f"{pages[0]}.html").read_text(encoding="utf-8"), "html.parser")
    sheets = [moved(pages[0], str(link["href"]), []) for link in first.select("link[rel=stylesheet]")]
    links = "".join(f'<link rel="stylesheet" href="{sheet}">' for sheet in sheets)
    links += "".join(map(str, first.select("head > style")))
    articles = "".join(str(article(html, page, pages)) for page in pages)
    return (
        f'<!DOCTYPE html><html lang="en" data-theme="light" data-mode="light"><head><meta charset="utf-8">'
        f"<title>{first.select('title')[0].text.rpartition(' — ')[2]}</title>{links}</head>"
        f'<body class="whole"><main class="bd-main"><div class="bd-content">{articles}</div></main></body></html>'
    )


def print_pdf(document: Path, target: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=list(FLAGS))
        page = browser.new_page()
        page.set_default_timeout(600_000)  # ends a hang
        page.goto(document.as_uri())
        page.evaluate("document.fonts.ready.then(() => true)")
        page.pdf(
            path=target, format="A4", margin=MARGIN, print_background=True, outline=True, tagged=True,
            display_header_footer=True, header_template="<span></span>", footer_template=FOOTER,
        )  # fmt: skip
        browser.close()


def link_it(html: Path) -> None:
    """Offer the file on the front page, in the place that is kept for it."""
    front = html / f"{toc_pages()[0]}.html"
    text = front.read_text(encoding="utf-8")
    size = (html / PDF).stat().st_size / 1e6
    front.write_text(
        text.replace(PLACE, f'<a href="../{PDF}">The whole book as a PDF</a> ({size:.0f} MB).'),
        encoding="utf-8",
    )


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.site.pdf", description="The built book as one PDF.")
    parser.add_argument("--out", type=Path, default=ROOT, metavar="DIR", help="where _build/html is (default: here)")
    html = parser.parse_args(argv).out.resolve() / "_build/html"
    document = html / WHOLE
    document.write_text(whole(html, toc_pages()), encoding="utf-8")
    try:
        print_pdf(document, html / PDF)
    finally:
        document.unlink()
    link_it(html)
    print(f"Open {os.path.relpath(html / PDF)}")


if __name__ == "__main__":
    main()
