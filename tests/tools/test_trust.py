"""Pages under other seeds: what is recorded of a run, and the form of what is stored for the page on trust."""

import json

import pytest
from tiny_book import HEADER, ROOT

from lsalib.book.seeds import STRIDE
from studies.trust import shifts
from tools.ledger import claims
from tools.notebooks import pages
from tools.notebooks.pages import Page

STORED = json.loads((ROOT / shifts.SHIFTS).read_text(encoding="utf-8"))["pages"]
# A run of this page takes seconds.
CHEAP = "pythagoras"
# By which a check of a run is known as one of the notebook's.
SAME = ("id", "kind", "label", "relation", "entries")

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


def test_collecting_replaces_what_was_executed_and_keeps_the_rest(page, capsys):
    """As in a fresh clone, where the runs of one page lie and the rows of all are stored."""
    root = page.root
    kept = {"shifts": 20, "code": "c", "stopped": {}, "checks": [{"label": "a"}, {"label": "b"}]}
    (root / shifts.SHIFTS).parent.mkdir(parents=True)
    about = {"date": "2020-01-01", "versions": {"jax": "0"}}

    def collected(stored: dict) -> dict:
        (root / shifts.SHIFTS).write_text(json.dumps({"about": about, "pages": stored}))
        shifts.main(["--collect", f"--root={root}", "--shifts=2"])
        return shifts.stored(root)

    of_another_code = {"shifts": 20, "code": "old", "stopped": {}, "checks": []}
    found = collected({"other": kept, "tiny": of_another_code})
    assert found["other"] == about | kept and found["tiny"]["shifts"] == 2
    assert found["tiny"]["checks"] == json.loads(json.dumps(shifts.read(page, [0, 1, 2])["checks"]))
    assert found["tiny"]["date"] > about["date"]
    # Two runs of the code of which twenty are stored.
    same = of_another_code | {"code": pages.digest(page)}
    assert collected({"tiny": same})["tiny"] == about | same
    said = capsys.readouterr().out
    assert "tiny: kept as stored, 20 shifts" in said and "other: stored, but no page any more" in said


def test_another_check_under_other_seeds_is_seen():
    record = {"id": "a", "kind": "check", "label": "x", "relation": "=", "entries": 1, "passed": True, "margin": 2.0}
    record |= {"measured": 1.0, "expected": 1.0, "tolerance": 0.1}
    (first, second) = (shifts.named([record, record]), shifts.named([record]))
    assert [name[-1] for name in first] == [1, 2] and len(second) == 1
    assert shifts.summary({0: record, 1: None})["failed"] == {1: {}}


def test_two_shifts_of_a_page(tmp_path):
    """Without a shift the tool measures what the notebook shows; with one, some of the draws differ."""
    for name in ("book", "_config.yml"):
        (tmp_path / name).symlink_to(ROOT / name)
    again = Page(tmp_path, CHEAP)
    shifts.execute_apart(again, 1)
    found = shifts.read(again, [0, 1])
    shown = claims.read_records(ROOT)[CHEAP]
    assert found["checks"] and "0" not in found["stopped"]
    for new, record in zip(found["checks"], shown, strict=True):
        assert [new[part] for part in SAME] == [getattr(record, part) for part in SAME] and 0 not in new["failed"]
        if new["tolerance"] > 1e-3 and new["margins"][0] is not None:  # below it is rounding
            assert new["margins"][0] == pytest.approx(record.margin, rel=0.02), new["label"]
    assert {new["drawn"] for new in found["checks"]} == {True, False}


def test_what_is_stored_can_be_read():
    """Its form: what is stored may be of an earlier state of the pages."""
    for stem, page in STORED.items():
        for check in page["checks"]:
            runs = page["shifts"] + 1 if check["drawn"] else 1
            assert len(check["margins"]) == runs, f"{stem}: {check['label']}"
            assert check["failed"].keys() <= set(map(str, range(page["shifts"] + 1))), f"{stem}: {check['label']}"
    assert any(check["drawn"] for page in STORED.values() for check in page["checks"])
