"""The ledger: made from the checks of the notebooks, and quick to say where the two disagree."""

import csv
import json
import math

import jsonschema
import pytest
from docutils import nodes
from docutils.utils import new_document
from tiny_book import HEADER, ROOT, make, replace

from lsalib.book.records import METADATA
from tools.ledger import claims
from tools.ledger import export as ledger
from tools.ledger.claims import Claim, Record, problems
from tools.notebooks import execute as notebooks
from tools.notebooks import pages
from tools.site import claims as sphinx_claims
from tools.site import ledger as sphinx_ledger

SAID = "The risk stops falling at $d + 1$ heads."
CLAIM = Claim("thm1-saturation", "P Thm 1", "heads", SAID, "sharpened", ("closed form", "samples"))
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
roads = ["closed form"]

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
display({{"text/plain": "a row"}}, raw=True, metadata={{"{METADATA}": records}})
```
"""


def test_ledger_and_checks_agree():
    assert problems([CLAIM], [CHECK, CONTROL]) == []
    assert problems([CLAIM._replace(status="not run here yet")], []) == []


@pytest.mark.parametrize(
    ("entries", "records", "problem"),
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
def test_a_disagreement_is_named(entries, records, problem):
    assert any(problem in found for found in problems(entries, records))


def test_a_row_says_everything():
    text = sphinx_ledger.opening(CLAIM, [CHECK, CONTROL]) + sphinx_ledger.closing(CLAIM, [CHECK, CONTROL])
    assert text.startswith('<tbody id="thm1-saturation" data-verdict="sharpened"')
    badge = '<span class="claim-status claim-sharpened">sharpened</span>'
    assert all(part in text for part in (badge, "P Thm 1", "1 check and 1 control hold", "<td>0, 1</td>"))
    assert '<td class="claim-number">5.238</td>' in text and '<td class="claim-number">5.2381</td>' in text
    assert 'href="heads.html#claim-thm1-saturation-2"' in text and 'href="heads.html"' in text
    # The check's margin, .001 over .0001, is nearer to the other verdict than the control's.
    assert "<td>10 ×</td>" in text


def test_a_row_says_what_stands_behind_the_claim():
    assert '<span class="ledger-place">by closed form, samples</span>' in sphinx_ledger.opening(CLAIM, [CHECK])
    assert 'ledger-place">by' not in sphinx_ledger.opening(CLAIM._replace(roads=()), [CHECK])


@pytest.fixture
def shifted(tmp_path):
    """A book whose tests derive one claim, and whose shifts moved a check of another."""
    make(tmp_path).rename(tmp_path / "book/heads.md")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/library/certified.toml").write_text('[test_x]\nderived = "All."\n')
    (tmp_path / claims.SHIFTS).parent.mkdir(parents=True)
    checks = [{"id": "thm1-saturation", "drawn": drawn} for drawn in (False, True)] + [
        {"id": "derived", "drawn": False}
    ]
    stored = {"heads": {"code": pages.digest(pages.Page(tmp_path, "heads")), "checks": checks}}
    (tmp_path / claims.SHIFTS).write_text(json.dumps({"pages": stored}))
    return tmp_path


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, None),
        ({"roads": ["closed form"]}, "thm1-saturation: the road «samples» is missing"),
        ({"roads": ["samples", "certificate"]}, "thm1-saturation: the road «certificate» is not there"),
        ({"id": "derived", "roads": ["closed form", "certificate"]}, None),
        ({"id": "derived", "roads": ["closed form"]}, "derived: the road «certificate» is missing"),
        ({"id": "derived", "roads": ["samples", "certificate"]}, "derived: the road «samples» is not there"),
        # Of a page whose seeds were not shifted nobody knows.
        ({"page": "llm", "roads": ["samples"]}, None),
        ({"page": "llm", "roads": ["stored runs"]}, None),
        ({"roads": []}, "thm1-saturation: roads none; expected some of these, in this order: closed form,"),
        ({"status": "not run here yet", "roads": []}, None),
        ({"roads": ["samples", "closed form"]}, "thm1-saturation: roads samples, closed form; expected some of these"),
        ({"roads": ["samples", "hearsay"]}, "thm1-saturation: roads samples, hearsay; expected some of these"),
    ],
)
def test_roads_are_what_the_tests_derive_and_the_shifts_found(shifted, change, problem):
    found = claims.road_problems(shifted, [CLAIM._replace(**change)])
    assert found == [] if problem is None else found[0].startswith(problem)


def test_shifts_of_another_code_say_nothing_about_the_roads(shifted):
    claim = CLAIM._replace(roads=("closed form",))
    assert claims.road_problems(shifted, [claim]) != []
    replace(shifted / "book/heads.md", "2 + 2", "2 + 3")
    assert claims.road_problems(shifted, [claim]) == []


def test_the_roads_are_a_table_of_those_that_rest_on_the_same():
    rows = [(("closed form", "samples"), ["a", "b"]), (("certificate",), ["c"])]
    page = sphinx_ledger.roads_html(rows)
    assert page.count("<tr>") == 3 and page.count("✓") == 3
    assert "<td><strong>2</strong>: a, b</td>" in page
    assert '<th scope="col">others&#x27; numbers</th>' in page


def test_the_worst_margin_is_the_one_nearest_to_the_other_verdict():
    """A tenth of the tolerance off, as many as it allows beside it, and none at all."""
    assert ledger.worst_margin([CONTROL, CHECK]) == ledger.worst_margin([CHECK, CONTROL]) == pytest.approx(10)
    assert ledger.worst_margin([CONTROL]) > 100 and ledger.worst_margin([]) == math.inf


def test_a_page_takes_its_words_and_formulas_to_read():
    """400 words at 200 a minute, ten formulas at six seconds each; what is folded takes none."""
    page = new_document("page")
    page += [nodes.paragraph(text="word " * 400), *(nodes.math_block(text="x") for _ in range(10))]
    assert sphinx_claims.minutes(page) == 3
    page += nodes.container("", nodes.paragraph(text="word " * 400), classes=["dropdown"])
    assert sphinx_claims.minutes(page) == 3


def test_a_certified_claim_says_so_beside_its_verdict(monkeypatch):
    words, law = "algebra checked for all d and C", CLAIM._replace(id="kurtosis-law")
    row = sphinx_ledger.closing(law, [])
    assert f">{words}</span></td>" in row and 'title="Step, risk and gap for independent coordinates' in row
    assert (
        "(tests/library/test_certificates_steps.py)" in row
        and "<a href=" not in row.split("ledger-place")[1].split("</td>")[0]
    )
    # The control: no test derives this one.
    assert words not in sphinx_ledger.closing(CLAIM, [])
    monkeypatch.setattr(sphinx_ledger.install_cell, "address", lambda root: "https://github.com/owner/name")
    way = "https://github.com/owner/name/blob/main/tests/library/test_certificates_steps.py"
    assert f'<a href="{way}">{words}</a>' in sphinx_ledger.closing(law, [])


def test_a_certified_claim_s_badge_says_so_on_its_page():
    certified, plain = sphinx_claims.linked_badge(CLAIM, "The step."), sphinx_claims.linked_badge(CLAIM)
    assert "∀ <i>d</i>, <i>C</i>" in certified and "∀" not in plain
    assert 'aria-label="sharpened: thm1-saturation, algebra checked for all d and C"' in certified


def test_a_box_says_once_whose_the_places_are():
    assert sphinx_claims.spelt(["P Fig. 1", "P §4.2"]) == ["The paper’s Fig. 1", "§4.2"]
    assert sphinx_claims.spelt(["S"]) == ["The summary’s claims"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("claims")
    make(root, PAGE)
    (root / "book/claims.toml").write_text(LEDGER)
    notebooks.main(["--all", "--root", str(root)])
    return root


def test_the_records_come_from_the_notebooks(root, capsys):
    claims.main(["--root", str(root)])
    assert capsys.readouterr().out == "2 claims: 1 check holds\n"
    notebooks.main(["--check", "--root", str(root)])


def test_a_problem_fails(root):
    listed = root / "book/claims.toml"
    replace(listed, "tiny-claim", "small-claim")
    with pytest.raises(SystemExit, match="tiny-claim, check «the sum» in tiny: no such claim"):
        claims.main(["--root", str(root)])
    listed.write_text(LEDGER.replace("status", "verdict", 1))
    with pytest.raises(
        SystemExit, match="tiny-claim: expected the keys id, place, page, statement, status, roads, got"
    ):
        claims.main(["--root", str(root)])
    listed.write_text(LEDGER)
    claims.main(["--root", str(root)])


def test_the_book_s_own_ledger_holds():
    claims.main([])


def test_what_can_be_downloaded_is_whole_and_unrounded(tmp_path):
    ledger.write(ROOT, tmp_path)
    data, schema = (json.loads((tmp_path / name).read_text()) for name in ("claims.json", "claims.schema.json"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(data, schema)
    records = claims.read_records(ROOT)
    assert sum(len(claim["checks"]) for claim in data["claims"]) == len(records)
    lines = list(csv.DictReader((tmp_path / "claims.csv").read_text().splitlines()))
    by_claim = [r for claim in claims.read_claims(ROOT) for r in records if r.id == claim.id]
    told = [(claim["id"], check) for claim in data["claims"] for check in claim["checks"]]
    for record, line, (name, check) in zip(by_claim, lines, told, strict=True):
        assert line["claim"] == name == record.id
        assert check["anchor"] == line["anchor"] == f"{record.page}.html#{record.anchor}"
        for part in ("kind", "label", "relation", "measured", "expected", "tolerance", "entries"):
            told_value = getattr(record, part)
            assert check[part] == told_value and type(told_value)(line[part]) == told_value, part
        assert check["seeds"] == list(map(int, line["seeds"].split())) == record.seeds
    # The control: a claim without its verdict is no such file.
    del data["claims"][0]["status"]
    with pytest.raises(jsonschema.ValidationError, match="'status' is a required property"):
        jsonschema.validate(data, schema)


def test_a_run_is_recorded(root):
    (run,) = ledger.runs(root).values()
    assert set(run) == {"date", "python", "jax", "jaxlib", "numpy", "optax", "machine"}


def test_a_page_without_records_has_none(tmp_path):
    make(tmp_path)
    (tmp_path / "book/tiny.md").write_text(HEADER + "\n# No notebook yet\n")
    assert claims.read_records(tmp_path) == []
