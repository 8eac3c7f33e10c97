"""What a page of the book costs its reader: requests, weight, and how much it moves while it loads."""

import gzip
from typing import NamedTuple

from playwright.sync_api import Browser, Response

from tests.browser import context_of, planter

SHIFTS = """() => new Promise(done => {
    let sum = 0;
    new PerformanceObserver(list => list.getEntries().forEach(e => { if (!e.hadRecentInput) sum += e.value; }))
        .observe({ type: "layout-shift", buffered: true });
    setTimeout(() => done(sum), 300);
})"""


class Weight(NamedTuple):
    """A first visit: how many requests, how many kB as a server sends them (gzip), and the sum of layout shifts."""

    requests: int
    kilobytes: float
    shift: float


def weight(browser: Browser, address: str, path: str, *, width: int = 1280, planted: str = "") -> Weight:
    """What the first visit to the page costs, with nothing kept from before."""
    responses: list[Response] = []
    with context_of(browser, width=width) as context:
        page = context.new_page()
        page.on("response", lambda response: responses.append(response))
        if planted:
            page.route(address + path, planter(planted))
        page.goto(address + path, wait_until="networkidle")
        page.evaluate("document.fonts.ready.then(() => true)")
        shift = page.evaluate(SHIFTS)
        sizes = [len(gzip.compress(response.body(), 6)) for response in responses]
    return Weight(len(sizes), sum(sizes) / 1000, shift)
