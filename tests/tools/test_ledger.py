"""The ledger is made from checks and marked tests, and the tool names every place where they disagree."""

import csv
import json
from collections import Counter

import jsonschema
import pytest
from docutils import nodes
from docutils.utils import new_document
from tiny_book import ROOT, make, replace

from lsalib.book.claims import METADATA, Record
from tools.ledger import claims, export
from tools.ledger.claims import Claim, Marked, problems
from tools.notebooks import execute as notebooks
from tools.site import claims as site_claims

RECORD = {
    "id": "tiny-claim", "label": "the sum", "measured": 4.01, "expected": 4.0, "relation": "=", "tolerance": 0.1,
    "kind": "check", "seeds": [0, 1], "entries": 1, "passed": True, "anchor": "claim-tiny-claim",
}  # fmt: skip
CHECK = Record(**RECORD)
CONTROL = CHECK._replace(kind="control", label="a summand less", measured=12.0, anchor="claim-tiny-claim-2")
CLAIM = Claim("tiny-claim", "P Theorem 1", "tiny", "Two and two make four.", "They do.", "sharpened")
NOT_RUN = CLAIM._replace(status=claims.NOT_RUN)
SUM = Marked("tests/test_sums.py", "test_the_sum", "Two numbers make a sum.")
TEST = {"tiny-claim": [SUM]}
PAGE = f"""
# A tiny page

```{{code-cell}} ipython3
import json
from IPython.display import display

records = json.loads({json.dumps(json.dumps([RECORD]))})
display({{"text/plain": "a row"}}, raw=True, metadata={{"{METADATA}": records}})
```
"""
LEDGER = "\n".join(["[[claim]]", *(f"{key} = {json.dumps(value)}" for key, value in CLAIM._asdict().items()), ""])
SOURCE = '''
import pytest

@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.claim("tiny-claim", "other-claim")
def test_the_sum(dim):
    """Two numbers make a sum.

    The rest is not shown.
    """

@pytest.mark.claim("tiny-claim", kind="certificate")
def test_of_no_words():
    assert "pytest.mark.claim('nobody')"
'''


# Claims, records and marks that disagree, and what is said of it.
DISAGREE = [
    ([CLAIM], [], {}, "tiny-claim: “sharpened”, but there is no check and no marked test"),
    ([CLAIM], [CONTROL], {}, "tiny-claim: “sharpened”, but there is no check"),
    ([CLAIM], [CHECK, CHECK._replace(id="thm9")], {}, "thm9, check “the sum” in tiny: no such claim"),
    ([CLAIM], [CHECK], {"thm9": [SUM]}, "thm9, mark in tests/test_sums.py::test_the_sum: no such"),
    ([NOT_RUN], [CHECK], {}, "tiny-claim: “not run here yet”, but there is evidence"),
    ([CLAIM, CLAIM], [CHECK], {}, "tiny-claim: 2 entries, expected one"),
    ([CLAIM._replace(status="true")], [CHECK], {}, "tiny-claim: status “true”, expected one of: reproduced"),
    ([CLAIM], [CHECK, CONTROL._replace(passed=False)], {}, "control “a summand less” in tiny: did not pass"),
    ([CLAIM._replace(page="llm")], [CHECK], {}, "in tiny: the ledger names the page llm"),
    ([CLAIM._replace(paper="")], [CHECK], {}, "tiny-claim: expected a finding, and what the paper says"),
    ([CLAIM._replace(place="new")], [CHECK], {}, "tiny-claim: expected a finding, and what the paper says"),
]
AGREE = [([CLAIM], [CHECK, CONTROL], {}), ([CLAIM], [], TEST), ([NOT_RUN], [], {})]


def test_every_disagreement_is_named_and_nothing_else():
    for entries, records, marks, problem in DISAGREE:
        assert any(problem in line for line in problems(entries, {"tiny": records}, marks)), problem
    assert [problems(entries, {"tiny": records}, marks) for entries, records, marks in AGREE] == [[]] * 3


def test_marks_are_read_from_the_files_without_running_them(tmp_path):
    (tmp_path / "tests").mkdir()
    path = tmp_path / "tests/test_sums.py"
    path.write_text(SOURCE)
    certificate = Marked("tests/test_sums.py", "test_of_no_words", "of no words", "certificate")
    assert claims.read_marks(tmp_path) == {"tiny-claim": [SUM, certificate], "other-claim": [SUM]}
    for wrong in ("claim", "claim()", "claim('tiny-claim', kind='hearsay')"):
        path.write_text(f"import pytest\n\n@pytest.mark.{wrong}\ndef test_the_sum():\n    pass\n")
        with pytest.raises(SystemExit, match=r"tests/test_sums.py::test_the_sum: expected @pytest.mark"):
            claims.read_marks(tmp_path)


def test_the_reading_time_counts_what_is_open():
    """400 words at 100 a minute, ten formulas at 12 seconds each, 20 lines at three; folded text takes none."""
    page = new_document("page")
    page += [
        nodes.paragraph(text="word " * 400),
        *(nodes.math_block(text="x") for _ in range(10)),
        nodes.literal_block(text="x = 1\n\n" * 20),
    ]
    page += nodes.container("", nodes.paragraph(text="word " * 400), classes=["dropdown"])
    assert site_claims.minutes(page) == 7


def test_the_records_come_from_the_notebooks_and_a_problem_fails(tmp_path, capsys):
    make(tmp_path, PAGE)
    listed, root = tmp_path / "book/claims.toml", ["--root", str(tmp_path)]
    listed.write_text(LEDGER)
    notebooks.main(["--all", *root])
    capsys.readouterr()
    claims.main(root)
    assert capsys.readouterr().out == "1 claims: 1 check holds; 0 marked tests, 0 of them certificates\n"
    replace(listed, "tiny-claim", "small-claim")
    with pytest.raises(SystemExit, match="tiny-claim, check “the sum” in tiny: no such claim"):
        claims.main(root)
    listed.write_text(LEDGER.replace("status", "verdict"))
    with pytest.raises(SystemExit, match="tiny-claim: expected the keys id, place, page, paper, finding, status"):
        claims.main(root)


def test_the_book_s_ledger_holds_and_its_files_are_whole_and_unrounded(tmp_path):
    claims.main([])
    export.write(ROOT, tmp_path)
    data, schema = (json.loads((tmp_path / name).read_text()) for name in ("claims.json", "claims.schema.json"))
    jsonschema.validate(data, schema)
    lines = list(csv.DictReader((tmp_path / "claims.csv").read_text().splitlines()))
    by_page, marks = claims.read_records(ROOT), claims.read_marks(ROOT)
    for claim, told in zip(claims.read_claims(ROOT), data["claims"], strict=True):
        own = [line for line in lines if line["claim"] == claim.id]
        assert told["finding"] == claim.finding == own[0]["finding"]
        for record, check, line in zip(claim.records(by_page), told["checks"], own, strict=False):
            assert line["anchor"] == check["anchor"] == f"{claim.page}.html#{record.anchor}"
            assert check["measured"] == record.measured and line["measured"] == str(record.measured)
        kinds, found = Counter(line["kind"] for line in own if line["kind"]), marks.get(claim.id, [])
        assert kinds["check"] + kinds["control"] == len(told["checks"]) == len(claim.records(by_page))
        assert told["tests"] == [test._asdict() for test in found]
        margins = [check["margin"] for check in told["checks"] if check["margin"] is not None]
        assert told["worst_margin"] == min(margins, default=None), "the one nearest to the other verdict"
        assert kinds - Counter(check=kinds["check"], control=kinds["control"]) == Counter(test.kind for test in found)
    # The control: a claim without its verdict is no such file.
    del data["claims"][0]["status"]
    with pytest.raises(jsonschema.ValidationError, match="'status' is a required property"):
        jsonschema.validate(data, schema)
