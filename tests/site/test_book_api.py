"""The API pages: every public name has one entry, with its signature and its source, and code in prose leads to it."""

import importlib
from collections import Counter
from functools import partial
from types import ModuleType

import book_checks as checks
import jax
import pytest
from browser import copy_project, run_build
from bs4 import BeautifulSoup
from tiny_book import ROOT

from tools.notebooks import pages
from tools.site import api as sphinx_api

# One process builds these pages, and none of the others does again.
pytestmark = pytest.mark.xdist_group("api")

# What a user imports; the last two are not imported by the first.
PACKAGES = ("lsalib", "lsalib.book", "lsalib.sts")
API = sorted(f"api/{md.stem}" for md in (ROOT / "book/api").glob("*.md"))
PROSE = "`theory.gd_risk`, `lsalib.theory.gd_risk()`, `results.parse`, `task.prior_mean`, `heads.md`"
UNKNOWN = ("theory.no_such_risk", "lsalib.theory.no_such_risk", "sts.results.pars", "results.pars")


def public(module: ModuleType) -> dict[str, object]:
    """What the module's __all__ offers, and that of the modules in it, by the name under which one finds it."""
    found = {}
    for name in module.__all__:
        full = f"{module.__name__}.{name}"
        value = getattr(module, name, None)
        value = importlib.import_module(full) if value is None else value
        found |= public(value) if isinstance(value, ModuleType) else {full: value}
    return found


@pytest.fixture(scope="module")
def names():
    return {name: value for package in PACKAGES for name, value in public(importlib.import_module(package)).items()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The API pages, and one whose prose names what is there and what is not: their folder, and what the build said."""
    project = copy_project(tmp_path_factory.mktemp("api"))
    sections = "".join(f"  - file: book/{page}\n" for page in ["reference", "large_sweeps", *API])
    (project / "_toc.yml").write_text(f"format: jb-book\nroot: book/names\nchapters:\n{sections}", encoding="utf-8")
    unknown = ", ".join(f"`{name}`" for name in UNKNOWN)
    (project / "book/names.md").write_text(f"# Names\n\n{PROSE}\n\n{unknown}\n", encoding="utf-8")
    done = run_build(project, project.parent)
    return project.parent / "_build/html", done


@pytest.fixture(scope="module")
def entries(built):
    """The API's entries; those of a class's own methods stand within its entry."""
    html, _ = built
    soups = [BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser") for page in checks.html_pages(html)]
    return [dt for soup in soups for dt in soup.select("dt.sig-object[id]") if not dt.find_parent("dd")]


def entry_defects(shown: list[str], names: dict[str, object]) -> list[str]:
    """Public things without their one entry, and entries of what is not public."""
    count = Counter(shown)
    things: dict[object, list[str]] = {}
    for name, value in names.items():  # a class may be offered by two modules; one entry is enough
        things.setdefault(id(value) if callable(value) else name, []).append(name)
    wrong = {" or ".join(same): sum(count[name] for name in same) for same in things.values()}
    found = [f"{same}: {entries} entries, expected one" for same, entries in wrong.items() if entries != 1]
    return found + [f"{name}: an entry, but not public" for name in count if name not in names]


def test_every_public_name_has_one_entry(entries, names):
    shown = [dt["id"] for dt in entries]
    assert entry_defects(shown, names) == []
    assert entry_defects(shown[1:], names) == [f"{shown[0]}: 0 entries, expected one"]
    assert entry_defects([*shown, shown[0]], names) == [f"{shown[0]}: 2 entries, expected one"]
    assert entry_defects([*shown, "lsalib.theory.secret"], names) == ["lsalib.theory.secret: an entry, but not public"]


def test_every_function_and_class_has_its_source_and_its_text(entries, names):
    described = [
        dt for dt in entries if callable(names.get(dt["id"])) and dt.find_parent("dl")["class"] != ["py", "data"]
    ]
    assert len(described) > 80
    assert [dt["id"] for dt in described if not dt.select_one("a[href*='_modules/lsalib/'] .viewcode-link")] == []
    assert [dt["id"] for dt in entries if not dt.find_next_sibling("dd").text.strip()] == []


def test_a_name_that_does_not_exist_fails_the_build(built):
    _, done = built
    warnings = [line for line in done.stderr.splitlines() if "WARNING" in line or "ERROR" in line]
    assert done.returncode != 0
    assert [name for name in UNKNOWN if not any(f"«{name}» names none" in line for line in warnings)] == []
    assert len(warnings) == len(UNKNOWN), warnings  # the API pages themselves are sound


def test_code_in_prose_leads_to_what_it_names(built, names):
    html, _ = built
    soup = BeautifulSoup((html / "book/names.html").read_text(encoding="utf-8"), "html.parser")
    leads = {code.text: code.find_parent("a") for code in soup.select("article code")}
    assert {name: link["href"] for name, link in leads.items() if link} == {
        "theory.gd_risk": "api/theory.html#lsalib.theory.gd_risk",
        "lsalib.theory.gd_risk()": "api/theory.html#lsalib.theory.gd_risk",
        "results.parse": "api/sts.html#lsalib.sts.results.parse",
    }
    assert leads.keys() >= {"task.prior_mean", "heads.md", *UNKNOWN}
    assert checks.names_without_links(html, names) == []
    assert checks.broken_links(html) == []


def test_code_that_leads_nowhere_is_seen(tmp_path, names):
    code = "<code>theory.gd_risk</code> <code>task.prior_mean</code> <a href='#'><code>theory.gd_risk</code></a>"
    (tmp_path / "page.html").write_text(f"<article>{code}</article>", encoding="utf-8")
    assert checks.names_without_links(tmp_path, names) == ["page.html: no link behind theory.gd_risk"]


def test_the_pages_show_no_path_of_the_machine_and_no_list_for_a_letter(built):
    html, _ = built
    for page in API:
        text = (html / f"book/{page}.html").read_text(encoding="utf-8")
        assert str(html.parents[1]) not in text, page
        # «dim: d.» would be the fourth point of a list.
        assert BeautifulSoup(text, "html.parser").select("dl.py .field-list ol") == [], page


@pytest.mark.parametrize("page", API)
def test_the_pages_type_no_number_by_hand(page):
    assert pages.text_defects(pages.Page(ROOT, page)) == []


class Own:
    """A class of the package, as far as its module's name goes."""

    def method(self, other: "Own", size: float = 1e-3) -> "Own": ...


def plain(x: jax.Array, *, dtype=jax.numpy.float32, power: int = 2**15) -> None: ...


wrapped = {
    "jit": jax.jit(plain),
    "partial jit": partial(jax.jit, static_argnames=("dtype", "power"))(plain),
    "custom_vjp": jax.custom_vjp(plain, nondiff_argnames=("dtype", "power")),
    "custom_jvp": jax.custom_jvp(plain),
}


def signature(what: str, value: object) -> tuple[str, str | None]:
    return sphinx_api.written_signature(None, what, "", value, None, "", None)


@pytest.mark.parametrize("kind", wrapped)
def test_a_wrapped_function_has_the_signature_that_is_written(kind):
    expected = "(x: jax.Array, *, dtype=jax.numpy.float32, power: int=2 ** 15)", "None"
    assert signature("function", wrapped[kind]) == expected


def test_own_classes_are_shown_by_their_last_name(monkeypatch):
    monkeypatch.setattr(Own, "__module__", "lsalib.somewhere")
    args, result = signature("method", Own.method)
    assert (args, result) == ("(other: 'Own', size: float=0.001)", "~lsalib.somewhere.Own")
