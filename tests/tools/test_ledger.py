"""The ledger is made from checks and marked tests, and the tool names every place where
they disagree.
"""

import json
import re
import tomllib

import pytest
from tiny_book import ROOT, make, replace

from lsalib.book.claims import METADATA, Record
from tools import __main__ as tools
from tools import claims, ledger
from tools.claims import Entry
from tools.ledger import Marked, problems

CHECK = Record(
    id="tiny-claim",
    label="the sum",
    measured=4.01,
    relation="=",
    expected=4.0,
    tolerance=0.1,
    entries=1,
    kind="check",
    seeds=[0, 1],
    passed=True,
    anchor="claim-tiny-claim",
)
CONTROL = CHECK._replace(
    kind="control", label="a summand less", measured=12.0, anchor="claim-tiny-claim-2"
)
LEDGER = """
[[claim]]
id = "tiny-claim"
place = "P Theorem 1"
page = "tiny"
paper = "Two and two make four."
finding = "They do."
status = "sharpened"
"""
CLAIM = Entry(**tomllib.loads(LEDGER)["claim"][0])
NOT_RUN = CLAIM._replace(status=claims.NOT_RUN)
SUM = Marked("tests/test_sums.py", "test_the_sum", "Two numbers make a sum.")
TEST = {"tiny-claim": [SUM]}
BRUTE = {"tiny-claim": [SUM._replace(kind="brute force")]}
LABELS = {
    "thm-sum": ("tiny", "Theorem 1.1"),
    "eq-sum": ("tiny", "(1.1)"),
    "thm-far": ("llm", "Theorem 2.1"),
}
PROVED = CLAIM._replace(status="proved here", proof="thm-sum")
PAGE = f"""
# A tiny page

```{{code-cell}} ipython3
import json
from IPython.display import display

records = json.loads({json.dumps(json.dumps([CHECK._asdict()]))})
display({{"text/plain": "a row"}}, raw=True, metadata={{"{METADATA}": records}})
```
"""
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


NO_LABEL = "is no label of a theorem, proposition, lemma or corollary on the page tiny"
NO_TEST = (
    "tiny-claim: “proved here”, but no test with its mark is one of brute force, c"
)
NO_TEXT = "tiny-claim: expected a finding, and what the paper says"


def said(claim: Entry, records=(CHECK,), marks=None) -> list[str]:
    """The messages about a claim, the page's records, and marks."""
    return problems([claim], {"tiny": [*records]}, marks or {}, LABELS)


def test_every_disagreement_is_named_and_nothing_else():
    unknown, failed = CHECK._replace(id="thm9"), CONTROL._replace(passed=False)
    disagree = [
        (
            said(CLAIM, []),
            "tiny-claim: “sharpened”, but there is no check and no marked test",
        ),
        (said(CLAIM, [CONTROL]), "tiny-claim: “sharpened”, but there is no check"),
        (
            said(CLAIM, [CHECK, unknown]),
            "thm9, check “the sum” in tiny: no such claim",
        ),
        (
            said(CLAIM, marks={"thm9": [SUM]}),
            "thm9, mark in tests/test_sums.py::test_the_sum: no such",
        ),
        (said(NOT_RUN), "tiny-claim: “not run here yet”, but there is evidence"),
        (
            said(CLAIM._replace(status="true")),
            "tiny-claim: status “true”, expected one of: reproduced",
        ),
        (
            said(CLAIM, [CHECK, failed]),
            "control “a summand less” in tiny: did not pass",
        ),
        (said(CLAIM._replace(page="llm")), "in tiny: the ledger names the page llm"),
        (said(CLAIM._replace(paper="")), NO_TEXT),
        (said(CLAIM._replace(place="new")), NO_TEXT),
        (
            problems([CLAIM, CLAIM], {"tiny": [CHECK]}, {}, LABELS),
            "tiny-claim: 2 entries, expected one",
        ),
        (said(PROVED), NO_TEST),
        (said(PROVED, marks=TEST), NO_TEST),
    ]
    for proof in ("", "thm-sums", "eq-sum", "thm-far"):
        lines = said(PROVED._replace(proof=proof), marks=BRUTE)
        disagree.append((lines, f"proof = “{proof}” {NO_LABEL}"))
    for lines, problem in disagree:
        assert any(problem in line for line in lines), problem
    assert said(CLAIM, [CHECK, CONTROL]) == said(CLAIM, [], TEST) == []
    assert said(NOT_RUN, []) == said(PROVED, marks=BRUTE) == []


def test_marks_are_read_from_the_files_without_running_them(tmp_path):
    (tmp_path / "tests").mkdir()
    path = tmp_path / "tests/test_sums.py"
    path.write_text(SOURCE)
    certificate = Marked(
        "tests/test_sums.py", "test_of_no_words", "of no words", "certificate"
    )
    assert ledger.read_marks(tmp_path) == {
        "tiny-claim": [SUM, certificate],
        "other-claim": [SUM],
    }
    for wrong in ("claim", "claim()", "claim('tiny-claim', kind='hearsay')"):
        path.write_text(
            f"import pytest\n\n@pytest.mark.{wrong}\ndef test_the_sum():\n    pass\n"
        )
        with pytest.raises(
            SystemExit, match=r"tests/test_sums.py::test_the_sum: expected @pytest.mark"
        ):
            ledger.read_marks(tmp_path)


def test_the_records_come_from_the_notebooks_and_a_problem_fails(tmp_path, capsys):
    make(tmp_path, PAGE)
    listed, root = tmp_path / "book/claims.toml", f"--root={tmp_path}"
    listed.write_text(LEDGER)
    tools.main(["execute", root])
    tools.main(["ledger", root])
    said = "\n1 claims: 1 check holds; 0 marked tests, 0 of them certificates\n"
    assert capsys.readouterr().out.endswith(said)
    replace(listed, "tiny-claim", "small-claim")
    with pytest.raises(SystemExit, match="tiny-claim, check “the sum” in tiny: no su"):
        tools.main(["ledger", root])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("status", "verdict", "tiny-claim: no key “status”\n"),
        ("status", "verdict", "tiny-claim: unknown key “verdict”"),
        ('id = "tiny-claim"', 'name = "tiny"', "claim 1: no key “id”"),
        ('"tiny"', "7", "tiny-claim: “page” must be a text, got 7"),
        ("[[claim]]", "[[claims]]", "book/claims.toml has no [[claim]]"),
        ("[[claim]]", "[[claim]", "book/claims.toml: "),
    ],
)
def test_a_wrong_key_is_named_with_its_claim(tmp_path, old, new, said):
    make(tmp_path)
    listed = tmp_path / "book/claims.toml"
    listed.write_text(LEDGER)
    replace(listed, old, new)
    with pytest.raises(SystemExit, match=re.escape(said)):
        tools.main(["ledger", f"--root={tmp_path}"])


def test_the_book_s_ledger_holds():
    tools.main(["ledger", f"--root={ROOT}"])
