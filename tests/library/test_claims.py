"""A claim that does not hold stops the page; a control that holds stops it too."""

from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refusals

from lsalib.book import claims, figures, notebook, sampling
from lsalib.book.records import METADATA, Record, margin_text, rows, seeds_text


def check(id, measured, expected, *, label="", **how):
    return claims.Claim(id).holds(label, measured, expected, **how)


def control(id, measured, expected, *, label="", **how):
    return claims.Claim(id).fails(label, measured, expected, **how)


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
        # 2% of what is expected, not of what is measured.
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
    passes, fails = (check, control) if holds else (control, check)
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
    for claim in (check, control):
        with pytest.raises(claims.ClaimError, match="some-claim"):
            claim("some-claim", measured, [1.0, 2.1], atol=1e-9)
    claims._show_pending()
    assert shown == []


def test_expected_values_broadcast_to_what_is_measured(shown):
    """Seeds in front: one expected value for each group, and one tolerance for each."""
    measured = np.array([[1.0, 5.0], [1.1, 5.1], [0.9, 4.9]])
    claim = claims.Claim("some-claim", seeds=range(3))
    record = claim.holds("all seeds", measured, [1.0, 5.0], atol=[0.11, 0.2])
    assert (record.entries, record.seeds) == (6, [0, 1, 2])
    assert claim.holds("other seeds", 1.0, 1.0, atol=1.0, seeds=[7]).seeds == [7]
    claim.fails("the groups swapped", measured, [5.0, 1.0], atol=0.2)
    claim.fails("a column for each seed", measured, [[3.0], [0.0], [2.0]], atol=0.2)


def test_what_belongs_to_the_paper_s_setting_is_skipped_elsewhere(shown):
    """Neither a check that fails nor a control that holds stops the page, and the cell says what it skipped."""
    claim = claims.Claim("some-claim")
    assert claim.holds("a label", 1.0, 2.0, atol=0.1, paper_setting=False) is None
    assert claim.fails("another label", 1.0, 1.0, atol=0.1, paper_setting=False) is None
    claims._show_pending()
    ((bundle,),) = shown
    assert bundle == {"text/plain": "Skipped outside the paper's setting: a label; another label"}
    with pytest.raises(claims.ClaimError, match="some-claim: a label: 1 = 2"):
        claim.holds("a label", 1.0, 2.0, atol=0.1)


def test_a_cell_has_one_row_for_all_that_it_checks(shown):
    check("some-claim", 1.0, 1.0, atol=1.0, seeds=range(8))
    check("other-claim", 1.0, 1.0, atol=1.0)
    control("some-claim", 3.0, 1.0, atol=1.0, label="broken")
    claims._show_pending()
    claims._show_pending()
    ((bundle, metadata),) = shown
    assert bundle["text/plain"].startswith("✓ 2 checks and 1 control hold · some-claim · other-claim\n")
    assert bundle["text/html"].count("<details") == 1 and "<td>0–7</td>" in bundle["text/html"]
    assert [record["kind"] for record in metadata[METADATA]] == ["check", "check", "control"]


def test_the_entry_closest_to_its_bound_speaks_for_an_array(shown):
    record = check("some-claim", [1.0, 2.08, 3.0], [1.0, 2.0, 3.0], atol=0.1, label="a label")
    assert (record.measured, record.expected, record.entries) == (2.08, 2.0, 3)
    assert "a label, closest of 3" in rows([record])
    assert control("some-claim", [5.0, 7.0], 1.0, atol=0.1).measured == 5
    # In tolerances: 0.4 of 0.5 is closer than 1 of 10.
    assert check("some-claim", [1.4, 101.0], [1.0, 100.0], atol=np.array([0.5, 10.0])).measured == 1.4


@pytest.mark.parametrize("last", [0, 1, 2])
def test_entries_that_rounding_tells_apart_are_a_tie(shown, last):
    """On another machine another one would be last by a bit, and the page's record would differ."""
    expected = np.array([1.5, 2.5, 3.5])
    measured = expected + 1e-3
    measured[last] = np.nextafter(measured[last], np.inf)
    assert check("some-claim", measured, expected, atol=2e-3).expected == 1.5
    # The control: what differs by more than rounding is no tie.
    measured[2] += 1e-6
    assert check("some-claim", measured, expected, atol=2e-3).expected == 3.5


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
    record = {"check": check, "control": control}[kind]("some-claim", measured, 1.0, relation=relation, atol=atol)
    assert margin_text(record) == margin


def test_what_is_kept_is_not_rounded(shown):
    record = check("some-claim", 110 / 21 * (1 + 1e-12), 110 / 21, rtol=1e-9)
    assert record.measured - record.expected > 0
    claims._show_pending()
    assert Record(**shown[0][1][METADATA][0]) == record


def test_a_page_s_row_is_rounded_and_the_ledger_s_is_not(shown):
    """Markup is escaped, and minus is one sign."""
    record = check("some-claim", -110 / 21, -5.0, relation="<", atol=1e-3, label="a < b & c")
    page, ledger = rows([record]), rows([record], link=lambda record: "page.html")
    assert ">−5.2381<" in page.replace("10<", "1<") and f">{-110 / 21}<".replace("-", "−") in ledger
    assert "5.238095238095238" not in page and ">-5" not in page + ledger
    assert "a &lt; b &amp; c" in page and ">&lt; −5" in page
    noise = check("some-claim", -1e-16, 0.0, atol=1e-9)
    assert ">−1e−16<" in rows([noise]) and ">1e−09<" in rows([noise])
    with pytest.raises(claims.ClaimError, match=r"−1 = −2 \(tolerance 0\.1\) fails"):
        check("some-claim", -1, -2, atol=0.1)


def test_anchors_and_keys_are_unique(shown):
    names = ["", "wide", "", "wide", "two-wide", "wide"]
    records = [check("anchor-claim", 1.0, 1.0, atol=1.0, name=name) for name in names]
    assert [record.anchor for record in records] == ["claim-anchor-claim"] + [
        f"claim-anchor-claim-{n}" for n in range(2, 7)
    ]
    assert [record.key.removeprefix("anchor-claim/") for record in records] == [
        *("1", "wide", "3", "wide-2", "two-wide", "wide-3")
    ]
    # Another claim counts on its own, and a label changes no key.
    assert control("other-anchor-claim", 3.0, 1.0, atol=1.0, label="any", name="wide").name == "wide"


@pytest.fixture
def bundles(monkeypatch):
    """What tables and glued numbers display: bundles of MIME types, with metadata."""
    found = []
    monkeypatch.setattr(notebook, "show", lambda *bundle: found.append(bundle))
    return found


def test_a_table_is_shown_in_both_forms(bundles):
    notebook.table(["who", "heads", "risk"], [["a < b", 3, 110 / 21], ["c", 12, -1.0]], caption="Risks.", spec=".2f")
    assert bundles[0][0]["text/plain"] == "who    heads  risk\na < b  3      5.24\nc      12     −1.00\nRisks."
    page = bundles[0][0]["text/html"]
    assert "<caption>Risks.</caption>" in page and "<td>a &lt; b</td><td class=number>3</td>" in page
    # Where one entry of a column is a text, none is set as a number.
    notebook.table(["risk", "heads"], [[1.5, 1], ["none", 2]])
    assert "<td>1.5</td><td class=number>1</td>" in bundles[1][0]["text/html"]
    with pytest.raises(ValueError, match=r"rows\[1\] must have 2 entries, one for each column, got 1"):
        notebook.table(["a", "b"], [[1, 2], [3]])


def test_two_seeds_are_named_and_more_are_a_range():
    assert [seeds_text(range(n)) for n in (1, 2, 3)] == ["0", "0, 1", "0–2"]


def test_glue_formats_and_names(bundles):
    notebook.glue("risk", -110 / 21, ".2f")
    ((bundle, metadata),) = bundles
    assert bundle == {"application/papermill.record/text/plain": "−5.24"}
    assert metadata["scrapbook"]["name"] == "risk"
    notebook.glue(spec=".0%", share=0.15, text="as it is")
    assert [bundle.popitem()[1] for bundle, _ in bundles[1:]] == ["15%", "as it is"]
    with pytest.raises(ValueError, match="glue needs a name and a value"):
        notebook.glue()


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (-1e-4, ".2f", "0.00"),
        (-0.0, "g", "0"),
        (-0.004, "+.1%", "−0.4%"),
        (-0.0004, "+.1%", "+0.0%"),
        (np.float32(-0.5), ".1f", "−0.5"),
        (np.int64(12345), "d", "12345"),
        (-7, "d", "−7"),
        (1e-9, ".0e", "1e−09"),
        (-np.inf, ".2f", "−inf"),
        (Fraction(1, 3), ".4f", "0.3333"),
        (np.array(2.5), ".2f", "2.50"),
        (jnp.float32(2.5), ".2f", "2.50"),
    ],
)
def test_there_is_one_way_to_write_a_number(bundles, value, spec, text):
    notebook.glue("x", value, spec)
    assert bundles[0][0].popitem()[1] == text
    notebook.table(["x"], [[value]], spec=spec)
    assert bundles[1][0]["text/plain"] == f"x\n{text}"


def test_integers_of_any_type_are_written_in_full(bundles):
    kinds = (12345, np.int64(12345), np.uint16(12345), np.array(12345), jnp.array(12345), np.array([12345])[0])
    notebook.table(["n"] * len(kinds), [kinds])
    assert bundles[0][0]["text/plain"].splitlines()[1].split() == ["12345"] * len(kinds)
    notebook.table(["a", "b"], np.array([[-1.5, 2.0]]), spec=[".1f", ".3f"])
    assert bundles[1][0]["text/plain"].splitlines()[1].split() == ["−1.5", "2.000"], "each column has its own format"


def test_a_relative_tolerance_leaves_none_to_a_zero(shown):
    """Zeros that follow from a structure are met exactly; rounding in their place is a failure."""
    check("some-claim", [1.05, 0.0], [1.0, 0.0], rtol=0.1)
    with pytest.raises(claims.ClaimError, match="fails"):
        check("some-claim", [1.05, 1e-17], [1.0, 0.0], rtol=0.1)


A_CHECK = partial(check, "some-claim")
RAGGED = [[1.0], [1.0, 2.0]]
test_what_is_no_number_is_refused = refusals(
    *((lambda bad=bad: A_CHECK(1.0, 1e9, atol=bad), "atol must be finite and not empty") for bad in (np.inf, np.nan)),
    *((lambda bad=bad: A_CHECK(bad, 1.0, atol=0.1), "measured must be finite") for bad in ([], np.nan)),
    *(
        (lambda bad=bad: A_CHECK(bad, 1.0, atol=0.1), "measured must be a real number or an array of real numbers, got")
        for bad in ("1.0", 1 + 0j, True, None, RAGGED)
    ),
    *(
        (lambda bad=bad: A_CHECK(1.0, bad, atol=0.1), "expected must be a real number")
        for bad in (["1.0"], np.array([1j]))
    ),
    *((lambda bad=bad: A_CHECK(1.0, 1.0, atol=bad), "atol must be a real number") for bad in ("0.1", True)),
    *(
        (lambda bad=bad: A_CHECK([1.0, 2.0], bad, atol=0.1), r"expected must .* shape of measured, \(2,\), got shape")
        for bad in (np.ones(3), np.ones((2, 1)))
    ),
    (lambda: A_CHECK(1.0, np.nan, atol=1.0), "expected must be finite"),
    (lambda: A_CHECK([1.0, 2.0], 1.0, atol=[1.0, np.inf]), "atol must be finite"),
    (lambda: A_CHECK([1.0, 2.0], [1.0, 2.0], atol=[0.1, 0]), "a positive tolerance for each entry"),
    (lambda: A_CHECK([1.0, 2.0], [1.0, 2.0], atol=[0.1, -0.1]), "atol must not be negative"),
    (lambda: A_CHECK([1.0, 2.0], 1.0, atol=np.ones(3)), r"atol must be one number, .* \(2,\), got shape \(3,\)"),
    (lambda: A_CHECK([1.0, 2.0], 1.0, rtol=[0.1, 0.1]), r"rtol must be one number, got shape \(2,\)"),
    (lambda: A_CHECK(1.0, 1.0, rtol=-0.1), "rtol must not be negative"),
    (lambda: A_CHECK(1.0, 1e9, rtol=np.inf), "rtol must be finite"),
    (lambda: A_CHECK(1.0, 1.0), "atol or rtol must be given"),
    (lambda: A_CHECK(1.0, 1.0, relation="~"), "relation must be"),
    (lambda: A_CHECK(1.0, 1.0, atol=0.1, label=3), "label must be a text, got 3"),
    *(
        (lambda name=name: A_CHECK(1.0, 1.0, atol=0.1, name=name), "name must be (words such as|a text, got 3)")
        for name in ("Ten heads", "2", "heads-2", "a/b", "wide-", 3)
    ),
    (lambda: check(7, 1.0, 1.0, atol=0.1), "id must be a text, got 7"),
    *(
        (lambda bad=bad: A_CHECK(1.0, 1.0, atol=0.1, seeds=bad), "seeds must be a sequence of")
        for bad in (3, [0.5], [np.True_])
    ),
    (lambda: control("some-claim", 5.0, 1.0, atol=np.nan), "atol must be finite"),
    *((lambda bad=bad: notebook.glue("x", bad), "the value of 'x' must be a single number") for bad in ([1.0], None)),
    (lambda: notebook.table(["a", "b"], [[1, 2], [3, np.ones(1)]]), r"rows\[1\]\[1\] must be a single number"),
    (lambda: sampling.z_score([1.0], 1.0), "values must have at least two rows"),
    (lambda: sampling.z_score(np.ones((3, 2)), np.ones((3,))), r"expected must be one number or have shape \(2,\)"),
    (lambda: sampling.by_batch(jax.random.uniform, [0.5], batches=2), "seeds must be a sequence of whole numbers"),
    (lambda: figures.tint(np.ones(4)), "values must be a matrix"),
    (lambda: figures.color_of("red"), "color must be one of lsa"),
)
