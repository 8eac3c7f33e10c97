"""What the sources count and name for themselves, against the built book: numbers of theorems, pages with a subject."""

import re
import tomllib
from pathlib import Path

from tools.notebooks import labels as numbering
from tools.notebooks import pages
from tools.notebooks.pages import ROOT

# Where the built page shows the number of an equation, of a figure, and of a theorem or the like.
EQUATION = r'id="equation-{}">.*?class="eqno">([^<]*)<'
FIGURE = r'<figure [^>]*id="{}">.*?"caption-number">([^<]*?) <'
THEOREM = r'<div class="proof [^>]*id="{}">\s*<p class="admonition-title"><span class="caption-number">([^<]*?) <'


def shown(html: Path, label: str, stem: str, name: str) -> str | None:
    """The number that the built page gives to what has this label."""
    form = {"(": EQUATION, "F": FIGURE}.get(name[0], THEOREM)
    text = (html / "book" / f"{stem}.html").read_text(encoding="utf-8")
    found = re.search(form.format(re.escape(label.replace("_", "-"))), text, re.DOTALL)
    return found and found[1]


def test_the_notebooks_number_as_the_book_does(html):
    labels = numbering.labels(ROOT)
    assert len(labels) > 60
    wrong = {
        label: (name, seen)
        for label, (stem, name) in labels.items()
        if (seen := shown(html, label, stem, name)) != name
    }
    assert wrong == {}


def test_a_theorem_that_the_book_has_not_is_seen(html, tmp_path):
    """The control: with one theorem more in a page's source its others are counted differently."""
    stem, name = numbering.labels(ROOT)["thm-exact-gap"]
    (tmp_path / "book").mkdir()
    (tmp_path / "_toc.yml").write_text((ROOT / "_toc.yml").read_text(encoding="utf-8"), encoding="utf-8")
    source = (ROOT / "book" / f"{stem}.md").read_text(encoding="utf-8")
    planted = ":::{prf:theorem}\n:label: thm-planted\n\nNone.\n:::\n\n" + source
    (tmp_path / "book" / f"{stem}.md").write_text(planted, encoding="utf-8")
    assert numbering.labels(tmp_path)["thm-exact-gap"][1] != name == shown(html, "thm-exact-gap", stem, name)


def test_subjects_are_those_of_pages():
    listed = tomllib.loads((ROOT / "book/subjects.toml").read_text(encoding="utf-8"))
    written = {page.stem for page in pages.written_pages(ROOT)}
    assert listed.keys() <= written, "pages that are not there"
    assert all(subjects and len(set(subjects)) == len(subjects) for subjects in listed.values())
