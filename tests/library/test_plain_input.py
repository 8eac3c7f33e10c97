"""Any numbers give the right result or a ValueError, in a process like a user's (``as_users.py``) and on pages."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import ml_dtypes
import numpy as np
import plain_table
import plain_training
import pytest

from lsalib.book import check, claims, control, figures, notebook, sampling, seeds, stored

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def report():
    command = [sys.executable, str(ROOT / "tests/as_users.py")]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_process_is_set_up_as_a_user_s_is(report):
    assert (report["promotion"], report["shapes"], report["checked"]) == ("standard", "allow", False)
    assert jax.config.jax_numpy_dtype_promotion == "strict" and plain_table.annotations_are_checked(), (
        "the control: here"
    )


def test_no_public_name_is_left_out(report):
    assert report["missing"] == []


@pytest.mark.parametrize("name", plain_table.TABLE | plain_training.TABLE)
def test_every_form_of_the_arguments_gives_the_same(name, report):
    assert report["found"][name] == []


def test_defects_are_seen(report):
    narrowed, unchecked = report["controls"]
    assert any("is right" in error for error in narrowed)
    assert any("is taken" in error for error in unchecked) and not any("is right" in error for error in unchecked)


# The same numbers, exact in every type.
VALUES = [[1, -2, 3], [4, 2, -6]]
FORMS = {
    "list": lambda values: values,
    "tuple": lambda values: tuple(map(tuple, values)) if isinstance(values[0], list) else tuple(values),
    "numpy scalars": lambda values: (
        np.array(values, object) if isinstance(values[0], list) else [*map(np.int8, values)]
    ),
    **{name: lambda values, name=name: np.array(values, name) for name in ("int16", "int64", "float16", "float32")},
    "float64": np.float64,
    "bfloat16": lambda values: np.array(values, ml_dtypes.bfloat16),
    **{f"jax {kind.__name__}": lambda values, kind=kind: jnp.array(values, kind) for kind in (jnp.int32, jnp.float16)},
    "jax bfloat16": lambda values: jnp.array(values, jnp.bfloat16),
    "jax float32": lambda values: jnp.array(values, jnp.float32),
}


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def form(request, unchecked):
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield request.param


def one(form, value: int):
    """A single number of this type."""
    return form([value])[0]


def same(record, other) -> bool:
    own = {"anchor": "", "name": ""}  # of its place on the page
    return record._replace(**own) == other._replace(**own)


def test_checks_judge_alike(form):
    plain = [row[:] for row in VALUES]
    broken = [[number + 8 for number in row] for row in VALUES]
    for claim, measured in ((check, plain), (control, broken)):
        expected = claim("some-claim", np.float64(measured), np.float64(VALUES), atol=4.0, rtol=0.5, seeds=[1, 2])
        atol = one(form, 4)
        found = claim("some-claim", form(measured), form(VALUES), atol=atol, rtol=0.5, seeds=[1, 2])
        assert same(found, expected)
    assert same(check("c", one(form, 5), one(form, 4), atol=one(form, 2)), check("c", 5.0, 4.0, atol=2.0))
    with pytest.raises(claims.ClaimError):
        check("c", one(form, 5), one(form, 4), relation="<")


def test_numbers_are_written_alike(form, monkeypatch):
    bundles = []
    monkeypatch.setattr(notebook, "show", lambda bundle, *_: bundles.append(bundle))
    notebook.table(["a", "b", "c"], form(VALUES), spec=".0f")
    assert bundles[0]["text/plain"].split() == ["a", "b", "c", "1", "−2", "3", "4", "2", "−6"]
    notebook.glue("x", one(form, -6), ".2f")
    assert bundles[1].popitem()[1] == "−6.00"


def test_figures_draw_alike(form):
    figure, ax = plt.subplots()
    figures.loss_curve(ax, form([3, 1, 4, 2]), colour="lsa", window=2)
    figures.exact_line(ax, one(form, 2), colour="gd", label="risk")
    assert ax.lines[0].get_ydata().tolist() == [2.0, 3.0] and ax.lines[1].get_label() == "risk, 2.000"
    veil = ax.collections[0].get_paths()[0].vertices
    for middle, least, most in ((1.0, 1.0, 3.0), (3.0, 2.0, 4.0)):
        assert set(veil[veil[:, 0] == middle, 1]) == {least, most}, "the smallest and the largest loss of a window"
    figures.plain_log_ticks(ax, form([1, 2, 4]))
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["1", "2", "4"]
    plt.close(figure)
    np.testing.assert_array_equal(figures.tint(form(VALUES), one(form, 4)), figures.tint(np.float64(VALUES), 4.0))
    assert figures.windows(form([3, 1, 4]), 2).tolist() == [[3.0, 1.0]]


def test_deviations_are_counted_alike(form):
    found = sampling.z_score(form(VALUES), form([1, 1, 1]))
    np.testing.assert_array_equal(found, sampling.z_score(np.float64(VALUES), [1.0, 1.0, 1.0]))
    np.testing.assert_array_equal(sampling.z_score(form(VALUES), one(form, 1)), found)


@pytest.mark.parametrize("kind", [int, np.int32, np.uint8, np.int64, jnp.int32], ids=lambda kind: kind.__name__)
def test_whole_numbers_of_any_type_are_whole_numbers(kind, unchecked):
    draw = lambda key: jax.random.normal(key, ())
    with jax.numpy_dtype_promotion("standard"):
        np.testing.assert_array_equal(
            sampling.by_batch(draw, [kind(3)], batches=kind(2)), sampling.by_batch(draw, [3], batches=2)
        )
        assert figures.strokes(kind(2), "lsa") == figures.strokes(2, "lsa")
        assert figures.windows([1, 2, 3], kind(2)).tolist() == [[1.0, 2.0]]
        run = stored.load("softmax_heads")
        for found, expected in zip(
            stored.circuits(run, kind(1), kind(2), kind(3)), stored.circuits(run, 1, 2, 3), strict=True
        ):
            np.testing.assert_array_equal(found, expected)
        assert check("c", 1, 1, atol=1, seeds=[kind(7)]).seeds == [7]
        with seeds.shifted(2):
            moved = jax.random.key(kind(7))
        assert (jax.random.key_data(moved) == jax.random.key_data(jax.random.key(7 + 2 * seeds.STRIDE))).all()


def test_a_kept_array_is_the_one_given(form, tmp_path):
    array = form(VALUES)
    if np.asarray(array).dtype.kind == "O":
        with pytest.raises(ValueError, match=r"arrays\['a'\] must be of a type that a \.npz file keeps"):
            stored.save(tmp_path / "x.npz", {"a": array}, {})
        return
    stored.save(tmp_path / "x.npz", {"a": array}, {})
    np.testing.assert_array_equal(np.float64(stored.load("x", tmp_path).arrays["a"]), np.float64(VALUES))
