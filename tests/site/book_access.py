"""What may shut a reader out of a page: axe's rules, targets hard to hit, links that do not say where they go."""

from collections import Counter
from pathlib import Path

from axe_playwright_python.base import AXE_FILE_PATH
from playwright.sync_api import Page

AXE = Path(AXE_FILE_PATH).read_text(encoding="utf-8")
# What is not ours to mend: (rule, where).
THEMES = {
    ("region", ".sidebar-primary-items__start"): "the theme's name of the book stands outside of its landmarks",
    ("definition-list", "dl.py"): "Sphinx writes the parameters of a long signature as a list without terms",
}
# What a hand or a key is meant to hit.
CONTROLS = "summary, button, select, input, [role=button], .prev-next-area a"


def axe_defects(page: Page, theme: str, looked_into: str = "") -> list[str]:
    """What axe finds, but for what is the theme's own; by night, the colours, since nothing else has changed.

    Formulas and code are left out, with a letter in each of their thousands of elements, unless asked for.
    """
    rules = {"runOnly": ["color-contrast"]} if theme == "dark" else {"rules": {"target-size": {"enabled": True}}}
    # A style sheet that axe loads a second time would be a request of ours.
    options = {**rules, "resultTypes": ["violations"], "preload": False, "elementRef": True}
    context = looked_into or {"exclude": ["math", "pre"]}
    page.evaluate(AXE)
    return page.evaluate(
        """async ([context, options, themes]) => {
        const {violations} = await axe.run(context, options);
        const theirs = (rule, node) => themes.some(([name, where]) => name === rule && node.element.closest(where));
        const why = node => [...node.any, ...node.all, ...node.none][0]?.message;
        return violations.flatMap(({id, nodes}) => nodes.filter(node => !theirs(id, node))
            .map(node => `${id}: ${node.html.slice(0, 120)} (${why(node)})`));
    }""",
        [context, options, list(THEMES)],
    )


def target_defects(page: Page) -> list[str]:
    """Controls in the text that are lower or narrower than 24 px."""
    return page.evaluate(
        """controls => [...document.querySelectorAll(`article :is(${controls})`)].filter(e => e.checkVisibility())
            .map(e => [e, e.type === "checkbox" || e.type === "radio" ? e.closest("label") ?? e : e])
            .map(([e, box]) => [e, box.getBoundingClientRect()])
            .filter(([e, box]) => box.width && (box.width < 23.5 || box.height < 23.5))
            .map(([e, box]) => `small target, ${box.width.toFixed()} × ${box.height.toFixed()} px: ` +
                e.outerHTML.slice(0, 80))""",
        CONTROLS,
    )


def link_defects(page: Page) -> list[str]:
    """Links of one name that lead to different places: by ear nobody can tell them apart.

    In the index, each stands below the name that it is of.
    """
    named = page.locator("article a[href]:not(.headerlink)").evaluate_all(
        """all => all.filter(e => e.checkVisibility() && !e.closest(".prev-next-area, .indextable")).map(e => [
            (e.getAttribute("aria-label") ?? e.textContent.trim() + (e.querySelector("img")?.alt ?? "")),
            e.href])"""
    )
    places = Counter(name for name, _ in set(map(tuple, named)))
    return [f"{n} links are called {name!r}" for name, n in places.items() if n > 1]


def focus_defects(page: Page) -> list[str]:
    """What can be reached by key and shows no ring when it is."""
    return page.evaluate("""() => {
        const ring = e => { const s = getComputedStyle(e); return [s.outlineStyle, s.outlineWidth, s.boxShadow]; };
        const focusable = "a[href], button, input, select, summary, [tabindex='0']";
        const seen = e => e.checkVisibility({visibilityProperty: true});
        const bare = [...document.querySelectorAll(focusable)].filter(seen)
            .filter(e => {
                document.activeElement?.blur();
                const before = ring(e)[2];
                e.focus({preventScroll: true});
                const ringed = [e, ...e.querySelectorAll("*")].map(ring)
                    .some(([style, width]) => style !== "none" && width !== "0px");
                return document.activeElement === e && !ringed && ring(e)[2] === before;
            });
        document.activeElement?.blur();
        return bare.map(e => `no ring: ${e.outerHTML.slice(0, 100)}`);
    }""")


def zoom_defects(page: Page) -> list[str]:
    """Sideways scrolling with letters of twice the size on a screen of 640 px."""
    page.set_viewport_size({"width": 640, "height": 900})
    return page.evaluate("""() => {
        const root = document.documentElement;
        root.style.fontSize = "200%";
        return root.scrollWidth > root.clientWidth ? [`twice the size: ${root.scrollWidth} px on 640`] : [];
    }""")


def defects(page: Page, width: int, theme: str) -> list[str]:
    """All of these; what neither width nor theme can change is looked at once."""
    found = axe_defects(page, theme) + target_defects(page)
    if (width, theme) == (1280, "light"):
        found += link_defects(page) + focus_defects(page) + zoom_defects(page)
    return found
