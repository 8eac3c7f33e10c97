"""One visit to a page answers everything that is asked of it: see survey.js for what it
looks at.
"""

from pathlib import Path

from axe_playwright_python.base import AXE_FILE_PATH
from matplotlib.textpath import TextToPath
from playwright.sync_api import Page

SCRIPTS = [Path(AXE_FILE_PATH), Path(__file__).with_name("survey.js")]
# Rules that axe needs seconds for: the survey measures contrast and sizes itself, and
# links look the same everywhere.
SLOW = ("color-contrast", "link-in-text-block", "target-size")
# The smallest letters of a figure, in pixels, by the width of the screen.
LETTERS = {1280: 12, 390: 10}
# What the theme and Sphinx do, (rule, where): the book's name outside of landmarks,
# parameters as a list without terms.
THEMES = [("region", ".sidebar-primary-items__start"), ("definition-list", "dl.py")]

AXE = """async ([context, options, themes]) => {
    const { violations } = await axe.run(context, options);
    const theirs = (rule, node) => themes.some(([name, where]) =>
        name === rule && node.element.closest(where));
    const reason = node => [...node.any, ...node.all, ...node.none][0]?.message;
    return violations.flatMap(({ id, nodes }) =>
        nodes.filter(node => !theirs(id, node)).map(node =>
            `${id}: ${node.html.slice(0, 120)} (${reason(node)})`));
}"""


def prepare(page: Page) -> None:
    for script in SCRIPTS:
        page.evaluate(script.read_text())


def ask(page: Page, what: str, argument: object = None) -> list[str]:
    return page.evaluate(f"argument => survey.{what}(argument)", argument)


def axe(page: Page) -> list[str]:
    """What axe finds outside of formulas and code, which are thousands of elements of
    few kinds.
    """
    rules = {name: {"enabled": False} for name in SLOW}
    # A style sheet that axe loads a second time would be a request of ours.
    options = {"rules": rules, "preload": False, "elementRef": True}
    options["resultTypes"] = ["violations"]
    return page.evaluate(AXE, [{"exclude": ["math", "pre"]}, options, THEMES])


def defects(page: Page) -> list[str]:
    """What is wrong with the page: by structure once, by layout at each width, by
    contrast in each theme.
    """
    prepare(page)
    found = ask(page, "shift") + axe(page) + ask(page, "structure")
    for width, least in LETTERS.items():
        page.set_viewport_size({"width": width, "height": 900})
        for opened in (False, True):
            ask(page, "fold", opened)
            found += ask(page, "layout")
        found += ask(page, "letters", [least, TextToPath.FONT_SCALE])
    for theme in ("light", "dark"):
        ask(page, "theme", theme)
        found += ask(page, "words") + ask(page, "inks")
    # Letters of twice the size, on a screen of half the width.
    ask(page, "fold", False)
    page.set_viewport_size({"width": 640, "height": 900})
    page.evaluate("document.documentElement.style.fontSize = '200%'")
    twice = [line for line in ask(page, "layout") if line.startswith("page of")]
    return found + [f"twice the size: {line}" for line in twice]
