"""A page follows its parameters: at other settings all of its cells run.

BENT_PAGES=all tries every page, as CI does once a week; BENT_PAGES="depth llm" tries
these.
"""

import os
import re

import pytest
from tiny_book import ROOT

from lsalib.book.claims import METADATA
from tools.notebooks import execute, glue, pages
from tools.notebooks.pages import Book
from tools.site.build import toc_pages

BOOK = Book(ROOT)
SETTINGS = {
    page.stem: page.parameters.metadata.get("another_setting")
    for page in BOOK.code_pages
    if page.parameters
}
# The two cheapest pages; once a week CI tries all.
ASKED = os.environ.get("BENT_PAGES", "guess_price trust")
TRIED = sorted(SETTINGS) if ASKED == "all" else ASKED.split()


@pytest.mark.parametrize("stem", SETTINGS)
def test_a_cell_of_parameters_names_another_setting_of_them(stem):
    own = re.findall(r"^(\w+) = ", BOOK.pages[stem].parameters.source, re.MULTILINE)
    assert SETTINGS[stem] and set(SETTINGS[stem]) <= set(own)


def test_every_page_stands_in_the_table_of_contents():
    written = {f"book/{page.stem}" for page in BOOK.code_pages}
    missing = written.difference(toc_pages())
    assert missing == set(), "no reader finds a page that _toc.yml does not list"


def numbers(notebook):
    """What the page says in its prose, and what its checks expect."""
    records = [
        record
        for output in pages.outputs(notebook)
        for record in output.get("metadata", {}).get(METADATA, [])
    ]
    expected = {each["anchor"]: f"{each['expected']:.4g}" for each in records}
    return dict(glue.recorded(notebook)) | expected


@pytest.mark.parametrize("stem", TRIED)
def test_a_page_runs_at_another_setting(stem):
    page = BOOK.pages[stem]
    ran = execute.run_cells(page, SETTINGS[stem])
    assert numbers(ran) != numbers(page.stored)


def test_at_its_own_setting_a_page_has_its_own_numbers():
    """The control: what differs at another setting is no rounding."""
    page = BOOK.pages[TRIED[-1]]
    assert numbers(execute.run_cells(page)) == numbers(page.stored)
