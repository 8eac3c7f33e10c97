"""Begin a page that passes, for its author to write on: python -m tools.notebooks.new_page NAME"""

import argparse
import re
import tomllib
from pathlib import Path

from tools.ledger import claims
from tools.notebooks import pages

TEMPLATE = Path(__file__).with_suffix(".md")
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")

# Programs that the new page may compile.
PROGRAMS = 15

CLAIM = """
[[claim]]
id = "{slug}-risk"
place = "new"
page = "{name}"
statement = "With the best step size, one gradient step from the prior mean has the risk d(d+1)/(C+d+1)."
status = "reproduced"
roads = ["closed form"]
"""

# The last page that is a notebook. The suffix says that the notebook is shown, with its outputs.
LAST = re.compile(r"^( *)- file: book/\w+\.ipynb$(?!(?:.|\n)*\.ipynb$)", re.MULTILINE)


def slug(name: str) -> str:
    return name.replace("_", "-")


def page(name: str) -> str:
    """The page's text."""
    words = {"PAGE_NAME": name, "PAGE_SLUG": slug(name), "PAGE_TITLE": name.replace("_", " ").capitalize()}
    return re.sub("|".join(words), lambda found: words[found[0]], TEMPLATE.read_text(encoding="utf-8"))


def contents(text: str, name: str) -> str:
    """_toc.yml with the page as the last chapter."""
    listed, count = LAST.subn(rf"\g<0>\n\1- file: book/{name}.ipynb", text)
    if count != 1:
        raise SystemExit("_toc.yml: expected a line «- file: book/….ipynb», after which the page is put")
    return listed


def taken(root: Path, name: str) -> list[str]:
    """Where the book knows this name already."""
    found = [f"book/{file}" for file in (f"{name}.md", f"{name}.ipynb") if (root / "book" / file).exists()]
    if re.search(rf"book/{name}\b", (root / "_toc.yml").read_text(encoding="utf-8")):
        found.append("_toc.yml")
    if name in tomllib.loads((root / "book/programs.toml").read_text(encoding="utf-8")):
        found.append("book/programs.toml")
    if f"{slug(name)}-risk" in {claim.id for claim in claims.read_claims(root)}:
        found.append("book/claims.toml")
    return found


def written(root: Path, name: str) -> dict[Path, str]:
    """Every file that a new page adds or changes, as it is with the page."""
    if not NAME.fullmatch(name):
        raise SystemExit(f"NAME={name!r} is no page's name; expected small letters, digits and _, as in first_light")
    if known := taken(root, name):
        raise SystemExit(f"NAME={name} is taken, by {', '.join(known)}; choose another")
    toc, listed, programs = (root / path for path in ("_toc.yml", "book/claims.toml", "book/programs.toml"))
    return {
        toc: contents(toc.read_text(encoding="utf-8"), name),
        listed: listed.read_text(encoding="utf-8") + CLAIM.format(slug=slug(name), name=name),
        programs: programs.read_text(encoding="utf-8") + f"{name} = {PROGRAMS}\n",
        root / f"book/{name}.md": page(name),
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks.new_page", description="Begin a page that passes.")
    parser.add_argument("name", metavar="NAME", help="small letters, digits and _: first_light")
    parser.add_argument("--root", type=Path, default=pages.ROOT, help="the checkout (default: this one)")
    args = parser.parse_args(argv)
    # Nothing is written before everything is known to fit.
    for path, text in written(args.root.resolve(), args.name).items():
        path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(args.root.resolve())}")


if __name__ == "__main__":
    main()
