"""The built book as one PDF, whose links lead from page to page."""

import argparse
import os
import re
import shutil
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tools.site.build import HTML, offer, toc_pages

WHOLE, PDF = "book/whole.html", "book.pdf"
FOOTER = (
    '<div style="width: 100%; font: 8px sans-serif; text-align: center" '
    'class="pageNumber"></div>'
)
# An attribute with names of elements or an address, or a drawing's reference.
LINK = re.compile(
    r'(?<![\w-])(id|for|aria-labelledby|aria-describedby|href|src)="([^"]*)"'
    r"|url\(#([^)]+)\)"
)
# What paper has no use for.
SCREEN = re.compile(r'<(script|button).*?</\1>|<a class="headerlink".*?</a>', re.DOTALL)
FRAME = """<!DOCTYPE html><html lang="en" data-theme="light" data-mode="light">
<head><meta charset="utf-8">{}</head>
<body class="whole"><main class="bd-main"><div class="bd-content">
{}
</div></main></body></html>"""
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
)


def chromium() -> dict:
    """How Playwright starts the machine's Chromium, without a screen and without a look
    at the network.
    """
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise SystemExit(f"No browser: none of {', '.join(names)} is installed")
    return {"executable_path": found, "args": [*FLAGS]}


def own(page: str, name: str) -> str:
    """A page's id, as it is called where all pages are one: “heads--thm-few-heads”."""
    return f"{Path(page).name}--{name}"


def moved(page: str, address: str, pages: list[str]) -> str:
    """The address as it is where all pages are one, in the folder of the first."""
    if re.match(r"[a-z]+:", address):
        return address
    path, sign, anchor = address.partition("#")
    target = os.path.normpath(Path(page).parent / path) if path else f"{page}.html"
    known = target.removesuffix(".html")
    return f"#{own(known, anchor)}" if known in pages else f"../{target}{sign}{anchor}"


def article(text: str, page: str, pages: list[str]) -> str:
    """The page's article, open, with ids of its own; links to pages of the book lead
    into the document.
    """

    def renamed(match: re.Match[str]) -> str:
        name, value, drawn = match.groups()
        if drawn:
            return f"url(#{own(page, drawn)})"
        if name in ("href", "src"):
            return f'{name}="{moved(page, value, pages)}"'
        return f'{name}="{" ".join(own(page, part) for part in value.split())}"'

    (found,) = re.findall(r"<article.*</article>", text, re.DOTALL)
    found = SCREEN.sub("", found)
    found = LINK.sub(renamed, found.replace("<details", "<details open"))
    return found.replace("<article", f'<article id="{own(page, "")}"', 1)


def whole(html: Path, pages: list[str]) -> str:
    """All articles in one document, with the style sheets of the first page."""
    texts = [(html / f"{page}.html").read_text(encoding="utf-8") for page in pages]
    head = texts[0].partition("</head>")[0]
    kept = r'<title>.*?</title>|<style>.*?</style>|<link rel="stylesheet"[^>]*>'
    sheets = re.findall(kept, head, re.DOTALL)
    articles = [article(*each, pages) for each in zip(texts, pages, strict=True)]
    return FRAME.format("\n".join(sheets), "\n".join(articles))


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


def main(args: argparse.Namespace) -> None:
    document, target = HTML / WHOLE, HTML / PDF
    document.write_text(whole(HTML, toc_pages()), encoding="utf-8")
    print_pdf(document, target)
    document.unlink()
    size = f"({target.stat().st_size / 1e6:.0f} MB)"
    offer("pdf", f'<a href="../{PDF}">The whole book as a PDF</a> {size}.')
    print(f"Open {os.path.relpath(target)}")
