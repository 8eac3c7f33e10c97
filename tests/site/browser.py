"""A real browser over the built book: serve it, visit a page, note what goes wrong."""

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from loopback import running
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from tools.site import pdf

ROOT = Path(__file__).resolve().parents[2]


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """The tests report what matters."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """The folder's address on a free loopback port."""
    handler = functools.partial(Silent, directory=folder)
    with running(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}/"


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium; without one tests are skipped, and fail where CI=true."""
    try:
        options = pdf.chromium()
    except SystemExit as missing:
        give_up = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        give_up(f"The built book is not tested. {missing}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**options)
        yield browser
        browser.close()


def listen(page: Page, address: str) -> list[str]:
    """A list that collects the page's errors, which Chromium writes on its console, and
    its requests to elsewhere.
    """
    noise: list[str] = []

    def asked(request: Request) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            noise.append(f"request to elsewhere: {request.url}")

    def said(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            noise.append(f"console: {message.text} ({message.location})")

    page.on("console", said)
    page.on("pageerror", lambda error: noise.append(f"script error: {error}"))
    page.on("request", asked)
    return noise


@contextmanager
def visit(
    browser: Browser,
    address: str,
    path: str,
    *,
    width: int = 1280,
    scripts: bool = True,
) -> Iterator[tuple[Page, list[str]]]:
    """An open page that has settled, in a browser that knows nothing yet, and the noise
    it makes.
    """
    screen = {"width": width, "height": 900}
    context = browser.new_context(
        viewport=screen, color_scheme="light", java_script_enabled=scripts
    )
    context.set_default_timeout(180_000)  # ends a hang; a busy machine needs less
    try:
        page = context.new_page()
        noise = listen(page, address)
        page.goto(address + path, wait_until="load")
        page.evaluate("document.fonts.ready.then(() => true)")
        yield page, noise
    finally:
        context.close()
