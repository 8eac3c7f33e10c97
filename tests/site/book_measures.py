"""What a page asks of its reader and of the reader's connection, and how much of it is too much."""

import gzip
import math
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from browser import visit
from playwright.sync_api import Browser, Page

# The names under which a test's report holds what it found: pytest carries its properties from the workers.
PROPERTY, SHUT_OUT = "measures of a page", "what axe finds on a page"


class Measures(NamedTuple):
    """One page: at 1280 px, but for the last, which is the layout's shift on a telephone."""

    words: int
    code: int
    height: int
    requests: int
    weight: float
    shift: float
    shift_390: float


HEAD = ("words", "lines of code", "height, px", "requests", "kB gzipped", "shift", "shift at 390")
BUDGET = Measures(words=2500, code=120, height=14_000, requests=25, weight=600, shift=0.05, shift_390=0.05)
# Pages that are looked into, not read from their beginning to their end: as long as what they list.
LISTS = ("book/claims", "book/notation", "book/reference", "book/api/")
LONG = {"words": math.inf, "height": math.inf}

READ = """() => {
    const folded = e => e.closest("details:not([open])") && !e.matches("details > summary, details > summary *");
    const open = e => e.checkVisibility() && !folded(e);
    const article = document.querySelector("article");
    const texts = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
    let words = 0;
    while (texts.nextNode()) {
        const e = texts.currentNode.parentElement;
        const output = e.closest(".cell_output") && !e.closest("figcaption");
        if (output || e.closest("math, pre, script, style, .headerlink, .prev-next-area") || !open(e)) continue;
        words += (texts.currentNode.textContent.match(/[\\p{L}\\p{N}]+([.,’'–-][\\p{L}\\p{N}]+)*/gu) ?? []).length;
    }
    const code = [...article.querySelectorAll(".cell_input pre")].filter(open)
        .reduce((lines, pre) => lines + pre.textContent.trim().split("\\n").length, 0);
    return [words, code, document.documentElement.scrollHeight];
}"""
# What moved while the page came, without what a reader's own doing moved.
SHIFT = """() => new Promise(done => {
    let sum = 0;
    new PerformanceObserver(list => list.getEntries().forEach(e => { if (!e.hadRecentInput) sum += e.value; }))
        .observe({type: "layout-shift", buffered: true});
    setTimeout(() => done(sum), 300);
})"""


@cache
def gzipped(path: Path) -> float:
    """The file's kB as a server would send it."""
    return len(gzip.compress(path.read_bytes(), 6)) / 1000


def loaded(page: Page) -> list[str]:
    """The addresses that the page has loaded, its own first."""
    return page.evaluate(
        """() => [location.href, ...performance.getEntriesByType("resource").map(entry => entry.name)]
            .filter(address => address.startsWith("http"))"""
    )


def measure(browser: Browser, address: str, html: Path, path: str, *, planted: str = "") -> Measures:
    """The page as it first comes, with nothing of the book in the browser's store."""
    with visit(browser, address, path, planted=planted) as (page, _):
        shift, files = page.evaluate(SHIFT), loaded(page)
        words, code, height = page.evaluate(READ)
    with visit(browser, address, path, width=390, planted=planted) as (page, _):
        narrow = page.evaluate(SHIFT)
    weight = sum(gzipped(html / unquote(urlsplit(file).path).lstrip("/")) for file in files)
    return Measures(words, code, height, len(files), weight, shift, narrow)


def budget(path: str) -> Measures:
    return BUDGET._replace(**LONG) if path.startswith(LISTS) else BUDGET


def over(path: str, measured: Measures) -> list[str]:
    """What is beyond the page's budget."""
    compared = zip(HEAD, measured, budget(path), strict=True)
    return [f"{name}: {value:.4g} of {most:.4g}" for name, value, most in compared if value > most]


def table(rows: dict[str, Measures], shut_out: dict[str, int]) -> list[str]:
    """The lines of one table, with a mark at what is beyond the budget; last what axe found, in all modes."""
    form = lambda value: f"{value:.3f}" if 0 < value < 1 else f"{value:,.0f}"
    lines = [["page", *(f"{name} ≤ {most:g}" for name, most in zip(HEAD, BUDGET, strict=True)), "axe = 0"]]
    for path, row in sorted(rows.items()):
        marked = [form(value) + "!" * (value > most) for value, most in zip(row, budget(path), strict=True)]
        found = shut_out.get(path)
        axe = "–" if found is None else f"{found}" + "!" * bool(found)
        lines.append([path.removesuffix(".html"), *marked, axe])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in lines]
