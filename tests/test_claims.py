"""A claim that does not hold stops the page; a control that holds stops it too."""

import numpy as np
import pytest

from lsalib.book import claims, notebook


@pytest.fixture
def shown(monkeypatch):
    """What would be displayed."""
    bundles = []
    monkeypatch.setattr(claims, "show", lambda bundle: bundles.append(bundle))
    return bundles


@pytest.mark.parametrize(
    ("measured", "expected", "kwargs", "holds"),
    [
        (1.0, 1.1, {"atol": 0.2}, True),
        (1.0, 1.3, {"atol": 0.2}, False),
        (100.0, 101.0, {"rtol": 0.02}, True),
        (100.0, 103.0, {"rtol": 0.02}, False),
        (-100.0, -101.0, {"rtol": 0.02}, True),
        ([1.0, 2.0], [1.0, 2.0], {"atol": 1e-9}, True),
        ([1.0, 1.05], 1.0, {"atol": 0.1}, True),
        ([1.1, 2.0], [1.0, 2.1], {"atol": 1e-9}, False),
        (1.0, 2.0, {"relation": "<"}, True),
        (2.0, 2.0, {"relation": "<"}, False),
        (1.95, 2.0, {"relation": "<", "atol": 0.1}, False),
        (2.2, 2.0, {"relation": ">", "atol": 0.1}, True),
        ([2.02, 2.05], [2.0, 2.0], {"relation": ">", "atol": 0.1}, False),
        ([2.2, 2.05], 2.0, {"relation": ">", "atol": np.array([0.1, 0.01])}, True),
        ([2.2, 2.05], 2.0, {"relation": ">", "atol": np.array([0.3, 0.1])}, False),
    ],
)
def test_check_and_control_are_opposites(shown, measured, expected, kwargs, holds):
    passes, fails = (claims.check, claims.control) if holds else (claims.control, claims.check)
    record = passes("some-claim", measured, expected, label="a label", **kwargs)
    with pytest.raises(claims.ClaimError, match=f"some-claim: {'the control' if holds else 'check'}"):
        fails("some-claim", measured, expected, **kwargs)
    assert record.passed
    assert [bundle[claims.MIME] for bundle in shown] == [record._asdict()]
    assert "a label" in shown[0]["text/html"]
    assert f'id="{record.anchor}"' in shown[0]["text/html"]


@pytest.mark.parametrize("measured", [[1.0, 2.0], [5.0, 2.1]])
def test_an_array_that_holds_in_part_is_neither(shown, measured):
    for claim in (claims.check, claims.control):
        with pytest.raises(claims.ClaimError, match="some-claim"):
            claim("some-claim", measured, [1.0, 2.1], atol=1e-9)
    assert shown == []


def test_the_critical_entry_is_the_one_that_is_shown(shown):
    record = claims.check("some-claim", [1.0, 2.08, 3.0], [1.0, 2.0, 3.0], atol=0.1, label="a label")
    assert (record.measured, record.expected, record.label) == ("2.1", "2", "a label (closest of 3)")
    assert claims.control("some-claim", [5.0, 7.0], 1.0, atol=0.1).measured == "5"


@pytest.mark.parametrize("last", [0, 1, 2])
def test_entries_that_rounding_tells_apart_are_a_tie(shown, last):
    """On another machine another one would be last by a bit, and the page's outputs would differ."""
    expected = np.array([1.5, 2.5, 3.5])
    measured = expected + 1e-3
    measured[last] = np.nextafter(measured[last], np.inf)
    assert claims.check("some-claim", measured, expected, atol=2e-3).expected == "1.5"
    # The control: what differs by more than rounding is no tie.
    measured[2] += 1e-6
    assert claims.check("some-claim", measured, expected, atol=2e-3).expected == "3.5"


def test_rounding_noise_does_not_show(shown):
    """Two machines that differ in the last bits show the same text."""
    a = claims.check("some-claim", 110 / 21 * (1 + 1e-15), 110 / 21, rtol=1e-12)
    b = claims.check("some-claim", 110 / 21 * (1 - 3e-15), 110 / 21, rtol=1e-12)
    assert (a.measured, a.expected) == (b.measured, b.expected) == ("5.2381", "5.2381")
    assert claims.check("some-claim", -3e-16, 0.0, atol=1e-12).measured == "0"


def test_anchors_are_unique(shown):
    first, second = (claims.check("anchor-claim", 1.0, 1.0, atol=1.0) for _ in range(2))
    assert (first.anchor, second.anchor) == ("claim-anchor-claim", "claim-anchor-claim-2")


def test_markup_is_escaped(shown):
    claims.check("some-claim", 1.0, 2.0, relation="<", label="a < b & c")
    assert "a &lt; b &amp; c" in shown[0]["text/html"]


def test_glue_formats_and_names(monkeypatch):
    bundles = []
    monkeypatch.setattr(notebook, "show", lambda *args: bundles.append(args))
    notebook.glue("risk", 110 / 21, ".2f")
    ((bundle, metadata),) = bundles
    assert bundle == {"application/papermill.record/text/plain": "5.24"}
    assert metadata["scrapbook"]["name"] == "risk"
