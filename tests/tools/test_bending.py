"""A page follows its parameters: at other settings all of its cells run.

BENT_PAGES=all tries every page, as CI does once a week, also where a reader looks
first; BENT_PAGES="depth llm" tries these.
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
# A parameter, and how its value begins.
PARAMETER = re.compile(r"^(\w+) = (\S)", re.MULTILINE)
# The two cheapest pages; once a week CI tries all.
ASKED = os.environ.get("BENT_PAGES", "guess_price trust")
TRIED = sorted(SETTINGS) if ASKED == "all" else ASKED.split()
# What a reader tries first: of each of these, what the page has.
FIRST_TRIED = (
    {"prior_mean": 0, "worst": 0, "error": 0, "noise_var": 0},
    {"dim": 1, "prior_mean": 2, "offset": 0},
    {"context_size": 1, "prior_mean": -1, "heads": 1},
)


def cases():
    """Each page that is tried, with the setting that it names and, in the weekly run,
    with those of ``FIRST_TRIED``.
    """
    for stem in TRIED:
        own = dict(PARAMETER.findall(BOOK.pages[stem].parameters.source))
        yield stem, SETTINGS[stem]
        for setting in FIRST_TRIED if "BENT_PAGES" in os.environ else ():
            # A list, such as the numbers of heads to train, stays as it is.
            first = {
                name: x for name, x in setting.items() if own.get(name, "[") != "["
            }
            if first:
                yield stem, first


@pytest.mark.parametrize("stem", SETTINGS)
def test_a_cell_of_parameters_names_another_setting_of_them(stem):
    own = dict(PARAMETER.findall(BOOK.pages[stem].parameters.source))
    assert SETTINGS[stem] and SETTINGS[stem].keys() <= own.keys()


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


@pytest.mark.parametrize(("stem", "setting"), [*cases()])
def test_a_page_runs_at_another_setting(stem, setting):
    """A claim that does not hold there warns, with its numbers."""
    page = BOOK.pages[stem]
    ran = execute.run_cells(page, setting)
    # Not every number follows the others of ``FIRST_TRIED``.
    if setting == SETTINGS[stem]:
        assert numbers(ran) != numbers(page.stored)


def test_at_its_own_setting_a_page_has_its_own_numbers():
    """The control: what differs at another setting is no rounding."""
    page = BOOK.pages[TRIED[-1]]
    assert numbers(execute.run_cells(page)) == numbers(page.stored)
