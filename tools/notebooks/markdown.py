"""A page's text in plain Markdown, as a notebook shows it outside the book: no directives, no roles.

The book is built from the pages' own text; their notebooks are read in Jupyter and Colab, which know blockquotes,
bold heads and `<details>`, and nothing of MyST.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pybtex.database import Entry, parse_file

from tools.notebooks import labels as numbering

# A fence, its directive, the directive's title, and its options.
FENCE = re.compile(
    r"^(?P<fence>:{3,}|`{3,})\{(?P<name>[\w:-]+)\}[ ]*(?P<title>.*)\n(?P<options>(?::[\w-]+:.*\n)*)"
    # Those inside others come first.
    r"(?P<body>(?:(?!:{3,}\{|`{3,}\{).*\n)*?)(?P=fence)[ ]*$",
    re.MULTILINE,
)
ROLE = re.compile(r"\{(?P<name>[a-z:]+)\}`(?P<text>[^`]+)`")
EQUATION = re.compile(r"^\$\$\n(?P<body>(?:(?!\$\$).*\n)+?)\$\$ *\((?P<label>[\w:-]+)\)", re.MULTILINE)
PAGE_LINK = re.compile(r"(\]\((?!\w+:)[\w/-]+)\.md(#[\w-]*)?\)")
# What only the built book can show.
LEFT_OUT = ("include", "bibliography", "explorer", "roads")


class Book(NamedTuple):
    """What a page's text refers to."""

    labels: Mapping[str, tuple[str, str]]
    sources: Mapping[str, Entry]
    verdicts: Mapping[str, str]


def book(root: Path, verdicts: Mapping[str, str]) -> Book:
    bib = root / "book/references.bib"
    sources = parse_file(str(bib)).entries if bib.is_file() else {}
    return Book(numbering.labels(root), sources, verdicts)


def plain(text: str, book: Book) -> str:
    """The text without directives, roles and labels of equations."""
    text = EQUATION.sub(lambda found: equation(found, book), text)
    text = ROLE.sub(lambda found: role(found["name"], found["text"], book), text)
    while FENCE.search(text):
        text = FENCE.sub(lambda found: directive(found, book), text)
    return PAGE_LINK.sub(r"\1.ipynb\2)", text).strip("\n")


def equation(found: re.Match, book: Book) -> str:
    _, number = book.labels.get(found["label"], ("", ""))
    tag = rf"\tag{{{number.strip('()')}}}" + "\n" if number else ""
    return f"$$\n{found['body']}{tag}$$"


def directive(found: re.Match, book: Book) -> str:
    name, title, body = found["name"], found["title"].strip(), found["body"].strip("\n")
    if name in LEFT_OUT:
        return ""
    if name == "dropdown":
        return f"<details>\n<summary>{title}</summary>\n\n{body}\n\n</details>"
    if name == "brief":
        question, _, answer = body.partition("\n\n")
        return quoted(f"**{' '.join(question.split())}**\n\n{answer}")
    if name.startswith("prf:"):
        label = re.search(r"^:label: (\S+)", found["options"], re.MULTILINE)
        _, number = book.labels.get(label[1] if label else "", ("", name.removeprefix("prf:").capitalize()))
        return quoted(f"**{number}**{f' ({title})' if title else ''}**.** {body}")
    return quoted(f"**{title or name.capitalize()}**\n\n{body}")


def quoted(text: str) -> str:
    """A blockquote; its formulas on one line each, since Jupyter reads them before it takes the quote's marks away."""
    text = re.sub(
        r"^\$\$\n(.*?)\n\$\$", lambda found: f"$${' '.join(found[1].split())}$$", text, flags=re.DOTALL | re.M
    )
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def role(name: str, text: str, book: Book) -> str:
    """What stands for a role: the number of what it names, authors and years, a verdict; else the text itself."""
    target = re.fullmatch(r"(.*?)\s*<([^<>]+)>", text, re.DOTALL)
    if name in ("prf:ref", "numref", "eq"):
        shown, label = target.groups() if target else ("", text)
        _, number = book.labels.get(label, ("", label))
        return shown.replace("%s", number.split()[-1]) or number
    if name.startswith("cite"):
        cited = [citation(book.sources[key.strip()], name) for key in text.split(",")]
        return "; ".join(cited) if name == "cite:t" else f"({'; '.join(cited)})"
    if name == "claim":
        return f"[**{book.verdicts[text]}**]"
    return f"*{target[1] if target else text}*"


def citation(source: Entry, name: str) -> str:
    people = [" ".join(person.last_names) for person in source.persons["author"]]
    who = people[0] if len(people) == 1 else " and ".join(people) if len(people) == 2 else f"{people[0]} et al."
    year = source.fields["year"]
    return f"{who} ({year})" if name == "cite:t" else f"{who}, {year}"
