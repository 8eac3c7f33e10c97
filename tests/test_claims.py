"""A claim that does not hold stops the page; a control that holds stops it too."""

import numpy as np
import pytest

from lsalib.book import claims, notebook
from lsalib.book.records import METADATA, Record, margin_text, rows, seeds_text


@pytest.fixture
def shown(monkeypatch):
    """What each cell would display."""
    bundles = []
    monkeypatch.setattr(claims, "show", lambda *bundle: bundles.append(bundle))
    claims._show_pending()
    bundles.clear()
    return bundles


@pytest.mark.parametrize(
    ("measured", "expected", "kwargs", "holds"),
    [
        (1.0, 1.1, {"atol": 0.2}, True),
        (1.0, 1.3, {"atol": 0.2}, False),
        (100.0, 101.0, {"rtol": 0.02}, True),
        (100.0, 103.0, {"rtol": 0.02}, False),
        # Two per cent of what is expected, not of what is measured.
        (100.0, 102.03, {"rtol": 0.02}, True),
        (102.03, 100.0, {"rtol": 0.02}, False),
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
    claims._show_pending()
    ((bundle, metadata),) = shown
    assert metadata == {METADATA: [record._asdict()]}
    assert "a label" in bundle["text/html"]
    assert f'id="{record.anchor}"' in bundle["text/html"]


@pytest.mark.parametrize("measured", [[1.0, 2.0], [5.0, 2.1]])
def test_an_array_that_holds_in_part_is_neither(shown, measured):
    for claim in (claims.check, claims.control):
        with pytest.raises(claims.ClaimError, match="some-claim"):
            claim("some-claim", measured, [1.0, 2.1], atol=1e-9)
    claims._show_pending()
    assert shown == []


def test_a_cell_has_one_row_for_all_that_it_checks(shown):
    claims.check("some-claim", 1.0, 1.0, atol=1.0, seeds=range(8))
    claims.check("other-claim", 1.0, 1.0, atol=1.0)
    claims.control("some-claim", 3.0, 1.0, atol=1.0, label="broken")
    claims._show_pending()
    claims._show_pending()
    ((bundle, metadata),) = shown
    assert bundle["text/plain"].startswith("✓ 2 checks and 1 control hold · some-claim · other-claim\n")
    assert bundle["text/html"].count("<details") == 1 and "<td>0–7</td>" in bundle["text/html"]
    assert [record["kind"] for record in metadata[METADATA]] == ["check", "check", "control"]


def test_the_entry_closest_to_its_bound_speaks_for_an_array(shown):
    record = claims.check("some-claim", [1.0, 2.08, 3.0], [1.0, 2.0, 3.0], atol=0.1, label="a label")
    assert (record.measured, record.expected, record.entries) == (2.08, 2.0, 3)
    assert "a label, closest of 3" in rows([record])
    assert claims.control("some-claim", [5.0, 7.0], 1.0, atol=0.1).measured == 5
    # In tolerances: 0.4 of 0.5 is closer than 1 of 10.
    assert claims.check("some-claim", [1.4, 101.0], [1.0, 100.0], atol=np.array([0.5, 10.0])).measured == 1.4


@pytest.mark.parametrize("last", [0, 1, 2])
def test_entries_that_rounding_tells_apart_are_a_tie(shown, last):
    """On another machine another one would be last by a bit, and the page's record would differ."""
    expected = np.array([1.5, 2.5, 3.5])
    measured = expected + 1e-3
    measured[last] = np.nextafter(measured[last], np.inf)
    assert claims.check("some-claim", measured, expected, atol=2e-3).expected == 1.5
    # The control: what differs by more than rounding is no tie.
    measured[2] += 1e-6
    assert claims.check("some-claim", measured, expected, atol=2e-3).expected == 3.5


@pytest.mark.parametrize(
    ("kind", "measured", "relation", "atol", "margin"),
    [
        ("check", 1.1, "=", 0.5, "5 ×"),
        ("check", 1.0, "=", 0.5, "equal"),
        ("check", 4.0, ">", 0.1, "30 ×"),
        ("check", 4.0, ">", 0.0, "no tolerance"),
        ("control", 3.0, "=", 0.5, "4 ×"),
        # At 1.5 it would be no larger than the tolerance allows; 1.5 tolerances are between.
        ("control", 0.75, ">", 0.5, "2.5 ×"),
        ("control", 1.5, ">", 0.5, "1 ×"),
        ("control", 1.25, "<", 0.5, "2.5 ×"),
        ("check", 0.25, "<", 0.5, "1.5 ×"),
    ],
)
def test_a_margin_says_how_far_the_other_verdict_is(shown, kind, measured, relation, atol, margin):
    record = getattr(claims, kind)("some-claim", measured, 1.0, relation=relation, atol=atol)
    assert margin_text(record) == margin


def test_the_ledger_s_rows_are_not_rounded(shown):
    record = claims.check("some-claim", 110 / 21, 5.2381, atol=1e-3)
    page, ledger = rows([record]), rows([record], link=lambda record: "page.html")
    assert ">5.23810<" in page or ">5.2381<" in page
    assert ">5.238095238095238<" in ledger and ">5.238095238095238<" not in page


def test_what_is_kept_is_not_rounded(shown):
    record = claims.check("some-claim", 110 / 21 * (1 + 1e-12), 110 / 21, rtol=1e-9)
    assert record.measured - record.expected > 0
    claims._show_pending()
    assert Record(**shown[0][1][METADATA][0]) == record


def test_anchors_are_unique(shown):
    first, second = (claims.check("anchor-claim", 1.0, 1.0, atol=1.0) for _ in range(2))
    assert (first.anchor, second.anchor) == ("claim-anchor-claim", "claim-anchor-claim-2")


def test_markup_is_escaped(shown):
    record = claims.check("some-claim", 1.0, 2.0, relation="<", label="a < b & c")
    assert "a &lt; b &amp; c" in rows([record])


def test_a_table_is_shown_in_both_forms(monkeypatch):
    bundles = []
    monkeypatch.setattr(notebook, "show", bundles.append)
    notebook.table(["who", "heads", "risk"], [["a < b", 3, 110 / 21], ["c", 12, -1.0]], caption="Risks.", spec=".2f")
    assert bundles[0]["text/plain"] == "who    heads  risk\na < b  3      5.24\nc      12     −1.00\nRisks."
    page = bundles[0]["text/html"]
    assert "<caption>Risks.</caption>" in page and "<td>a &lt; b</td><td class=number>3</td>" in page
    with pytest.raises(ValueError, match=r"rows\[1\] must have 2 entries, one for each column, got 1"):
        notebook.table(["a", "b"], [[1, 2], [3]])


def test_a_column_of_numbers_has_nothing_else(monkeypatch):
    """Where one entry is a text, none is set as a number."""
    bundles = []
    monkeypatch.setattr(notebook, "show", bundles.append)
    notebook.table(["risk", "heads"], [[1.5, 1], ["none", 2]])
    assert "<td>1.5</td><td class=number>1</td>" in bundles[0]["text/html"]


def test_two_seeds_are_named_and_more_are_a_range():
    assert [seeds_text(range(n)) for n in (1, 2, 3)] == ["0", "0, 1", "0–2"]


def test_glue_formats_and_names(monkeypatch):
    bundles = []
    monkeypatch.setattr(notebook, "show", lambda *args: bundles.append(args))
    notebook.glue("risk", -110 / 21, ".2f")
    ((bundle, metadata),) = bundles
    assert bundle == {"application/papermill.record/text/plain": "−5.24"}
    assert metadata["scrapbook"]["name"] == "risk"
