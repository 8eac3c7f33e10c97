"""Write the repository's address wherever it belongs, or take it out again: python -m tools.notebooks.address URL."""

import argparse
import re
from collections.abc import Callable
from pathlib import Path

import nbformat

from tools.notebooks import install_cell, pages

# No user name, no query, no page inside a repository: what `pip install git+…` can clone.
REMOTE = re.compile(r"https?://(?!github\.com/[^/]+/[^/]+/)[\w.-]+(?::\d+)?(?:/[\w.~-]+){2,}")
LOCAL = re.compile(r"file:///[\w.~/-]+")
GITHUB = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+)")

BEGIN, END = "<!-- address:begin -->", "<!-- address:end -->"
BRANCH = "main"
BADGE = "https://colab.research.google.com/assets/colab-badge.svg"


def normalised(url: str) -> str:
    """The address without a closing slash or .git; "" stays, for taking it out again."""
    url = url.strip().rstrip("/").removesuffix(".git")
    if url and not (REMOTE.fullmatch(url) or LOCAL.fullmatch(url)):
        raise SystemExit(
            f"URL={url!r} is no repository's address; expected https://host/owner/repository, or nothing to take it out"
        )
    return url


def book_address(url: str) -> str:
    """Where GitHub Pages serves the book; "" for a repository that lives elsewhere."""
    github = GITHUB.fullmatch(url)
    if not github:
        return ""
    host = f"{github[1].lower()}.github.io"
    return f"https://{host}/" if github[2].lower() == host else f"https://{host}/{github[2]}/"


def colab_address(url: str, stem: str) -> str:
    """Where Colab opens a page's notebook; "" for a repository that lives elsewhere."""
    colab = f"https://colab.research.google.com/github{url.removeprefix('https://github.com')}"
    return f"{colab}/blob/{BRANCH}/book/{stem}.ipynb" if GITHUB.fullmatch(url) else ""


def config(text: str, url: str) -> str:
    return install_cell.URL_LINE.sub(lambda line: f'{line[1]}"{url}"', text)


def citation(text: str, url: str) -> str:
    text = re.sub(r"^repository-code:.*\n", "", text, flags=re.MULTILINE)
    return text + (f'repository-code: "{url}"\n' if url else "")


def readme(text: str, url: str, stems: list[str]) -> str:
    """Fill the part between the two markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"README.md: expected the two lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{links(url, stems)}{END}{after}"


def links(url: str, stems: list[str]) -> str:
    if not url:
        return ""
    book = f"[Read the book]({book_address(url)}) · " if book_address(url) else ""
    colab = {stem: colab_address(url, stem) for stem in stems if colab_address(url, stem)}
    badges = [f"- `{stem}` [![Open in Colab]({BADGE})]({address})\n" for stem, address in colab.items()]
    return f"{book}[Repository]({url})\n" + "".join(["\n", *badges] if badges else [])


def notebook(path: Path, url: str) -> str:
    """The notebook with another first code cell, and everything else as it was."""
    content = nbformat.read(path, as_version=4)
    cells = [cell for cell in content.cells if cell.id == install_cell.cell_id(path.stem)]
    if not cells:
        raise SystemExit(
            f"book/{path.name}: no cell {install_cell.cell_id(path.stem)}; run: make notebook NAME={path.stem}"
        )
    cells[0].source = install_cell.source(url, content.cells)
    return nbformat.writes(content) + "\n"


def toc_order(root: Path) -> list[str]:
    """The pages with code, in the order in which the book has them."""
    stems = [page.stem for page in pages.code_pages(root)]
    toc = re.findall(r"book/(\w+)", (root / "_toc.yml").read_text(encoding="utf-8"))
    return [stem for stem in toc if stem in stems]


def rewritten(root: Path, url: str) -> dict[Path, str]:
    """Every file that holds the address, as it is with this one."""
    edits: dict[str, Callable[[str], str]] = {
        "_config.yml": lambda text: config(text, url),
        "README.md": lambda text: readme(text, url, toc_order(root)),
        "CITATION.cff": lambda text: citation(text, url),
    }
    missing = [name for name in edits if not (root / name).is_file()]
    if missing:
        raise SystemExit(f"Missing in {root.name}/: {', '.join(missing)}")
    texts = {root / name: edit((root / name).read_text(encoding="utf-8")) for name, edit in edits.items()}
    return texts | {path: notebook(path, url) for path in sorted((root / "book").glob("*.ipynb"))}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks.address", description=__doc__)
    parser.add_argument("url", metavar="URL", help='https://host/owner/repository, or "" to take it out')
    parser.add_argument("--root", type=Path, default=pages.ROOT, help="the checkout (default: this one)")
    args = parser.parse_args(argv)
    root, url = args.root.resolve(), normalised(args.url)
    install_cell.address(root)
    # Nothing is written before everything is known to fit.
    for path, text in rewritten(root, url).items():
        path.write_text(text, encoding="utf-8")
    print(f"Repository: {url}" if url else "Repository: none")


if __name__ == "__main__":
    main()
