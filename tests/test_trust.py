"""What the page on trust shows, pages under other seeds and planted defects: stored is what comes out again."""

import json

import pytest
from tiny_book import HEADER, ROOT

from lsalib.book.seeds import STRIDE
from tools import claims, defects, shifts
from tools.pages import Page

STORED = json.loads((ROOT / shifts.SHIFTS).read_text(encoding="utf-8"))["pages"]
# Two shifts of these take seconds.
CHEAP = ("gradients_appendix", "pythagoras")

PAGE = """
# A page that draws

```{code-cell} ipython3
import jax
import numpy as np
from lsalib.book import check, control, glue

jax.config.update("jax_enable_x64", True)
drawn = np.random.default_rng(0).normal(size=1000)
seed = int(jax.random.key_data(jax.random.key(7))[-1])
glue("mean", drawn.mean())
```

```{code-cell} ipython3
check("a-mean", drawn.mean(), 0.0, atol=0.2, label="the mean", seeds=[0])
check("a-seed", seed, 7, atol=0.5, label="the seed")
control("a-mean", drawn.mean(), 0.0, atol=1e-9, label="no tolerance")
check("a-sum", 2 + 2, 4, atol=0.1, label="the sum")
```

```{code-cell} ipython3
for number in [7]:
    assert seed == number, "another seed"
check("a-rest", 1.0, 1.0, atol=0.1, label="what comes after")
```

```{code-cell} ipython3
check("a-rest", 1.0, 1.0, atol=0.1, label="the next cell")
```
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    root = tmp_path_factory.mktemp("shifts")
    (root / "book").mkdir()
    (root / "_config.yml").symlink_to(ROOT / "_config.yml")
    page = Page(root, "tiny")
    page.md.write_text(HEADER + PAGE)
    shifts.execute_apart(page, 2)
    return page


def test_every_check_is_recorded_under_every_shift(page):
    found = shifts.read(page, [0, 1, 2])
    by_label = {check["label"]: check for check in found["checks"]}
    drawn = {label: check["drawn"] for label, check in by_label.items()}
    assert drawn == {"the mean": True, "the seed": True, "no tolerance": True, "the sum": False} | dict.fromkeys(
        ("what comes after", "the next cell"), False
    )
    assert [len(by_label[label]["margins"]) for label in ("the mean", "the sum")] == [3, 1]
    assert by_label["the mean"]["failed"] == {} and min(by_label["the mean"]["margins"]) > 1
    # The seed is further on, by two strides in the second shift, and the check of it stops nothing.
    assert by_label["the seed"]["failed"] == {
        shift: {"measured": 7.0 + shift * STRIDE, "expected": 7.0, "tolerance": 0.5} for shift in (1, 2)
    }


def test_a_cell_that_stops_is_named_and_the_next_runs(page):
    found = shifts.read(page, [0, 1, 2])
    assert found["stopped"].keys() == {1, 2}
    assert found["stopped"][2] == {
        "tiny-003": "AssertionError in «assert seed == number, 'another seed'»: another seed"
    }
    failed = {check["label"]: check["failed"] for check in found["checks"]}
    assert failed["what comes after"] == {1: {}, 2: {}} and failed["the next cell"] == {}


def test_what_was_executed_is_not_executed_again(page, monkeypatch):
    for path in shifts.places(page, [0, 1]).values():
        path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": -1}))
    seconds = lambda: [json.loads(path.read_text())["seconds"] for path in shifts.places(page, range(4)).values()]
    shifts.execute_apart(page, 3)
    assert seconds()[:2] == [-1, -1] and min(seconds()[2:]) >= 0
    # Other code is another page.
    page.md.write_text(HEADER + PAGE.replace("atol=0.2", "atol=0.3"))
    assert not any(path.is_file() for path in shifts.places(page, range(4)).values())
    page.md.write_text(HEADER + PAGE)


def test_another_check_under_other_seeds_is_seen():
    record = {"id": "a", "kind": "check", "label": "x", "relation": "=", "entries": 1, "passed": True, "margin": 2.0}
    record |= {"measured": 1.0, "expected": 1.0, "tolerance": 0.1}
    (first, second) = (shifts.named([record, record]), shifts.named([record]))
    assert [name[-1] for name in first] == [1, 2] and len(second) == 1
    assert shifts.summary({0: record, 1: None})["failed"] == {1: {}}


@pytest.mark.parametrize("stem", CHEAP)
def test_two_shifts_again(stem, tmp_path):
    """What is stored of two shifts, by another run of the page as it is now."""
    for name in ("book", "_config.yml"):
        (tmp_path / name).symlink_to(ROOT / name)
    again = Page(tmp_path, stem)
    shifts.execute_apart(again, 2)
    found, stored = shifts.read(again, [0, 1, 2])["checks"], STORED[stem]["checks"]
    assert found
    for new, old in zip(found, stored, strict=True):
        same = ("id", "kind", "label", "relation", "entries", "drawn")
        assert [new[part] for part in same] == [old[part] for part in same]
        assert {str(shift) for shift in new["failed"]} == old["failed"].keys() & {"0", "1", "2"}
        if new["tolerance"] > 1e-3:  # below it is rounding, which is another machine's own
            assert new["margins"] == pytest.approx(old["margins"][: len(new["margins"])], rel=0.02)


def test_what_is_stored_is_of_the_pages_checks_and_of_claims():
    """Check for check what the notebooks recorded; the control: a label that no page has."""
    ids = {claim.id for claim in claims.read_claims(ROOT)}
    recorded = claims.read_records(ROOT)
    of = lambda stem: [(r.id, r.kind, r.label, r.entries) for r in recorded if r.page == stem]
    for stem, page in STORED.items():
        stored = [(check["id"], check["kind"], check["label"], check["entries"]) for check in page["checks"]]
        assert stored == of(stem), f"{stem} has other checks now; run: python -m tools.shifts {stem}, then --collect"
        assert {check["id"] for check in page["checks"]} <= ids
        assert [("no such", *check[1:]) for check in stored] != of(stem) or not stored
    assert STORED and STORED.keys() <= {page.stem for page in shifts.drawing(ROOT)}


def test_the_page_s_own_seeds_are_the_notebook_s():
    """Without a shift the tool measures what the notebook shows."""
    margin = {(r.id, r.kind, r.label): claims.check_of(r).margin for r in claims.read_records(ROOT)}
    sampled = 0
    for page in STORED.values():
        assert "0" not in page["stopped"] and not any("0" in check["failed"] for check in page["checks"])
        for check in page["checks"]:
            if check["drawn"] and check["tolerance"] > 1e-3 and check["margins"][0] is not None:
                name = check["id"], check["kind"], check["label"]
                # A training ends elsewhere by rounding where threads share its sums.
                assert check["margins"][0] == pytest.approx(margin[name], rel=0.3), name
                sampled += 1
    assert sampled > 50


def test_the_page_shows_the_planted_defects_as_they_are_kept():
    stored = (ROOT / defects.STORE).read_text(encoding="utf-8")
    assert stored == defects.text(ROOT)
    assert {"file", "kind", "old", "new", "aimed", "equivalent", "first", "now"} <= json.loads(stored)[0].keys()
