"""Sphinx extension that makes the built book light: of what the theme brings, what no page of ours needs goes."""

import re
from hashlib import sha256
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

from tools.site import fonts

# An icon is a letter of a font: the script that draws it again is not needed; nor are tabs.
UNUSED = ("fontawesome.js", "design-tabs.js")
# The search page asks for these itself.
SEARCH = ("searchtools.js", "language_data.js", "searchindex.js")
THEME = "_static/styles/pydata-sphinx-theme.css"
ICONS = "_static/vendor/fontawesome/webfonts"
ROWS = (
    re.compile(r'(<link rel="stylesheet" type="text/css" href="[./]*_static/[\w.-]+\.css[^/"]*" />\s*){2,}'),
    re.compile(r'(<script src="[./]*_static/[\w.-]+\.js[^/"]*"></script>\s*){2,}'),
)
JOINS = {"css": "\n", "js": "\n;\n"}
RULE = re.compile(r'((?:[^{}]*:{1,2}before,?)+)\{content:"\\(f[0-9a-f]{3})"\}')
SOURCE = re.compile(r'url\(([^)]*)\.woff2\) format\("woff2"\),url\([^)]*\) format\("truetype"\)')


def preload(app: Sphinx, pagename: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    fonts.preload(context, f"{ICONS}/fa-solid-900.woff")


def without_scripts(page: str, names: tuple[str, ...]) -> str:
    """The page without its calls for these scripts."""
    return re.sub(rf'\s*<script[^>]*src="[^"]*({"|".join(map(re.escape, names))})[^"]*"></script>', "", page)


def bundled(row: re.Match, out: Path) -> str:
    """One file in place of several of a kind in a row: each request costs a visitor time."""
    names = re.findall(r"_static/([\w.-]+)", row[0])
    ending = names[0].rpartition(".")[2]
    text = JOINS[ending].join((out / "_static" / name).read_text(encoding="utf-8") for name in names)
    name = f"book-{sha256(text.encode()).hexdigest()[:12]}.{ending}"
    (out / "_static" / name).write_text(text, encoding="utf-8")
    return re.sub(r'_static/[^"]*', f"_static/{name}", row[1]) + "\n"


def lighten_pages(out: Path) -> set[str]:
    """Take the unused scripts out of every page; the names of icons that pages and scripts show."""
    icons = set()
    for path in out.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        unused = UNUSED if path.name == "search.html" else UNUSED + SEARCH
        light = without_scripts(page, unused)
        # This sheet does nothing but ask for the other.
        light = re.sub(r"styles/theme\.css\?[^\"]*", "basic.css", light)
        for row in ROWS:
            light = row.sub(lambda found: bundled(found, out), light)
        path.write_text(light, encoding="utf-8")
        icons |= set(re.findall(r"fa-[\w-]+", page))
    scripts = (path.read_text(encoding="utf-8") for path in out.glob("_static/scripts/*theme.js"))
    return icons.union(*(re.findall(r"fa-[\w-]+", script) for script in scripts))


def lighten_icons(out: Path, icons: set[str]) -> None:
    """Leave those icons in the fonts, and those that style sheets show themselves."""
    letters = set()

    def used(rule: re.Match) -> str:
        names = re.findall(r"\.(fa-[\w-]+):{1,2}before", rule[1])
        if names and not icons.intersection(names):
            return ""
        letters.add(chr(int(rule[2], 16)))
        return rule[0]

    sheet = SOURCE.sub(r'url(\1.woff) format("woff")', RULE.sub(used, (out / THEME).read_text(encoding="utf-8")))
    (out / THEME).write_text(sheet, encoding="utf-8")
    for path in out.glob("_static/**/*.css"):
        sheet = path.read_text(encoding="utf-8")
        letters |= {chr(int(code, 16)) for code in re.findall(r'"\\(f[0-9a-f]{3})"', sheet)}
        letters |= set(re.findall("[\uf000-\uf8ff]", sheet))
    for font in (out / ICONS).glob("*.ttf"):
        fonts.cut(font, font.with_suffix(".woff"), letters)


def lighten(app: Sphinx, error: Exception | None) -> None:
    out = Path(app.outdir)
    if error or app.builder.format != "html" or not (out / THEME).exists():
        return
    lighten_icons(out, lighten_pages(out))
    useless = [
        "scripts/fontawesome*",
        "design-tabs.js",
        "**/*.map",
        "locales/**/*.*",
        "vendor/**/*.ttf",
        "vendor/**/*.woff2",
    ]
    for path in (path for pattern in useless for path in (out / "_static").glob(pattern)):
        path.unlink()


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", preload)
    app.connect("build-finished", lighten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
