"""A claim that does not hold stops the page; a control that holds stops it too."""

import warnings
from functools import partial
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refusals

from lsalib.book import claims, notebook
from lsalib.book.claims import (
    METADATA,
    Claim,
    Record,
    margin_text,
    number,
    rows,
    seeds_text,
    texts,
)
from lsalib.book.notebook import glue, table


def check(measured, expected, *, label="a label", **how):
    return Claim("some-claim").holds(label, measured, expected, **how)


def control(measured, expected, *, label="a label", **how):
    return Claim("some-claim").fails(label, measured, expected, **how)


@pytest.fixture
def shown(monkeypatch):
    """What each cell would display."""
    bundles = []
    monkeypatch.setattr(claims, "show", lambda *bundle: bundles.append(bundle))
    claims._show_pending()
    bundles.clear()
    return bundles


@pytest.mark.parametrize(
    ("measured", "expected", "how", "passing"),
    [
        (1.0, 1.1, {"atol": 0.2}, check),
        (1.0, 1.3, {"atol": 0.2}, control),
        # 2% of what is expected, not of what is measured.
        (100.0, 102.03, {"rtol": 0.02}, check),
        (102.03, 100.0, {"rtol": 0.02}, control),
        (-100.0, -101.0, {"rtol": 0.02}, check),
        # Zeros that follow from a structure are met exactly.
        ([1.05, 0.0], [1.0, 0.0], {"rtol": 0.1}, check),
        ([1.05, 1e-17], [1.0, 0.0], {"rtol": 0.1}, None),
        ([1.1, 2.0], [1.0, 2.1], {"atol": 1e-9}, control),
        ([1.0, 2.0], [1.0, 2.1], {"atol": 1e-9}, None),
        ([5.0, 2.1], [1.0, 2.1], {"atol": 1e-9}, None),
        (1.0, 2.0, {"relation": "<"}, check),
        (2.0, 2.0, {"relation": "<"}, control),
        (1.95, 2.0, {"relation": "<", "atol": 0.1}, control),
        (2.2, 2.0, {"relation": ">", "atol": 0.1}, check),
        ([2.02, 2.05], [2.0, 2.0], {"relation": ">", "atol": 0.1}, control),
        ([2.2, 2.05], 2.0, {"relation": ">", "atol": np.array([0.1, 0.01])}, check),
        ([2.2, 2.05], 2.0, {"relation": ">", "atol": np.array([0.3, 0.1])}, control),
    ],
)
def test_check_and_control_are_opposites(shown, measured, expected, how, passing):
    """Where an array holds in part, neither passes."""
    said = {check: "a label", control: "the control “a label” holds"}
    for claim in said.keys() - {passing}:
        with pytest.raises(claims.ClaimError, match=f"some-claim: {said[claim]}"):
            claim(measured, expected, **how)
    records = [passing(measured, expected, **how)] if passing else []
    assert all(record.passed for record in records)
    claims._show_pending()
    kept = [metadata[METADATA] for _, metadata in shown]
    assert kept == [[record._asdict()] for record in records]


def test_expected_values_broadcast_to_what_is_measured(shown):
    """Seeds in front: one expected value for each group, and one tolerance for each."""
    measured = np.array([[1.0, 5.0], [1.1, 5.1], [0.9, 4.9]])
    claim = Claim("some-claim", seeds=range(3))
    record = claim.holds("all seeds", measured, [1.0, 5.0], atol=[0.11, 0.2])
    assert (record.entries, record.seeds) == (6, [0, 1, 2])
    assert claim.holds("other seeds", 1.0, 1.0, atol=1.0, seeds=[7]).seeds == [7]
    claim.fails("the groups swapped", measured, [5.0, 1.0], atol=0.2)


@pytest.mark.parametrize("outcome", [check, control])
def test_a_check_is_strict_at_the_published_setting_and_warns_elsewhere(shown, outcome):
    """A comparison that fails prints a line and leaves no record; one that holds is
    recorded.
    """
    wrong, right = (2.0, 1.0) if outcome is check else (1.0, 2.0)
    for measured, said in (
        (wrong, "a label.* = 1 "),
        (np.nan, "a label: measured must be finite"),
        ([], "not empty"),
    ):
        with pytest.raises((claims.ClaimError, ValueError)):
            outcome(measured, 1.0, atol=0.1, paper_setting=True)
        with pytest.warns(
            UserWarning, match=f"some-claim: .*{said}.*{claims.ONLY_WARNED}"
        ):
            assert outcome(measured, 1.0, atol=0.1, paper_setting=False) is None
    with warnings.catch_warnings(action="error"):
        assert outcome(right, 1.0, atol=0.1, paper_setting=False).passed
    claims._show_pending()
    assert len(shown[0][1][METADATA]) == 1


def test_every_check_of_the_published_notebooks_was_strict():
    """A page whose ``paper_setting`` does not fit its parameters would only warn."""
    notebooks = sorted((Path(__file__).parents[2] / "book").glob("*.ipynb"))
    assert len(notebooks) > 10
    assert not [
        each.name
        for each in notebooks
        if claims.ONLY_WARNED in each.read_text(encoding="utf-8")
    ]


def test_a_cell_has_one_row_for_all_that_it_checks(shown):
    first = check(1.0, 1.0, atol=1.0, seeds=range(8))
    Claim("other-claim").holds("other", 1.0, 1.0, atol=1.0)
    control(3.0, 1.0, atol=1.0, label="broken")
    claims._show_pending()
    claims._show_pending()
    ((bundle, metadata),) = shown
    text, page = bundle["text/plain"], bundle["text/html"]
    held = "✓ 2 checks and 1 control hold · some-claim · other-claim\n"
    assert text.startswith(held) and page.count("<details") == 1
    for part in ("<td>0–7</td>", f'id="{first.anchor}"', "a label"):
        assert part in page
    kinds = [record["kind"] for record in metadata[METADATA]]
    assert kinds == ["check", "check", "control"]


def test_the_entry_closest_to_its_bound_speaks_for_an_array(shown):
    record = check([1.0, 2.08, 3.0], [1.0, 2.0, 3.0], atol=0.1, label="a label")
    assert (record.measured, record.expected, record.entries) == (2.08, 2.0, 3)
    assert "a label, closest of 3" in rows([record])
    assert control([5.0, 7.0], 1.0, atol=0.1).measured == 5
    # In tolerances: 9 of 10 is closer to the bound than 0.4 of 0.5.
    assert check([1.4, 109.0], [1.0, 100.0], atol=np.array([0.5, 10.0])).measured == 109


@pytest.mark.parametrize("last", [0, 1, 2])
def test_entries_that_rounding_tells_apart_are_a_tie(shown, last):
    """On another machine another one would be last by a bit, and the page's record
    would differ.
    """
    expected = np.array([1.5, 2.5, 3.5])
    measured = expected + 1e-3
    measured[last] = np.nextafter(measured[last], np.inf)
    assert check(measured, expected, atol=2e-3).expected == 1.5
    # The control: what differs by more than rounding is no tie.
    measured[2] += 1e-6
    assert check(measured, expected, atol=2e-3).expected == 3.5


@pytest.mark.parametrize(
    ("outcome", "measured", "relation", "atol", "margin"),
    [
        (check, 1.1, "=", 0.5, "5 ×"),
        (check, 1.0, "=", 0.5, "equal"),
        (check, 4.0, ">", 0.1, "30 ×"),
        (check, 4.0, ">", 0.0, "no tolerance"),
        (control, 3.0, "=", 0.5, "4 ×"),
        # At 1.5 it would be no larger than the tolerance allows; 1.5 tolerances are
        # between.
        (control, 0.75, ">", 0.5, "2.5 ×"),
        (control, 1.5, ">", 0.5, "1 ×"),
        (control, 1.25, "<", 0.5, "2.5 ×"),
        (check, 0.25, "<", 0.5, "1.5 ×"),
    ],
)
def test_a_margin_says_how_far_the_other_verdict_is(
    shown, outcome, measured, relation, atol, margin
):
    assert margin_text(outcome(measured, 1.0, relation=relation, atol=atol)) == margin


def test_a_page_s_row_is_rounded_and_the_ledger_s_is_not(shown):
    """To what the tolerance tells apart and two digits more.

    Markup is escaped, and minus is one sign.
    """
    rounded = [number(110 / 21, 1e-6), number(8.0, 0.5), number(0.0, 0.0)]
    assert rounded == ["5.23809524", "8", "0"]
    record = check(-110 / 21, -5.0, relation="<", atol=1e-3, label="a < b & c")
    page, ledger = rows([record]), texts(record, rounded=False)
    assert ">−5.2381<" in page.replace("10<", "1<")
    assert ledger[1] == f"{-110 / 21}".replace("-", "−")
    assert "5.238095238095238" not in page and ">-5" not in page
    assert "a &lt; b &amp; c" in page and ">&lt; −5" in page
    claims._show_pending()
    assert [Record(**kept) for kept in shown[0][1][METADATA]] == [record], (
        "the record is not rounded"
    )
    named = {"": [], "3": [3], "0, 1": [0, 1], "0–2": [0, 1, 2], "0, 5, 9": [0, 5, 9]}
    assert [seeds_text(seeds) for seeds in named.values()] == list(named)
    noise = check(-1e-16, 0.0, atol=1e-9)
    assert ">−1e−16<" in rows([noise]) and ">1e−09<" in rows([noise])


def test_anchors_are_unique(shown):
    claim, other = Claim("anchor-claim"), Claim("other-anchor-claim")
    anchors = [
        each.holds("a label", 1.0, 1.0, atol=1.0).anchor
        for each in (claim, claim, other, Claim("anchor-claim"))
    ]
    assert anchors == [
        *("claim-anchor-claim", "claim-anchor-claim-2"),
        *("claim-other-anchor-claim", "claim-anchor-claim-3"),
    ]


@pytest.fixture
def bundles(monkeypatch):
    """What tables and glued numbers display: bundles of MIME types, with metadata."""
    found = []
    monkeypatch.setattr(notebook, "show", lambda *bundle: found.append(bundle))
    return found


def test_a_table_is_shown_in_both_forms(bundles):
    table(
        ["who", "heads", "risk"],
        [["a < b", 3, 110 / 21], ["c", 12, -1.0]],
        caption="Risks.",
        spec=".2f",
    )
    assert (
        bundles[0][0]["text/plain"]
        == "who    heads  risk\na < b  3      5.24\nc      12     −1.00\nRisks."
    )
    page = bundles[0][0]["text/html"]
    assert (
        "<caption>Risks.</caption>" in page
        and "<td>a &lt; b</td><td class=number>3</td>" in page
    )
    # A column with a number is set as numbers, a text in it too; a column of texts is
    # not.
    table(["risk", "how"], [[1.5, "a"], ["none", "b"]])
    assert "<td class=number>none</td><td>b</td>" in bundles[1][0]["text/html"]


def test_glue_formats_and_names(bundles):
    glue(risk=-110 / 21, spec=".2f")
    ((bundle, metadata),) = bundles
    assert bundle == {"application/papermill.record/text/plain": "−5.24"}
    assert metadata["scrapbook"]["name"] == "risk"
    glue(spec=".0%", share=0.15, text="as it is")
    assert [bundle.popitem()[1] for bundle, _ in bundles[1:]] == ["15%", "as it is"]


def test_there_is_one_way_to_write_a_number(bundles):
    """A minus sign, none before a zero, whatever library the number is from."""
    cases = [
        ("0.00", -1e-4, ".2f"),
        ("0", -0.0, "g"),
        ("+0.0%", -4e-4, "+.1%"),
        ("−0.5", np.float32(-0.5), ".1f"),
        ("−7", -7, "d"),
        ("1e−09", 1e-9, ".0e"),
        ("−inf", -np.inf, ".2f"),
        ("2.50", np.array(2.5), ".2f"),
        ("2.50", jnp.float32(2.5), ".2f"),
    ]
    for _, value, spec in cases:
        glue(x=value, spec=spec)
        table(["x"], [[value]], spec=spec)
    glued, shown = (
        [list(bundle[0].values())[-1] for bundle in bundles[k::2]] for k in (0, 1)
    )
    assert glued == [text for text, *_ in cases]
    assert shown == [f"x\n{text}" for text in glued]


def test_integers_of_any_type_are_written_in_full(bundles):
    kinds = int, np.int64, np.uint16, np.array, jnp.array
    table(["n"] * 5, [[kind(12345) for kind in kinds]])
    assert bundles[0][0]["text/plain"].splitlines()[1].split() == ["12345"] * 5
    # Each column may have its own format.
    table(["a", "b"], np.array([[-1.5, 2.0]]), spec=[".1f", ".3f"])
    assert bundles[1][0]["text/plain"].splitlines()[1].split() == ["−1.5", "2.000"]


table_of = lambda *rows: table(["a", "b"], [[1, 2], *rows])
test_what_cannot_be_shown_is_refused = refusals(
    (r"rows\[1\] must have 2 entries, .* got 1", table_of, [3]),
    (r"rows\[1\]\[1\] must be a single number", table_of, [3, np.ones(1)]),
    ("the value of 'x' must be a single number", partial(glue, x=None)),
)


TWO, A_NUMBER, FINITE = [1.0, 2.0], "must be a real number", "must be finite and not"


@pytest.mark.parametrize(
    ("measured", "expected", "how", "words"),
    [
        *((bad, 1.0, {}, f"measured {A_NUMBER}") for bad in ("1.0", 1j, True, None)),
        *((bad, 1.0, {}, f"measured {FINITE}") for bad in ([], np.nan, [1.0, np.inf])),
        (1.0, True, {}, f"expected {A_NUMBER}"),
        (TWO, np.ones((2, 1)), {}, r"expected must broadcast to \(2,\), got"),
        (1.0, 1e9, {"atol": np.inf}, f"atol {FINITE}"),
        (TWO, 1.0, {"atol": np.ones(3)}, "atol must broadcast"),
        (TWO, 1.0, {"atol": [0.1, -0.1]}, "atol and rtol must not be negative"),
        (TWO, TWO, {"atol": [0.1, 0]}, "a positive tolerance for each entry"),
        (1.0, 1.0, {"rtol": -0.1}, "atol and rtol must not be negative"),
        (1.0, 1.0, {"rtol": [0.1, 0.1]}, r"rtol must broadcast to \(\), got"),
        (1.0, 1.0, {"relation": "~"}, "relation must be"),
    ],
)
@pytest.mark.parametrize("outcome", [check, control])
def test_what_cannot_be_compared_is_refused(outcome, measured, expected, how, words):
    """Also by a control, for which a comparison that fails would be a success."""
    with pytest.raises(ValueError, match=words):
        outcome(measured, expected, **how)
