"""A page follows its parameters: at other settings all of its cells run.

BENT_PAGES=all tries every page, as CI does once a week; BENT_PAGES="depth llm" tries
these.
"""

import os

import pytest
from tiny_book import ROOT

from lsalib.book.claims import METADATA
from tools.notebooks import execute, glue, install_cell, pages
from tools.site.build import toc_pages

PLAIN = {"dim": 4, "context_size": 7, "prior_mean": 1.0}
SETTINGS = {
    **dict.fromkeys(
        (
            "beyond",
            "depth",
            "depth_appendix",
            "fast_weights",
            "gradients",
            "gradients_appendix",
            "intro",
            "trust",
        ),
        PLAIN,
    ),
    "embedding": PLAIN | {"heads": 3},
    "few_heads": {"dim": 4, "context_size": 3, "error": 1.2, "offset": 0.3},
    "guess_price": {"dim": 1, "context_size": 2},
    "heads": PLAIN | {"heads": [1, 3, 4, 5]},
    "initial_guess": {"dim": 3, "context_size": 12, "heads": 3, "worst": 2.0},
    "linear_transformer_block": PLAIN | {"width": 3},
    "llm": {"guess_model": "concat", "near": 0.2},
    "other_inputs": {"dim": 3, "context_size": 5},
    "pythagoras": {"dim": 3, "context_size": 12, "prior_mean": 0.0},
    "softmax": {"dim": 3, "context_size": 12, "noise_var": 0.5},
    "yq_lsa": PLAIN | {"learning_rate": 1e-3, "steps": 1000},
    "yq_lsa_training": {"dim": 3, "context_size": 12, "steps": 1200},
}
# The two cheapest pages; once a week CI tries all.
ASKED = os.environ.get("BENT_PAGES", "guess_price trust")
TRIED = sorted(SETTINGS) if ASKED == "all" else ASKED.split()


def test_every_page_with_parameters_is_tried():
    bends = [
        page.stem
        for page in pages.code_pages(ROOT)
        if install_cell.parameters_place(pages.build(page).cells) >= 0
    ]
    assert sorted(SETTINGS) == sorted(bends) and set(TRIED) <= set(SETTINGS)


def test_every_page_stands_in_the_table_of_contents():
    missing = {f"book/{page.stem}" for page in pages.code_pages(ROOT)}.difference(
        toc_pages()
    )
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
    page = pages.Page(ROOT, stem)
    assert numbers(execute.run_cells(page, SETTINGS[stem])) != numbers(pages.load(page))


def test_at_its_own_setting_a_page_has_its_own_numbers():
    """The control: what differs at another setting is no rounding."""
    page = pages.Page(ROOT, TRIED[-1])
    assert numbers(execute.run_cells(page, {})) == numbers(pages.load(page))
