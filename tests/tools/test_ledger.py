"""The ledger is made from the checks of the notebooks, and the tool names every place where the two disagree."""

import csv
import json
import math

import jsonschema
import pytest
from docutils import nodes
from docutils.utils import new_document
from tiny_book import HEADER, ROOT, make, replace

from lsalib.book.records import METADATA, Record
from tools.ledger import claims, export
from tools.ledger.claims import Claim, problems, road_problems
from tools.notebooks import execute as notebooks
from tools.site import claims as site_claims
from tools.site import ledger as site_ledger

RECORD = {
    "id": "tiny-claim", "label": "the sum", "measured": 4.01, "expected": 4.0, "relation": "=", "tolerance": 0.1,
    "kind": "check", "seeds": [0, 1], "entries": 1, "passed": True, "anchor": "claim-tiny-claim",
}  # fmt: skip
CHECK = Record(**RECORD)
CONTROL = CHECK._replace(kind="control", label="a summand less", measured=12.0, anchor="claim-tiny-claim-2")
CLAIM = Claim("tiny-claim", "P Thm 1", "tiny", "Two and two make four.", "sharpened", ("closed form", "samples"))
NOT_RUN = CLAIM._replace(status=claims.NOT_RUN)
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


@pytest.mark.parametrize(
    ("entries", "records", "problem"),
    [
        ([CLAIM], [CHECK, CONTROL], None),
        ([NOT_RUN], [], None),
        ([CLAIM], [], "tiny-claim: «sharpened», but no check runs"),
        ([CLAIM], [CONTROL], "tiny-claim: «sharpened», but no check runs"),
        ([CLAIM], [CHECK, CHECK._replace(id="thm9")], "thm9, check «the sum» in tiny: no such claim"),
        ([NOT_RUN], [CHECK], "tiny-claim: «not run here yet», but a check runs"),
        ([CLAIM, CLAIM], [CHECK], "tiny-claim: 2 entries, expected one"),
        ([CLAIM._replace(status="true")], [CHECK], "tiny-claim: status «true», expected one of: reproduced"),
        ([CLAIM], [CHECK, CONTROL._replace(passed=False)], "control «a summand less» in tiny: did not pass"),
        ([CLAIM._replace(page="llm")], [CHECK], "in tiny: the ledger names the page llm"),
    ],
)
def test_a_disagreement_is_named(entries, records, problem):
    found = problems(entries, {"tiny": records})
    assert found == [] if problem is None else any(problem in line for line in found)


@pytest.mark.parametrize(
    ("change", "seeds", "problem"),
    [
        ({}, [0, 1], None),
        ({"roads": ("closed form", "stored runs")}, [0, 1], None),
        ({"roads": ("closed form",)}, [], None),
        ({"roads": ("closed form",)}, [0], "a check has seeds, but the roads name neither samples nor stored runs"),
        ({}, [], "the road «samples», but no check names its seeds"),
        ({"roads": ("samples", "certificate")}, [0], "the road «certificate» is not there"),
        ({"id": "derived", "roads": ("closed form",)}, [], "the road «certificate» is missing"),
        ({"roads": ()}, [], "roads none; expected some of these, in this order: closed form,"),
        ({"roads": (), "status": claims.NOT_RUN}, [], None),
        ({"roads": ("samples", "closed form")}, [0], "roads samples, closed form; expected some of these"),
        ({"roads": ("samples", "hearsay")}, [0], "roads samples, hearsay; expected some of these"),
    ],
)
def test_roads_are_what_the_tests_derive_and_the_checks_sample(change, seeds, problem):
    claim = CLAIM._replace(**change)
    found = road_problems([claim], {"tiny": [CHECK._replace(id=claim.id, seeds=seeds)]}, {"derived"})
    assert found == [] if problem is None else found[0].startswith(f"{claim.id}: {problem}")


def test_a_row_says_everything():
    text = site_ledger.opening(CLAIM, [CHECK, CONTROL]) + site_ledger.closing(CLAIM, [CHECK, CONTROL])
    assert text.startswith('<tbody id="tiny-claim" data-verdict="sharpened"')
    for part in (
        'claim-sharpened">sharpened</span>',
        "P Thm 1",
        "by closed form, samples",
        "1 check and 1 control hold",
    ):
        assert part in text
    assert '<td class="claim-number">4.01</td>' in text and "<td>0, 1</td>" in text
    assert 'href="tiny.html#claim-tiny-claim-2"' in text
    # The check's margin, 0.1 over 0.01, is nearer to the other verdict than the control's 80.
    assert "<td>10 ×</td>" in text and 'data-margin="10.0" data-checks="2"' in text
    assert export.worst_margin([CONTROL, CHECK]) == pytest.approx(10) and export.worst_margin([]) == math.inf
    assert 'ledger-place">by' not in site_ledger.opening(CLAIM._replace(roads=()), [CHECK])


def test_a_certified_claim_says_so(monkeypatch):
    words, law = site_claims.CERTIFIED, CLAIM._replace(id="kurtosis-law")
    file = claims.read_certificates(ROOT)["kurtosis-law"][1]
    assert words in site_ledger.closing(law, []) and words not in site_ledger.closing(CLAIM, [])
    monkeypatch.setattr(site_ledger.install_cell, "address", lambda root: "https://github.com/owner/name")
    assert f'<a href="https://github.com/owner/name/blob/main/{file}">{words}</a>' in site_ledger.closing(law, [])
    certified, plain = site_claims.linked_badge(CLAIM, "The step."), site_claims.linked_badge(CLAIM)
    assert "∀ <i>d</i>, <i>C</i>" in certified and f'tiny-claim, {words}"' in certified and "∀" not in plain


def test_a_box_says_how_long_its_page_takes_and_once_whose_the_places_are():
    """400 words at 200 a minute, ten formulas at six seconds each; folded text takes none."""
    page = new_document("page")
    page += [nodes.paragraph(text="word " * 400), *(nodes.math_block(text="x") for _ in range(10))]
    page += nodes.container("", nodes.paragraph(text="word " * 400), classes=["dropdown"])
    assert site_claims.minutes(page) == 3
    assert site_claims.spelt(["P Fig. 1", "P §4.2"]) == ["The paper’s Fig. 1", "§4.2"]


def test_the_records_come_from_the_notebooks_and_a_problem_fails(tmp_path, capsys):
    make(tmp_path, PAGE)
    listed, root = tmp_path / "book/claims.toml", ["--root", str(tmp_path)]
    listed.write_text(LEDGER)
    (tmp_path / "book/text.md").write_text("# No notebook\n")
    notebooks.main(["--all", *root])
    capsys.readouterr()
    claims.main(root)
    assert capsys.readouterr().out == "1 claims: 1 check holds\n"
    (run,) = export.runs(tmp_path).values()
    assert set(run) >= {"date", "python", "jax", "machine"}
    replace(listed, "tiny-claim", "small-claim")
    with pytest.raises(SystemExit, match="tiny-claim, check «the sum» in tiny: no such claim"):
        claims.main(root)
    listed.write_text(LEDGER.replace("status", "verdict"))
    with pytest.raises(
        SystemExit, match="tiny-claim: expected the keys id, place, page, statement, status, roads, got"
    ):
        claims.main(root)
    (tmp_path / "book/tiny.ipynb").unlink()
    (tmp_path / "book/tiny.md").write_text(HEADER + "\n# No notebook yet\n")
    assert claims.read_records(tmp_path) == {"tiny": []}


def test_the_book_s_ledger_holds_and_its_files_are_whole_and_unrounded(tmp_path):
    claims.main([])
    export.write(ROOT, tmp_path)
    data, schema = (json.loads((tmp_path / name).read_text()) for name in ("claims.json", "claims.schema.json"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(data, schema)
    lines, by_page = csv.DictReader((tmp_path / "claims.csv").read_text().splitlines()), claims.read_records(ROOT)
    assert sum(map(len, by_page.values())) == sum(len(claim["checks"]) for claim in data["claims"]) > 100
    for claim, told in zip(claims.read_claims(ROOT), data["claims"], strict=True):
        assert told["id"] == claim.id and told["roads"] == list(claim.roads)
        for record, check in zip(claim.records(by_page), told["checks"], strict=True):
            line, own = next(lines), record._asdict()
            assert (
                line["claim"] == record.id and line["anchor"] == check["anchor"] == f"{claim.page}.html#{record.anchor}"
            )
            assert check["margin"] == (record.margin if math.isfinite(record.margin) else None)
            for part in set(check) - {"anchor", "margin"}:
                assert check[part] == own[part], part
                assert line[part] == (" ".join(map(str, own[part])) if part == "seeds" else str(own[part])), part
    # The control: a claim without its verdict is no such file.
    del data["claims"][0]["status"]
    with pytest.raises(jsonschema.ValidationError, match="'status' is a required property"):
        jsonschema.validate(data, schema)
