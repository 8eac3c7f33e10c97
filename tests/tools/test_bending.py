"""A page follows its parameters: at other settings all of its cells run.

BENT_PAGES=all tries every page, as CI does once a week; BENT_PAGES="depth llm" tries these.
"""

import os

import pytest
from tiny_book import ROOT

from tools.notebooks import execute, install_cell, pages

# Two settings a page, unless it names its own.
PLAIN = [{"dim": 4, "context_size": 7, "prior_mean": 1.0}, {"dim": 3, "context_size": 2, "prior_mean": -0.5}]
SETTINGS = {
    **dict.fromkeys(("beyond", "depth", "fast_weights", "gradients", "gradients_appendix", "intro", "trust"), PLAIN),
    "embedding": [PLAIN[0] | {"heads": 3}, PLAIN[1] | {"prior_mean": 0.0, "heads": 5}],
    "few_heads": [
        {"dim": 2, "context_size": 6, "error": 2.0, "offset": 0.5},
        {"dim": 4, "context_size": 3, "error": 1.2, "offset": 0.3},
    ],
    "guess_price": [{"dim": 4, "context_size": 7}, {"dim": 1, "context_size": 2}],
    "heads": [PLAIN[0] | {"heads": [1, 3, 4, 5]}, PLAIN[1] | {"prior_mean": 0.0, "heads": [1, 2, 3, 4]}],
    "initial_guess": [
        {"dim": 4, "context_size": 7, "heads": 5, "worst": 16.0},
        {"dim": 3, "context_size": 12, "heads": 3, "worst": 2.0},
    ],
    "linear_transformer_block": [PLAIN[0] | {"width": 3}, PLAIN[1] | {"prior_mean": 0.0, "width": 1}],
    "llm": [{"guess_model": "concat", "near": 0.2}, {"draws": [0, 1], "live_run": 5}],
    "other_inputs": [{"dim": 3, "context_size": 5}, {"dim": 2, "context_size": 12}],
    "pythagoras": [PLAIN[0], {"dim": 3, "context_size": 12, "prior_mean": 0.0}],
    "softmax": [
        {"dim": 3, "context_size": 12, "noise_var": 0.5},
        {"dim": 8, "context_size": 100, "noise_var": 0.02},
    ],
    "yq_lsa": [PLAIN[0] | {"learning_rate": 1e-3, "steps": 1000}, PLAIN[1] | {"steps": 2000}],
    "yq_lsa_training": [
        {"dim": 4, "context_size": 7, "learning_rate": 1e-3, "steps": 1200},
        {"dim": 3, "context_size": 12, "steps": 1200},
    ],
}


TRIED = os.environ.get("BENT_PAGES", "heads other_inputs guess_price").split()
EACH = [(stem, setting) for stem, both in SETTINGS.items() if stem in TRIED for setting in both[:1]]
if TRIED == ["all"]:
    EACH = [(stem, setting) for stem, both in SETTINGS.items() for setting in both]


def test_every_page_with_parameters_is_tried():
    bends = [
        page.stem for page in pages.code_pages(ROOT) if install_cell.parameters_place(pages.build(page).cells) >= 0
    ]
    assert sorted(SETTINGS) == sorted(bends) and len(EACH) >= len(TRIED)


@pytest.mark.parametrize(("stem", "setting"), EACH)
def test_a_page_runs_at_another_setting(stem, setting):
    page = pages.Page(ROOT, stem)
    ran = pages.code_cells(execute.run_cells(page, parameters=setting))
    # The setting took effect: what the page prints or shows is not what it shows at its own.
    shown = lambda cells: [output for cell in cells for output in cell.outputs]
    assert len(ran) == len(pages.code_cells(pages.build(page))) + 1
    assert shown(ran) != shown(pages.code_cells(pages.load(page)))
