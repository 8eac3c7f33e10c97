"""The ledger: made from the checks of the notebooks, and quick to say where the two disagree."""

import json

import pytest
from tiny_book import HEADER, ROOT, make, replace

from tools import claims_page, notebooks
from tools.claims_page import Claim, Record, problems

CLAIM = Claim("thm1-saturation", "P Thm 1", "heads", "The risk stops falling at $d + 1$ heads.", "sharpened")
LABEL, SEEN = (
    "risk at d heads",
    {
        "tolerance": 0.001,
        "relation": "=",
        "entries": 1,
        "seeds": [0, 1],
        "passed": True,
        "anchor": "claim-thm1-saturation",
    },
)
CHECK = Record("heads", "thm1-saturation", LABEL, measured=5.238, expected=5.2381, kind="check", **SEEN)
CONTROL = CHECK._replace(kind="control", label="one head fewer", measured=6.1, anchor="claim-thm1-saturation-2")

LEDGER = """\
[[claim]]
id = "tiny-claim"
place = "P Thm 1"
page = "tiny"
statement = "Two and two make four."
status = "reproduced"

[[claim]]
id = "big-claim"
place = "P Thm 2"
page = "huge"
statement = "Later."
status = "not run here yet"
"""

RECORD = {
    **{"id": "tiny-claim", "label": "the sum", "measured": 4.0, "expected": 4.0, "relation": "=", "tolerance": 0.1},
    **{"kind": "check", "seeds": [7], "entries": 1, "passed": True, "anchor": "claim-tiny-claim"},
}

PAGE = f"""
# A tiny page

```{{code-cell}} ipython3
import json
from IPython.display import display

records = json.loads({json.dumps(json.dumps([RECORD]))})
display({{"text/plain": "a row"}}, raw=True, metadata={{"{claims_page.METADATA}": records}})
```
"""


def test_ledger_and_checks_agree():
    assert problems([CLAIM], [CHECK, CONTROL]) == []
    assert problems([CLAIM._replace(status="not run here yet")], []) == []


@pytest.mark.parametrize(
    ("claims", "records", "problem"),
    [
        ([CLAIM], [], "thm1-saturation: «sharpened», but no check runs"),
        ([CLAIM], [CONTROL], "thm1-saturation: «sharpened», but no check runs"),
        ([CLAIM], [CHECK, CHECK._replace(id="thm9")], "thm9, check «risk at d heads» in heads: no such claim"),
        ([CLAIM._replace(status="not run here yet")], [CHECK], "thm1-saturation: «not run here yet», but a check runs"),
        ([CLAIM, CLAIM], [CHECK], "thm1-saturation: 2 entries, expected one"),
        ([CLAIM._replace(status="true")], [CHECK], "thm1-saturation: status «true», expected one of: reproduced"),
        ([CLAIM], [CHECK, CONTROL._replace(passed=False)], "control «one head fewer» in heads: did not pass"),
        ([CLAIM._replace(page="llm")], [CHECK], "in heads: the ledger names the page llm"),
    ],
)
def test_a_disagreement_is_named(claims, records, problem):
    assert any(problem in found for found in problems(claims, records))


def test_a_card_says_everything():
    text = claims_page.card(CLAIM, [CHECK, CONTROL])
    assert text.startswith(":::{container} claim claim-sharpened\n:name: thm1-saturation\n")
    badge = '<span class="claim-status claim-sharpened">sharpened</span>'
    assert all(part in text for part in (badge, "**P Thm 1**", CLAIM.statement, "seeds 0, 1"))
    assert "- risk at d heads: `5.238` against `5.2381`, tolerance `0.001`, seeds 0, 1" in text
    assert "- control: one head fewer: `6.1` against" in text
    assert 'href="heads.html#claim-thm1-saturation-2"' in text
    assert claims_page.slug("refuted as stated") == "refuted-as-stated"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("claims")
    make(root, PAGE)
    (root / "book/claims.toml").write_text(LEDGER)
    notebooks.main(["--all", "--root", str(root)])
    claims_page.main(["--root", str(root)])
    return root


def check(root):
    claims_page.main(["--check", "--root", str(root)])


def test_the_page_comes_from_the_notebooks(root):
    check(root)
    notebooks.main(["--check", "--root", str(root)])
    page = (root / "book/claims.md").read_text()
    assert "## A tiny page" in page and "## huge" in page
    assert (
        '- the sum: `4` against `4`, tolerance `0.1`, seeds 7 (<a href="tiny.html#claim-tiny-claim">cell</a>)' in page
    )
    summary = (root / "book/_claims_summary.md").read_text()
    assert 'reproduced</span> | 1 | <a href="claims.html#tiny-claim">tiny-claim</a> |' in summary
    assert "not run here yet</span> | 1 | listed in the ledger |" in summary
    assert "sharpened" not in summary


@pytest.mark.parametrize("name", ["claims.md", "_claims_summary.md"])
def test_a_stale_page_is_seen(name, root):
    path = root / "book" / name
    fresh = path.read_text()
    replace(path, "reproduced", "corrected")
    with pytest.raises(SystemExit, match=f"book/{name}: not what the notebooks say now"):
        check(root)
    path.write_text(fresh)
    check(root)


def test_a_problem_fails_the_check_although_the_page_is_fresh(root):
    ledger = root / "book/claims.toml"
    replace(ledger, "tiny-claim", "small-claim")
    claims_page.main(["--root", str(root)])
    with pytest.raises(SystemExit, match="tiny-claim, check «the sum» in tiny: no such claim"):
        check(root)
    ledger.write_text(LEDGER.replace("status", "verdict", 1))
    with pytest.raises(SystemExit, match="tiny-claim: expected the keys id, place, page, statement, status, got"):
        check(root)
    ledger.write_text(LEDGER)
    claims_page.main(["--root", str(root)])
    check(root)


def test_the_book_s_own_ledger_holds():
    claims_page.check(ROOT)


def test_a_page_without_records_has_none(tmp_path):
    make(tmp_path)
    (tmp_path / "book/tiny.md").write_text(HEADER + "\n# No notebook yet\n")
    assert claims_page.read_records(tmp_path) == []
