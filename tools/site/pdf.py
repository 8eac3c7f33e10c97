"""The built book as one PDF, whose links lead from page to page: python -m tools pdf
[--out DIR]
"""

import argparse
import os
import re
import shutil
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup, Tag
from playwright.sync_api import sync_playwright

from tools.site.build import ROOT, toc_pages

WHOLE, PDF = "book/whole.html", "book.pdf"
FOOTER = '<div style="width: 100%; font: 8px sans-serif; text-align: center" class="pageNumber"></div>'
# Attributes with an element's id; what is of use on a screen only.
NAMING = ("id", "aria-labelledby", "aria-describedby", "for")
SCREEN_ONLY = "script, button, .headerlink, .explorer, .ledger-tools, .copybtn, table.ledger details > :not(summary)"


def chromium() -> dict:
    """How Playwright starts the machine's Chromium, without a screen and without a look
    at the network.
    """
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise SystemExit(f"No browser: none of {', '.join(names)} is installed")
    quiet = "no-sandbox disable-gpu disable-background-networking disable-component-update disable-sync disable-quic"
    return {"executable_path": found, "args": [f"--{flag}" for flag in quiet.split()]}


def own(page: str, name: str) -> str:
    """A page's id, as it is called where all pages are one: “heads--thm-few-heads”."""
    return f"{Path(page).name}--{name}"


def moved(page: str, address: str, pages: list[str]) -> str:
    """The address as it is where all pages are one, in the folder of the first."""
    if re.match(r"[a-z]+:", address):
        return address
    path, _, anchor = address.partition("#")
    target = os.path.normpath(Path(page).parent / path) if path else f"{page}.html"
    known = target.removesuffix(".html")
    return (
        f"#{own(known, anchor)}"
        if known in pages
        else f"../{target}{'#' * bool(anchor)}{anchor}"
    )


def article(soup: BeautifulSoup, page: str, pages: list[str]) -> Tag:
    """The page's article, open, with ids of its own; links to pages of the book lead
    into the document.
    """
    found = soup.select("article.bd-article")[0]
    for useless in found.select(SCREEN_ONLY):
        useless.decompose()
    for details in found.select("details"):
        details["open"] = ""
    for tag in found.find_all(True):
        for name, value in [
            (name, str(value)) for name, value in tag.attrs.items() if name != "class"
        ]:
            if name in NAMING:
                tag[name] = " ".join(own(page, part) for part in value.split())
            elif name in ("href", "xlink:href", "src"):
                tag[name] = moved(page, value, pages)
            elif "url(#" in value:
                tag[name] = re.sub(
                    r"url\(#([^)]+)\)",
                    lambda found: f"url(#{own(page, found[1])})",
                    value,
                )
    found["id"] = own(page, "")
    return found


def whole(html: Path, pages: list[str]) -> str:
    """All articles in one document, with the style sheets of the first page."""
    soups = [
        BeautifulSoup(
            (html / f"{page}.html").read_text(encoding="utf-8"), "html.parser"
        )
        for page in pages
    ]
    sheets = soups[0].select("head > link[rel=stylesheet], head > style")
    articles = "".join(
        str(article(soup, page, pages)) for soup, page in zip(soups, pages, strict=True)
    )
    return (
        f'<!DOCTYPE html><html lang="en" data-theme="light" data-mode="light"><head><meta charset="utf-8">'
        f"<title>{soups[0].select('title')[0].text.rpartition(' — ')[2]}</title>{''.join(map(str, sheets))}</head>"
        f'<body class="whole"><main class="bd-main"><div class="bd-content">{articles}</div></main></body></html>'
    )


def print_pdf(document: Path, target: Path) -> None:
    with sync_playwright() as playwright:
        page = playwright.chromium.launch(**chromium()).new_page()
        page.set_default_timeout(600_000)  # ends a hang
        page.goto(document.as_uri())
        page.evaluate("document.fonts.ready.then(() => true)")
        margin: Any = dict.fromkeys(("top", "right", "bottom", "left"), "17mm")
        numbered: Any = {
            "display_header_footer": True,
            "header_template": "<span></span>",
            "footer_template": FOOTER,
        }
        page.pdf(
            path=target,
            format="A4",
            margin=margin,
            print_background=True,
            outline=True,
            tagged=True,
            **numbered,
        )


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools pdf", description="The built book as one PDF."
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT,
        metavar="DIR",
        help="where _build/html is (default: here)",
    )
    html = parser.parse_args(argv).out.resolve() / "_build/html"
    document, target, front = html / WHOLE, html / PDF, html / f"{toc_pages()[0]}.html"
    document.write_text(whole(html, toc_pages()), encoding="utf-8")
    print_pdf(document, target)
    document.unlink()
    link = f'<a href="../{PDF}">The whole book as a PDF</a> ({target.stat().st_size / 1e6:.0f} MB).'
    front.write_text(
        front.read_text(encoding="utf-8").replace('<span id="pdf"></span>', link),
        encoding="utf-8",
    )
    print(f"Open {os.path.relpath(target)}")
