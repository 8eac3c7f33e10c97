"""The notebooks' text is plain Markdown, with the same numbers as the book."""

import re

import pytest
from tiny_book import ROOT

from tools.notebooks import markdown
from tools.notebooks.pages import Book

# with labels and a claim of its own, and without an address
BOOK = Book(ROOT)
BOOK.labels = {"thm-a": ("one", "Theorem 2.1"), "eq-a": ("one", "(2.3)")}
BOOK.verdicts = {"a-claim": "sharpened"}
BOOK.site = ""


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (
            ":::{admonition} The paper says\n:class: paper\nOne.\n\nTwo.\n:::",
            "> **The paper says**\n>\n> One.\n>\n> Two.",
        ),
        (
            ":::{prf:theorem} A name\n:label: thm-a\nIt holds.\n:::",
            "> **Theorem 2.1** (A name)**.** It holds.",
        ),
        (
            ":::{dropdown} Proof\nBy {prf:ref}`thm-a`.\n:::",
            "<details>\n<summary>Proof</summary>\n\nBy Theorem 2.1.\n\n</details>",
        ),
        (
            "::::{dropdown} Outer\n:::{admonition} Inner\nText.\n:::\n::::",
            "<details>\n<summary>Outer</summary>\n\n> **Inner**\n>\n> "
            "Text.\n\n</details>",
        ),
        (":::{brief}\nWhy,\nthen?\n\nBecause.\n:::", "> **Why, then?**\n>\n> Because."),
        ("$$\na = b\n$$ (eq-a)", "$$\na = b\n\\tag{2.3}\n$$"),
        (":::{admonition} A\n$$\na \\\\\nb\n$$\n:::", "> **A**\n>\n> $$a \\\\ b$$"),
        ("See {eq}`eq-a`, {prf:ref}`the theorem <thm-a>`.", "See (2.3), the theorem."),
        ("See {numref}`our Theorem %s <thm-a>`.", "See our Theorem 2.1."),
        ("It is {claim}`a-claim`.", "It is [**sharpened**]."),
        ("See {claim}`evidence <a-claim>`.", "See [**sharpened**]."),
        (
            "By {cite:t}`burer2005` {cite:p}`xie2025,ahn2023`.",
            "By [Burer and Monteiro (2005)](https://doi.org/10.1007/s10107-004-0564-1) "
            "([Xie et al., 2025](https://arxiv.org/abs/2512.04268); "
            "[Ahn et al., 2023](https://arxiv.org/abs/2306.00297)).",
        ),
        (
            "[there](heads.md#part), [out](https://a.b/c.md)",
            "[there](heads.ipynb#part), [out](https://a.b/c.md)",
        ),
        ("a\n\n```{bibliography}\n:style: unsrt\n```\n", "a"),
        ("a\n\n::::{dropdown} All\n```{bibliography}\n:style: unsrt\n```\n::::\n", "a"),
        ("```python\nx = {1: 2}\n```", "```python\nx = {1: 2}\n```"),
    ],
)
def test_each_form_has_a_plain_one(source, shown):
    assert markdown.plain(source, BOOK) == shown


def test_a_notebook_has_no_directives_roles_or_labels():
    book = Book(ROOT)
    labels = "|".join(re.escape(name) for name in book.labels if "-" in name)
    form = r"(?m):::.*|\{[a-z:]+\}`.*|\$\$ *\([\w:-]+\)$"
    for page in book.code_pages:
        for cell in page.stored.cells:
            if cell.cell_type == "markdown":
                left = re.findall(rf"{form}|\b(?:{labels})\b", cell.source)
                assert left == [], page.stem


def test_every_source_can_be_reached():
    for source in BOOK.sources.values():
        assert markdown.citation(source, "cite:p").endswith(")")
