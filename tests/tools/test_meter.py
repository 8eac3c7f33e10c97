"""What programs cost, counted; and the budget that a page must keep."""

from importlib import metadata

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_book import make

from tools.notebooks import budget, meter, pages, profile
from tools.notebooks import execute as notebooks

JAX = """
```{code-cell} ipython3
import jax.numpy as jnp

jnp.arange(3.0).sum().item()
```
"""

spans = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda pair: (min(pair), max(pair))))


@given(spans)
def test_nested_and_overlapping_spans_count_once(spans):
    seconds = {second for start, end in spans for second in range(start, end)}
    assert meter.covered(spans) == len(seconds)


def test_a_program_is_counted_when_it_is_compiled():
    x, watch, double = np.arange(17.0, dtype=np.float32), meter.Meter(), jax.jit(lambda x: 2 * x)
    double(x)
    first = watch.read()
    assert (first.programs + first.cached, list(first.names)) == (1, ["jit(<lambda>)"])
    assert 0 < first.tracing + first.lowering + first.compiling < first.wall
    double(x + 1)
    assert watch.read().programs == 0
    # The control: another shape is another program.
    double(x[:5])
    again = watch.read()
    assert again.programs + again.cached == 1


def test_an_eager_operation_is_a_program_for_each_shape():
    arrays = [jnp.asarray(np.ones(n, np.float32)) for n in (23, 29)]
    watch = meter.Meter()
    for x in (*arrays, *arrays):
        x.sum()
    counted = watch.read()
    assert counted.programs + counted.cached == 2


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The tiny book with a page that compiles a few programs."""
    root = tmp_path_factory.mktemp("metered")
    make(root, "\n# A tiny page\n" + JAX)
    notebooks.main(["tiny", f"--root={root}"])
    return root


@pytest.fixture(scope="module")
def measured(root):
    return profile.of_page(pages.Page(root, "tiny"))


def test_a_profile_names_the_cell_and_its_programs(measured):
    assert 2 <= measured.programs <= 6 and measured.total("cached") == 0
    said = profile.report(measured)
    assert f"{measured.programs} programs compiled" in said and "import jax.numpy as jnp" in said and "jit(" in said
    assert measured.wall > measured.total("wall") > measured.total("compiling") > 0
    assert 0.1 < measured.memory < 2


def test_a_page_over_its_budget_is_named(root, measured, capfd):
    for entry, message in (("tiny = 1", "1 are allowed by book/programs.toml"), ("huge = 9", "no entry for tiny")):
        (root / "book/programs.toml").write_text(entry + "\n")
        with pytest.raises(SystemExit, match="too many programs: tiny"):
            notebooks.main(["--validate", f"--root={root}"])
        assert message in capfd.readouterr().out
    (root / "book/programs.toml").write_text(f"tiny = {measured.programs}\n")
    notebooks.main(["--validate", "tiny", f"--root={root}"])
    assert f"tiny: {measured.programs} programs of {measured.programs}" in capfd.readouterr().out


def test_the_budget_holds_for_the_jax_of_the_lock(root):
    """Another one cuts a computation into other programs."""
    (root / "book/programs.toml").write_text("tiny = 1\n")
    page = pages.Page(root, "tiny")
    for named, binds in (("", True), (f"jax=={metadata.version('jax')}\n", True), ("jax==0.0\njaxlib==0.0\n", False)):
        (root / "requirements.txt").write_text(f"# pinned\n{named}")
        assert (budget.binding(page), len(budget.defects(page, 2)), budget.defects(page, 1)) == (binds, binds, [])
    assert budget.meant_for(pages.ROOT)


def test_every_page_has_a_budget():
    assert [page.stem for page in pages.code_pages(pages.ROOT) if budget.allowed(page) is None] == []


def test_a_test_file_is_profiled_test_by_test(tmp_path, capfd):
    path = tmp_path / "test_two.py"
    path.write_text("import jax\ndef test_one(): jax.jit(lambda x: x + 1)(3.0)\ndef test_none(): pass\n")
    done = profile.of_tests(path)
    assert [part["source"] for part in done.parts] == ["test_one", "test_none"]
    assert done.parts[0]["programs"] >= 1 and done.parts[1]["programs"] == 0
