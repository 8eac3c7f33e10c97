"""The ledger is made from checks and marked tests, and the tool names every place where
they disagree.
"""

import json

import pytest
from tiny_book import ROOT, make, replace

from lsalib.book.claims import METADATA, Record
from tools import __main__ as tools
from tools import claims, ledger
from tools.claims import Entry
from tools.ledger import Marked, problems

RECORD = {
    "id": "tiny-claim",
    "label": "the sum",
    "measured": 4.01,
    "expected": 4.0,
    "relation": "=",
    "tolerance": 0.1,
    "kind": "check",
    "seeds": [0, 1],
    "entries": 1,
    "passed": True,
    "anchor": "claim-tiny-claim",
}
CHECK = Record(**RECORD)
CONTROL = CHECK._replace(
    kind="control", label="a summand less", measured=12.0, anchor="claim-tiny-claim-2"
)
CLAIM = Entry(
    "tiny-claim",
    "P Theorem 1",
    "tiny",
    "Two and two make four.",
    "They do.",
    "sharpened",
)
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

records = json.loads({json.dumps(json.dumps([RECORD]))})
display({{"text/plain": "a row"}}, raw=True, metadata={{"{METADATA}": records}})
```
"""
LEDGER = "\n".join(
    [
        "[[claim]]",
        *(f"{key} = {json.dumps(value)}" for key, value in CLAIM._asdict().items()),
        "",
    ]
)
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
    (
        [CLAIM],
        [],
        {},
        "tiny-claim: “sharpened”, but there is no check and no marked test",
    ),
    ([CLAIM], [CONTROL], {}, "tiny-claim: “sharpened”, but there is no check"),
    (
        [CLAIM],
        [CHECK, CHECK._replace(id="thm9")],
        {},
        "thm9, check “the sum” in tiny: no such claim",
    ),
    (
        [CLAIM],
        [CHECK],
        {"thm9": [SUM]},
        "thm9, mark in tests/test_sums.py::test_the_sum: no such",
    ),
    ([NOT_RUN], [CHECK], {}, "tiny-claim: “not run here yet”, but there is evidence"),
    ([CLAIM, CLAIM], [CHECK], {}, "tiny-claim: 2 entries, expected one"),
    (
        [CLAIM._replace(status="true")],
        [CHECK],
        {},
        "tiny-claim: status “true”, expected one of: reproduced",
    ),
    (
        [CLAIM],
        [CHECK, CONTROL._replace(passed=False)],
        {},
        "control “a summand less” in tiny: did not pass",
    ),
    (
        [CLAIM._replace(page="llm")],
        [CHECK],
        {},
        "in tiny: the ledger names the page llm",
    ),
    (
        [CLAIM._replace(paper="")],
        [CHECK],
        {},
        "tiny-claim: expected a finding, and what the paper says",
    ),
    (
        [CLAIM._replace(place="new")],
        [CHECK],
        {},
        "tiny-claim: expected a finding, and what the paper says",
    ),
]
AGREE = [
    ([CLAIM], [CHECK, CONTROL], {}),
    ([CLAIM], [], TEST),
    ([NOT_RUN], [], {}),
    ([PROVED], [CHECK], BRUTE),
]
NO_LABEL = "is no label of a theorem, proposition, lemma or corollary on the page tiny"
DISAGREE += [
    ([PROVED._replace(proof=proof)], [CHECK], BRUTE, f"proof = “{proof}” {NO_LABEL}")
    for proof in ("", "thm-sums", "eq-sum", "thm-far")
]
DISAGREE += [
    (
        [PROVED],
        [CHECK],
        marks,
        "tiny-claim: “proved here”, but no test with its mark is one of brute force, c",
    )
    for marks in ({}, TEST)
]


def test_every_disagreement_is_named_and_nothing_else():
    for entries, records, marks, problem in DISAGREE:
        assert any(
            problem in line
            for line in problems(entries, {"tiny": records}, marks, LABELS)
        ), problem
    assert [
        problems(entries, {"tiny": records}, marks, LABELS)
        for entries, records, marks in AGREE
    ] == [[]] * 4


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
    listed, root = tmp_path / "book/claims.toml", ["--root", str(tmp_path)]
    listed.write_text(LEDGER)
    tools.main(["execute", *root])
    capsys.readouterr()
    tools.main(["ledger", *root])
    assert (
        capsys.readouterr().out
        == "1 claims: 1 check holds; 0 marked tests, 0 of them certificates\n"
    )
    replace(listed, "tiny-claim", "small-claim")
    with pytest.raises(
        SystemExit, match="tiny-claim, check “the sum” in tiny: no such claim"
    ):
        tools.main(["ledger", *root])
    listed.write_text(LEDGER.replace("[[claim]]", "[[claim]"))
    with pytest.raises(SystemExit, match=r"book/claims.toml: .*line 1"):
        tools.main(["ledger", *root])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("status", "verdict", "tiny-claim: no key “status”\n"),
        ("status", "verdict", "tiny-claim: unknown key “verdict”"),
        ('id = "tiny-claim"', 'name = "tiny"', "claim 1: no key “id”"),
        ('"tiny"', "7", "tiny-claim: “page” must be a text, got 7"),
        ("[[claim]]", "[[claims]]", "book/claims.toml has no [[claim]]"),
    ],
)
def test_a_wrong_key_is_named_with_its_claim(tmp_path, old, new, said):
    (tmp_path / "book").mkdir()
    assert old in LEDGER
    (tmp_path / "book/claims.toml").write_text(LEDGER.replace(old, new))
    with pytest.raises(SystemExit) as stop:
        claims.read_claims(tmp_path)
    assert said in str(stop.value)


def test_the_book_s_ledger_holds():
    tools.main(["ledger", f"--root={ROOT}"])
