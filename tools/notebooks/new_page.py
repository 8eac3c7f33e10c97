"""Begin a page that passes, for its author to continue: python -m tools page NAME"""

import argparse
import re
from pathlib import Path

from tools.notebooks import pages

TEMPLATE = Path(__file__).with_suffix(".md")
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")

CLAIM = """
[[claim]]
id = "{slug}-risk"
place = "new"
page = "{name}"
paper = ""
finding = "With the best step size, one gradient step from the prior mean has the risk d(d+1)/(C+d+1)."
status = "reproduced"
"""

# The last page in _toc.yml that is a notebook.
LAST = re.compile(r"^( *)- file: book/\w+\.ipynb$(?!(?:.|\n)*\.ipynb$)", re.MULTILINE)


def written(root: Path, name: str) -> dict[Path, str]:
    """The text of every file that a new page adds or changes."""
    if not NAME.fullmatch(name):
        raise SystemExit(f"NAME={name!r} is no page's name; expected small letters, digits and _, as in first_light")
    slug = name.replace("_", "-")
    toc, claims, md = (root / path for path in ("_toc.yml", "book/claims.toml", f"book/{name}.md"))
    known = [f"book/{path.name}" for path in (md, md.with_suffix(".ipynb")) if path.exists()]
    chapters, listed = toc.read_text(encoding="utf-8"), claims.read_text(encoding="utf-8")
    known += ["_toc.yml"] if re.search(rf"book/{name}\b", chapters) else []
    known += ["book/claims.toml"] if f'id = "{slug}-risk"' in listed else []
    if known:
        raise SystemExit(f"NAME={name} is taken, by {', '.join(known)}; choose another")
    chapters, count = LAST.subn(rf"\g<0>\n\1- file: book/{name}.ipynb", chapters)
    if count != 1:
        raise SystemExit("_toc.yml: expected a line «- file: book/….ipynb», after which to put the page")
    page = TEMPLATE.read_text(encoding="utf-8")
    for word, text in {"PAGE_NAME": name, "PAGE_SLUG": slug, "PAGE_TITLE": name.replace("_", " ").capitalize()}.items():
        page = page.replace(word, text)
    return {toc: chapters, claims: listed + CLAIM.format(slug=slug, name=name), md: page}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools page", description="Begin a page that passes.")
    parser.add_argument("name", metavar="NAME", help="small letters, digits and _, as in first_light")
    parser.add_argument("--root", type=Path, default=pages.ROOT, help="the checkout (default: this one)")
    args = parser.parse_args(argv)
    root = args.root.resolve()
    # We write nothing before we know that all of it fits.
    for path, text in written(root, args.name).items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(root))


if __name__ == "__main__":
    main()
