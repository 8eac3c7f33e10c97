"""Write the repository's address into every file that holds it, or take it out again."""

import argparse
import re
from pathlib import Path

from tools.notebooks import execute, install_cell, pages
from tools.notebooks.install_cell import GITHUB, book_address

# What `pip install git+…` can clone: no user name, no query, no page inside a repository.
CLONABLE = re.compile(r"https?://(?!github\.com/[^/]+/[^/]+/)[\w.-]+(?::\d+)?(?:/[\w.~-]+){2,}|file:///[\w.~/-]+")
BRANCH = "main"
LINKS = re.compile(r"(?<=<!-- address:begin -->\n).*?(?=<!-- address:end -->)", re.DOTALL)
FILE_LINK = re.compile(r"(!?)(\[[^]]*\]\()(?:https://github\.com/[\w.-]+/[\w.-]+/(?:raw|blob)/\w+/)?(?=book/)")
PROJECT_URLS = re.compile(r"^\[project\.urls\]\n(?:.+\n)+\n", re.MULTILINE)


def normalized(url: str) -> str:
    """The address without a closing slash or .git; an empty one stays empty."""
    url = url.strip().rstrip("/").removesuffix(".git")
    if url and not CLONABLE.fullmatch(url):
        raise SystemExit(f"URL={url!r}: expected https://host/owner/repository, or nothing to take the address out")
    return url


def config(text: str, url: str) -> str:
    return install_cell.URL_LINE.sub(lambda line: f'{line[1]}"{url}"', text)


def citation(text: str, url: str) -> str:
    text = re.sub(r"^repository-code:.*\n", "", text, flags=re.MULTILINE)
    return text + (f'repository-code: "{url}"\n' if url else "")


def project(text: str, url: str) -> str:
    """The package's links, before its optional dependencies."""
    links = {"Homepage": book_address(url), "Repository": url, "Issues": f"{url}/issues" if book_address(url) else ""}
    table = "".join(f'{name} = "{link}"\n' for name, link in links.items() if link)
    before, optional, after = PROJECT_URLS.sub("", text).partition("[project.optional-dependencies]\n")
    return before + (f"[project.urls]\n{table}\n" if url else "") + optional + after


def readme(text: str, url: str) -> str:
    """Fill the line of links, and make links to files absolute: a package index shows no relative ones."""
    github = GITHUB.fullmatch(url)
    colab = f"https://colab.research.google.com/github{url.removeprefix('https://github.com')}/blob/{BRANCH}/book"
    book = f"[Read the book]({book_address(url)}) · [Run it in Colab]({colab}/intro.ipynb) · " if github else ""
    links = f"{book}[Repository]({url})\n" if url else ""
    folder = lambda image: f"{url}/{'raw' if image else 'blob'}/{BRANCH}/" if github else ""
    return FILE_LINK.sub(lambda link: f"{link[1]}{link[2]}{folder(link[1])}", LINKS.sub(links, text))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools address", description=__doc__)
    parser.add_argument("url", type=normalized, help='https://host/owner/repository, or "" to take it out')
    parser.add_argument("--root", type=Path, default=pages.ROOT, help="the checkout (default: this one)")
    args = parser.parse_args(argv)
    root, url = args.root, args.url
    edits = {"_config.yml": config, "CITATION.cff": citation, "pyproject.toml": project, "README.md": readme}
    texts = {root / name: edit((root / name).read_text(encoding="utf-8"), url) for name, edit in edits.items()}
    # Write nothing unless every file has a place for the address.
    if missing := [path.name for path, text in texts.items() if url not in text]:
        raise SystemExit(f"No place for the address in {', '.join(missing)}")
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    for page in pages.code_pages(root):
        execute.refresh(page)
    print(f"Repository: {url or 'none'}")


if __name__ == "__main__":
    main()
