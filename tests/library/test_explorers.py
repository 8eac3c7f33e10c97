"""An interactive figure keeps its arrays, its axes, and a reason for each answer."""

import json
import re

import numpy as np
import pytest
from refusals import refusals

from lsalib.book import explore, explorers

QUESTION = {
    "xlabel": "x",
    "ylabel": "y",
    "question": "Is 2 < 1?",
    "answers": {"No": "2 is more.", "Yes": "No: 2 > 1."},
    "right": "No",
    "sliders": {},
    "colors": ["ink"],
}
X = [1, 2, 4]
CURVE = {"a curve": [1.0, 2.0, 3.0]}
ask = lambda x=X, curves=CURVE, **more: explore(x, curves, **QUESTION | more)


@pytest.fixture
def shown(monkeypatch):
    bundles: list[dict] = []
    monkeypatch.setattr(explorers, "show", bundles.append)
    return bundles


def test_it_keeps_arrays_positions_and_axes_for_all_positions(shown):
    # (2, 3, 3): two positions of "a", three of "b", three of x.
    whole = np.arange(18.0).reshape(2, 3, 3) + 1 / 3
    whole[0, 1, 2] = np.nan
    ask(
        curves={
            "whole": whole,
            "of b": np.arange(9).reshape(3, 3),
            "level": [[[5.0]], [[6.0]]],
        },
        start={"a": 9000, "x": 2.2},
        sliders={"a": [0.0005, 12345.0], "b": ["one", "two", "three"]},
        colors=["lsa", "yq", "gd"],
    )
    (page,) = (bundle["text/html"] for bundle in shown)
    data = json.loads(re.search('json">(.*)</script>', page)[1])
    assert data["x"]["values"] == X and data["x"]["ends"] == [1, 4]
    assert data["sliders"] == [
        {"label": "a", "texts": ["0.0005", "12,340"], "at": 1},
        {"label": "b", "texts": ["one", "two", "three"], "at": 0},
        {"label": "x", "texts": ["1", "2", "4"], "at": 1},
    ]
    names, inks, arrays = zip(*(line.values() for line in data["lines"]), strict=True)
    assert names == ("whole", "of b", "level") and inks == ("lsa", "yq", "gd")
    np.testing.assert_allclose(np.array(arrays[0], float), whole, rtol=1e-4)
    assert arrays[1] == [[[0, 1, 2], [3, 4, 5], [6, 7, 8]]]
    assert arrays[2] == [[[5]], [[6]]]
    # The axis has room for all positions, not only for the first.
    low, high = data["y"]["ends"]
    assert low <= 0 and 17.4 < high < 19
    ticks = data["y"]["ticks"]
    assert len(ticks) > 3 and all(float(text) == tick for tick, text in ticks)


def test_a_logarithmic_axis_shows_positive_numbers(shown):
    curves = {"down": [[1, 0.1, 0], [1e-3, 1e-4, -1]]}
    ask(curves=curves, log="xy", sliders={"a": [1, 2]})
    data = json.loads(re.search('json">(.*)</script>', shown[0]["text/html"])[1])
    assert data["x"]["log"] and data["y"]["log"]
    assert data["y"]["ends"] == pytest.approx([1e-4 / 1.2, 1.2], rel=1e-4)
    assert data["lines"][0]["values"] == [[1, 0.1, None], [0.001, 0.0001, None]]


def test_each_answer_has_its_verdict_and_its_reason(shown):
    ask()
    folds = re.findall("<summary>(.*?)</summary><p>(.*?)</p>", shown[0]["text/html"])
    assert folds == [
        ("No", "That is right. 2 is more."),
        ("Yes", "Not quite. No: 2 &gt; 1."),
        ("Show the answer", "No. 2 is more."),
    ]
    assert "<p>Is 2 &lt; 1?</p>" in shown[0]["text/html"]


LARGE = {"big": np.pi * np.ones((9999, 3))}
test_odd_calls_are_refused = refusals(
    ("x must be .* increasing .* got", ask, [1, 1]),
    (r"'short' must broadcast to \(3,\), got shape \(2,\)", ask, X, {"short": [1, 2]}),
    ("each of start must be one of x, got 'z'", lambda: ask(start={"z": 1})),
    (r"colors must be 1, of \['a curve'\], got", lambda: ask(colors=["gd", "gd"])),
    ("right must be one of No, Yes, got 'Maybe'", lambda: ask(right="Maybe")),
    (
        "curves must fit into 60000 bytes, got",
        lambda: ask(curves=LARGE, sliders={"a": range(9999)}),
    ),
)
