"""Turn a page's MyST into plain Markdown for its notebook: directives, roles and
labeled equations.

The book is built from the pages' own text. Jupyter and Colab do not know MyST: there we
use blockquotes, bold headings and `<details>`.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tools.notebooks.pages import Book

# A directive: its fence, name, title, options and body.
FENCE = re.compile(
    r"^(?P<fence>:{3,}|`{3,})\{(?P<name>[\w:-]+)\}[ ]*(?P<title>.*)\n"
    r"(?P<options>(?::[\w-]+:.*\n)*)"
    # A body holds no other directive, so the innermost match first.
    r"(?P<body>(?:(?!:{3,}\{|`{3,}\{).*\n)*?)(?P=fence)[ ]*$",
    re.MULTILINE,
)
ROLE = re.compile(r"\{(?P<name>[a-z:]+)\}`(?P<text>[^`]+)`")
EQUATION = re.compile(
    r"^\$\$\n(?P<body>(?:(?!\$\$).*\n)+?)\$\$ *\((?P<label>[\w:-]+)\)", re.MULTILINE
)
PAGE_LINK = re.compile(r"\]\((?!\w+:)([\w/-]+)\.md(#[\w-]*)?\)")
NO_WORDS = re.compile(r"(?<!!)\[\]\((\w+)\.md")
# A theorem-like directive with its label, a labeled equation, or a cell's figure.
LABELLED = re.compile(
    r"^[:`]{3,}\{prf:(?P<kind>\w+)\}[^\n]*\n(?::\w+:[^\n]*\n)*?:label: (?P<theorem>\S+)"
    r"|^\$\$ *\((?P<equation>[\w:-]+)\)"
    r"|^ +figure:\n(?: +[^\n]*\n)*? +name: (?P<figure>\S+)",
    re.MULTILINE,
)
# Where a source can be read.
ADDRESSES = {
    "eprint": "https://arxiv.org/abs/{}",
    "doi": "https://doi.org/{}",
    "url": "{}",
}
# Directives that only the built book can show.
LEFT_OUT = ("include", "bibliography")


def labels(text: str, chapter: int) -> Iterator[tuple[str, str]]:
    """The labels of a numbered chapter, each with its name in the book: "Theorem 2.1",
    "(2.1)", "Figure 2.1".
    """
    counts = Counter[str]()
    for match in LABELLED.finditer(text):
        group = match.lastgroup or ""
        kind = match["kind"] or group
        counts[kind] += 1
        number = f"{chapter}.{counts[kind]}"
        name = f"({number})" if kind == "equation" else f"{kind.capitalize()} {number}"
        yield match[group], name


def plain(text: str, book: "Book") -> str:
    """The text in plain Markdown."""
    text = EQUATION.sub(lambda found: equation(found, book), text)
    text = ROLE.sub(lambda found: role(found["name"], found["text"], book), text)
    while FENCE.search(text):
        text = FENCE.sub(lambda found: directive(found, book), text)
    # Without words, a link to a page has the page's title.
    text = NO_WORDS.sub(
        lambda found: f"[{book.titles.get(found[1], found[1])}]({found[1]}.md", text
    )
    # A notebook alone reaches other pages only where they are published.
    link = rf"]({book.site}book/\1.html\2)" if book.site else r"](\1.ipynb\2)"
    return PAGE_LINK.sub(link, text).strip("\n")


def equation(found: re.Match[str], book: "Book") -> str:
    """A labeled equation with its number as a tag."""
    _, number = book.labels.get(found["label"], ("", ""))
    tag = rf"\tag{{{number.strip('()')}}}" + "\n" if number else ""
    return f"$$\n{found['body']}{tag}$$"


def directive(found: re.Match[str], book: "Book") -> str:
    """A directive as a blockquote, or as `<details>` if it folds."""
    name, title, body = found["name"], found["title"].strip(), found["body"].strip("\n")
    # a dropdown that held only what is left out
    if name in LEFT_OUT or (name == "dropdown" and not body.strip()):
        return ""
    if name == "dropdown":
        return f"<details>\n<summary>{title}</summary>\n\n{body}\n\n</details>"
    if name == "brief":
        question, _, answer = body.partition("\n\n")
        return quoted(f"**{' '.join(question.split())}**\n\n{answer}")
    if name.startswith("prf:"):
        label = re.search(r"^:label: (\S+)", found["options"], re.MULTILINE)
        _, number = book.labels.get(
            label[1] if label else "", ("", name.removeprefix("prf:").capitalize())
        )
        return quoted(f"**{number}**{f' ({title})' if title else ''}**.** {body}")
    return quoted(f"**{title or name.capitalize()}**\n\n{body}")


def quoted(text: str) -> str:
    """A blockquote; each formula on one line, since Jupyter reads formulas before it
    removes the quote marks.
    """
    text = re.sub(
        r"(?ms)^\$\$\n(.*?)\n\$\$",
        lambda found: f"$${' '.join(found[1].split())}$$",
        text,
    )
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def role(name: str, text: str, book: "Book") -> str:
    """A role as text: a reference's number, a citation, a claim's verdict, or the
    role's own text in italics.
    """
    target = re.fullmatch(r"(.*?)\s*<([^<>]+)>", text, re.DOTALL)
    if name in ("prf:ref", "numref", "eq"):
        shown, label = target.groups() if target else ("", text)
        _, number = book.labels.get(label, ("", label))
        return shown.replace("%s", number.split()[-1]) or number
    if name.startswith("cite"):
        cited = [citation(book.sources[key.strip()], name) for key in text.split(",")]
        return "; ".join(cited) if name == "cite:t" else f"({'; '.join(cited)})"
    if name == "claim":
        return f"[**{book.verdicts[target[2] if target else text]}**]"
    return f"*{target[1] if target else text}*"


def citation(source: Any, name: str) -> str:
    """Authors and year, as a link: "Ahn et al. (2023)" for the role `cite:t`, else
    "Ahn et al., 2023".
    """
    fields, people = source.fields, source.persons["author"]
    names = [" ".join(each.prelast_names + each.last_names) for each in people]
    who = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
    key = next(key for key in ADDRESSES if key in fields)
    year = f" ({fields['year']})" if name == "cite:t" else f", {fields['year']}"
    return f"[{who}{year}]({ADDRESSES[key].format(fields[key])})"
