"""A page follows its parameters: at other settings all of its cells run."""

import pytest
from tiny_book import ROOT

from tools.notebooks import execute, install_cell, pages

SETTINGS = {
    "llm": [{"guess_model": "concat", "near": 0.2}, {"draws": [0, 1], "live_run": 5}],
    "intro": [{"dim": 4, "context_size": 7, "prior_mean": 1.0}, {"dim": 3, "context_size": 2, "prior_mean": -0.5}],
    "embedding": [
        {"dim": 4, "context_size": 7, "prior_mean": 1.0, "heads": 3},
        {"dim": 3, "context_size": 2, "prior_mean": 0.0, "heads": 5},
    ],
    "pythagoras": [
        {"dim": 4, "context_size": 7, "prior_mean": 1.0},
        {"dim": 3, "context_size": 12, "prior_mean": 0.0},
    ],
}


def test_every_page_with_parameters_is_tried():
    bends = [
        page.stem for page in pages.code_pages(ROOT) if install_cell.parameters_place(pages.build(page).cells) >= 0
    ]
    assert sorted(SETTINGS) == bends


@pytest.mark.parametrize(("stem", "setting"), [(stem, each) for stem, both in SETTINGS.items() for each in both])
def test_a_page_runs_at_another_setting(stem, setting):
    page = pages.Page(ROOT, stem)
    ran = pages.code_cells(execute.run_cells(page, parameters=setting))
    # The setting took effect: what the page prints or shows is not what it shows at its own.
    shown = lambda cells: [output for cell in cells for output in cell.outputs]
    assert len(ran) == len(pages.code_cells(pages.build(page))) + 1
    assert shown(ran) != shown(pages.code_cells(pages.load(page)))
