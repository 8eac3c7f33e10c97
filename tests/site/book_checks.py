"""What a page of the book must not have: each check returns a list of defects, empty for a sound page."""

import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from bs4 import BeautifulSoup
from matplotlib.textpath import TextToPath
from playwright.sync_api import Page

Colour = tuple[float, float, float]

LOADED = (
    "script[src], link[rel=stylesheet], link[rel=icon], link[rel=preload], "
    "img[src], iframe[src], source[src], video[src]"
)
TEXT_CONTRAST, INK_CONTRAST = 4.5, 3.0
# The nearest opaque ground; a veil is looked through.
BEHIND = """
    const behind = e => {
        const colour = getComputedStyle(e).backgroundColor;
        return colour.startsWith("rgba") && e.parentElement ? behind(e.parentElement) : colour;
    };
"""


def html_pages(html: Path) -> list[Path]:
    """Every page of the built book; below _static lie the theme's templates."""
    return [page for page in sorted(html.rglob("*.html")) if "_static" not in page.relative_to(html).parts]


def broken_links(html: Path) -> list[str]:
    """Links and anchors between the pages that lead nowhere."""
    soups = {
        page.resolve(): BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser") for page in html_pages(html)
    }
    anchors = {
        page: {tag[key] for tag in soup.find_all(True) for key in ("id", "name") if tag.get(key)}
        for page, soup in soups.items()
    }
    defects = []
    for page, soup in soups.items():
        for tag in soup.find_all("a", href=True):
            path, anchor = urldefrag(tag["href"])
            if urlsplit(path).scheme or path.startswith("//"):
                continue
            target = (page.parent / unquote(path)).resolve() if path else page
            if not target.is_file():
                defects.append(f"{page.name}: no file for the link {tag['href']}")
            elif anchor and target in anchors and unquote(anchor) not in anchors[target]:
                defects.append(f"{page.name}: no anchor for the link {tag['href']}")
    return defects


def names_without_links(html: Path, names: Iterable[str]) -> list[str]:
    """Code in prose that names something of the library, as «theory.gd_risk», and does not lead to it."""
    ends = {name.split(".", n)[-1] for name in names for n in range(name.count("."))}
    # An expression, since reading all pages as trees takes long.
    codes = {
        page: re.findall(r"(<a [^>]*>)?<code[^>]*>(.*?)</code>", page.read_text(encoding="utf-8"))
        for page in html_pages(html)
    }
    return [
        f"{page.name}: no link behind {name}"
        for page, found in codes.items()
        for link, code in found
        if (name := re.sub("<.*?>", "", code)).removesuffix("()") in ends and not link
    ]


def outside_assets(html: Path) -> list[str]:
    """Scripts, styles and images that a page or a style sheet would load from elsewhere."""
    defects = []
    for page in html_pages(html):
        for tag in BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").select(LOADED):
            source = tag.get("src") or tag.get("href")
            if source.startswith(("http:", "https:", "//")):
                defects.append(f"{page.name}: <{tag.name}> from {source}")
    for sheet in html.rglob("*.css"):
        for source in re.findall(
            r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""", sheet.read_text(encoding="utf-8")
        ):
            defects.append(f"{sheet.name}: from {source}")
    return defects


def math_defects(page: Page) -> list[str]:
    """LaTeX that was not set when the book was built, formulas of nothing, and those in another font."""
    return page.evaluate("""() => {
        const shown = e => e.checkVisibility({ contentVisibilityAuto: true }) && !e.closest("details:not([open])");
        const named = (what, wrong) => [...document.querySelectorAll(".math")].filter(wrong)
            .map(e => `${what}: ${e.textContent.trim().slice(0, 80)}`);
        const empty = e => shown(e) && [...e.querySelectorAll("math")].some(m => !m.getBoundingClientRect().width);
        return [
            ...named("LaTeX error", e => e.querySelector("merror, mtext[style*=color]")),
            ...named("not set", e => !e.querySelector("math[alttext]")),
            ...named("formula of nothing", e => e.querySelector("math") && empty(e)),
            ...(document.querySelector(".math") && !document.fonts.check("16px 'Book Math'") ? ["no font"] : []),
        ];
    }""")


def overflow_defects(page: Page) -> list[str]:
    """What sticks out of the page, and what a box cuts off where nobody can scroll to it."""
    return page.evaluate("""() => {
        const named = e => `<${e.tagName.toLowerCase()} class="${e.getAttribute("class") || ""}">`;
        const shown = e => e.clientWidth > 1 && !e.closest(".visually-hidden");
        const sticks = e => e.scrollWidth > e.clientWidth + 1;
        const overflow = e => getComputedStyle(e).overflowX;
        const inside = e => e.matches("article") ? false : overflow(e) !== "visible" || inside(e.parentElement);
        const root = document.documentElement;
        const cut = [...document.querySelectorAll("article *")]
            .filter(e => overflow(e) === "hidden" && shown(e) && sticks(e));
        const wide = root.scrollWidth <= root.clientWidth ? [] : [...document.querySelectorAll("article *")]
            .filter(e => e.getBoundingClientRect().right > root.clientWidth + 1 && !inside(e.parentElement));
        return [
            ...(root.scrollWidth > root.clientWidth
                ? [`page of ${root.scrollWidth} px on a screen of ${root.clientWidth} px`] : []),
            ...wide.slice(0, 5).map(e => `sticks out: ${named(e)}`),
            ...cut.map(e => `cut off: ${named(e)}`),
        ];
    }""")


def image_defects(page: Page) -> list[str]:
    """Images that are not there, and images without words for those who cannot see them."""
    images = page.locator("article :is(img, svg[role=img])").evaluate_all("""all => all.map(e => e.matches("img")
        ? [e.getAttribute("src"), e.getAttribute("alt"), e.naturalWidth]
        : ["a drawing", e.getAttribute("aria-label"), 1])""")
    defects = [f"image not shown: {source[:80]}" for source, _, width in images if not width]
    for source, alt, _ in images:
        if not (alt or "").strip():
            defects.append(f"image without alt text: {source[:80]}")
        elif re.search(r"\.(png|svg|jpe?g|gif)$|^[./_\w-]*/[./_\w-]*$", alt.strip()):
            defects.append(f"alt text is a file name: {alt}")
    return defects


def buttons(html: Path, page: str) -> list[str]:
    """Where the page's frame, its buttons and sidebars, leads away from the book."""
    soup = BeautifulSoup((html / f"{page}.html").read_text(encoding="utf-8"), "html.parser")
    return sorted(link["href"] for link in soup.select("a[href*='://']") if not link.find_parent("article"))


def ink_defects(page: Page) -> list[str]:
    """Inks of a drawing that do not stand out from the page, and words that cannot be read; veils do not count."""
    drawings = page.locator("article svg.drawing").evaluate_all(
        "all => all.map(e => {"
        + BEHIND
        + """
        const veil = e => e.matches("svg") ? 1 : getComputedStyle(e).opacity * veil(e.parentElement);
        const inks = new Map();
        for (const part of e.querySelectorAll("path, use, rect, line, polyline, polygon, circle")) {
            if (part.closest("defs, clipPath")) continue;
            const { fill, stroke, fillOpacity, strokeOpacity } = getComputedStyle(part);
            const words = Boolean(part.closest("[id*='text_']"));
            for (const [ink, opacity] of [[fill, fillOpacity], [stroke, strokeOpacity]])
                if (ink !== "none" && opacity * veil(part) >= 0.5) inks.set(`${ink} ${words}`, [ink, words]);
        }
        return [e.getAttribute("aria-label"), behind(e), [...inks.values()]];
    })"""
    )
    defects = [f"figure without solid ink: {alt}" for alt, _, inks in drawings if not inks]
    for alt, ground, inks in drawings:
        for ink, words in inks:
            least = TEXT_CONTRAST if words else INK_CONTRAST
            if contrast(rgb(ink), rgb(ground)) < least:
                defects.append(f"{'words' if words else 'ink'} {ink} on {ground}: {alt}")
    return defects


def small_letters(page: Page, least: float) -> list[str]:
    """Figures whose letters are smaller than so many pixels to the em, and drawings without any; all folds are opened.

    A drawing's words are outlines: groups of glyphs, each drawn in units of its font and scaled to its size.
    """
    figures = page.evaluate(
        """async em => {
        document.querySelectorAll("article details").forEach(fold => (fold.open = true));
        for (const _ of [1, 2]) await new Promise(requestAnimationFrame);
        const size = e => {
            const { c, d } = e.getScreenCTM();
            return Math.hypot(c, d) * (e.matches("text") ? parseFloat(getComputedStyle(e).fontSize) : em);
        };
        return [...document.querySelectorAll("article :is(svg[role=img], img[src*='.svg'])")].map(e => [
            e.ariaLabel ?? e.alt, e.matches(".drawing, img"),
            [...e.querySelectorAll("text, [id*='text_'] g:has(> use)")].map(size),
        ]);
    }""",
        TextToPath.FONT_SCALE,
    )
    defects = [f"figure without words: {alt}" for alt, has_words, sizes in figures if has_words and not sizes]
    return defects + [
        f"letters of {min(sizes):.1f} px: {alt}" for alt, _, sizes in figures if min(sizes, default=least) < least
    ]


def ground(page: Page) -> str:
    """The colour behind what the page shows."""
    return page.locator("article").evaluate("e => {" + BEHIND + "return behind(e); }")


def pale(colours: dict[str, str], ground: str, least: float = INK_CONTRAST) -> list[str]:
    """The inks, as «#rrggbb», that would not stand out as a figure's lines do."""
    return [name for name, ink in colours.items() if contrast(tuple(bytes.fromhex(ink[1:])), rgb(ground)) < least]


def text_defects(page: Page, selector: str) -> list[str]:
    """Words inside these elements that do not stand out from what lies behind them."""
    words = page.locator(selector).evaluate_all(
        "all => {"
        + BEHIND
        + """
        return all.flatMap(e => [e, ...e.querySelectorAll("*")])
            .filter(e => !e.matches(".headerlink"))
            .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
            .map(e => [e.textContent.trim().slice(0, 60), getComputedStyle(e).color, behind(e)]);
    }"""
    )
    return [
        f"words {colour} on {ground}: {text}"
        for text, colour, ground in words
        if contrast(rgb(colour), rgb(ground)) < TEXT_CONTRAST
    ]


def rgb(css: str) -> Colour:
    """«rgb(1, 2, 3)» as numbers, or «color(srgb 0.1 0.2 0.3)», as a mixed colour is."""
    one, two, three = map(float, re.findall(r"-?[\d.]+(?:e-\d+)?", css)[:3])
    return (255 * one, 255 * two, 255 * three) if css.startswith("color") else (one, two, three)


def contrast(one: Colour, other: Colour) -> float:
    """The contrast ratio of WCAG 2, from 1 to 21."""
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: Colour) -> float:
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (value / 255 for value in colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
