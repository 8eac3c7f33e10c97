"""Any numbers give the right result or a ValueError, for JAX as users have it: types promote, shapes broadcast."""

import inspect
import warnings
from itertools import cycle

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import plain_table
import plain_training
import pytest
from plain_table import Built, Numbers

from lsalib import attention, tasks, training
from lsalib.book import Claim, charts, claims, figures, notebook, sampling, seeds, stored

TABLE = plain_table.TABLE | plain_training.TABLE
MODULES = plain_table.MODULES | {"training": training}


@pytest.fixture
def as_users(unchecked):
    """No strict promotion, no shape annotations."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def test_no_public_name_is_left_out():
    """Every function of the library has its entry in the table."""
    public = {f"{module}.{name}" for module, has in MODULES.items() for name in has.__all__}
    assert public == set(TABLE) | plain_table.HOLDERS | plain_training.HOLDERS


def leaves(arguments, path=()):
    """The arguments that come in forms, those within weights and tasks as well, by their path."""
    for name, argument in arguments.items():
        if isinstance(argument, Built):
            yield from leaves(argument.parts, (*path, name))
        else:
            yield (*path, name), argument


def build(arguments, values, path=()):
    """The arguments themselves, of the values by path."""
    parts = {name: getattr(argument, "parts", None) for name, argument in arguments.items()}
    return {
        name: values[*path, name] if parts[name] is None else made.make(**build(parts[name], values, (*path, name)))
        for name, made in arguments.items()
    }


def call(entry, values, by_name=False):
    """All numbers of the result."""
    arguments = build(entry.arguments, values)
    bound = inspect.signature(entry.function).bind(**arguments)
    result = entry.function(**arguments) if by_name else entry.function(*bound.args, **bound.kwargs)
    return [np.asarray(leaf).astype(np.float64) for leaf in jax.tree.leaves(result)]


def of_tasks(entry):
    """The arguments that are rounded to the type of the weights: tasks."""
    return {name for name, argument in entry.arguments.items() if getattr(argument, "make", 0) is tasks.GaussianTask}


def computed_in(entry, forms):
    """The float type that numbers in these forms are computed in: the widest of them, or the entry's own minimum."""
    widest = "float64" if jax.config.jax_enable_x64 else "float32"
    typed = {"list", "tuple", "numpy", "jax"}  # single Python numbers fit any type
    types = [f.split()[-1] for path, f in forms.items() if path[0] not in of_tasks(entry) and f.split()[0] in typed]
    known = [name if name in ("float16", "bfloat16", "float32") else widest for name in types] or [widest]
    return np.dtype(jnp.result_type(*known, *([entry.least] if entry.least else [])))


def wrong(entry, which, forms, reference, by_name=False):
    """What is wrong with the result for arguments of these values in these forms: a list, empty if nothing is."""
    made = {path: argument.forms(which[path])[forms[path]]() for path, argument in leaves(entry.arguments)}
    try:
        found = call(entry, made, by_name)
    except Exception as error:
        return [f"{type(error).__name__}: {error} with {forms}"]
    dtype = np.dtype(np.float64) if entry.least == "float64" else computed_in(entry, forms)
    for mine, right in zip(found, reference, strict=True):
        bound = 64 * float(jnp.finfo(dtype).eps) * max(1.0, np.abs(right).max(initial=0))
        if mine.shape != right.shape or not np.abs(mine - right).max(initial=0) <= bound:
            return [f"{mine.ravel()[:4]} where {right.ravel()[:4]} is right, to {dtype.name}, with {forms}"]
    return []


def wrong_results(entry):
    """The errors over each form alone, mixtures of forms and of values, arguments by name, and JAX with float64."""
    of, found, turn = dict(leaves(entry.arguments)), [], np.random.default_rng(0).permutation
    single = all(len(argument.values()) == 1 for argument in of.values())
    # The first values of all arguments, the second ones, and both of the ways in which they alternate.
    for k in range(1 if single else 4):
        chosen = [(k % 2 + (place if k > 1 else 0)) % len(each.values()) for place, each in enumerate(of.values())]
        which = {path: argument.values()[i] for (path, argument), i in zip(of.items(), chosen, strict=True)}
        has = {path: list(argument.forms(which[path])) for path, argument in of.items()}
        names = dict.fromkeys(form for forms in has.values() for form in forms) if k < 2 else ()
        cases = [{path: form if form in has[path] else has[path][0] for path in of} for form in names]
        cases += [{path: turn(has[path])[0] for path in of} for _ in range(3)]
        with jax.enable_x64(True):
            reference = call(entry, which)
            wide = cycle(("numpy float32", "numpy float64", "list", "numpy int32"))
            mixed = {path: form if (form := next(wide)) in has[path] else has[path][-1] for path in of}
            found += wrong(entry, which, mixed, reference)
        for forms in cases:
            found += wrong(entry, which, forms, reference)
        found += wrong(entry, which, cases[0], reference, by_name=True)
    return found


def taken(entry):
    """The bad values that are not refused by a ValueError with the argument's name."""
    of, found = dict(leaves(entry.arguments)), []
    first = {path: argument.values()[0] for path, argument in of.items()}
    for path, argument in of.items():
        # A closed form and a task know their numbers, so that they can refuse one that is not finite.
        known = isinstance(argument, Numbers) and (entry.least == "float64" or path[0] in of_tasks(entry) | {"bias"})
        bad = [*argument.refused(), *([np.full(argument.whole.shape, np.nan)] if known else [])]
        # Other arguments say how long these are.
        bad += [np.zeros(len(argument.whole) + 1)] if path[-1] in {"guess", "y", "x_q", "w0", "w"} else []
        for value in bad:
            try:
                call(entry, first | {path: value})
            except Exception as error:
                if isinstance(error, ValueError) and path[-1] in str(error):
                    continue
            found.append(f"{'.'.join(path)} = {value!r}")
    return found


@pytest.mark.parametrize("name", TABLE)
def test_every_form_of_the_arguments_gives_the_same(name, as_users):
    """Lists, integers and all types of NumPy and JAX give one result; what is no number is refused by its name."""
    assert wrong_results(TABLE[name]) == [] and taken(TABLE[name]) == []


def test_defects_are_seen(as_users):
    """The controls: a guess that is rounded to the query's type, as it once was, and NumPy reading whatever comes."""
    entry, of_numpy = TABLE["attention.embed"], lambda *values: (np.asarray(value, np.float64) for value in values)
    narrowed = lambda X, y, x_q, y_q: attention.embed(X, y, x_q, np.asarray(y_q).astype(np.asarray(x_q).dtype))
    read = lambda X, y, x_q, y_q: attention.embed(*of_numpy(X, y, x_q, y_q))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert any("is right" in error for error in wrong_results(entry._replace(function=narrowed)))
        assert taken(entry._replace(function=read))


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
    **{
        f"jax {kind.__name__}": lambda values, kind=kind: jnp.array(values, kind)
        for kind in (jnp.int32, jnp.float16, jnp.bfloat16, jnp.float32)
    },
}


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def form(request, as_users):
    return request.param


def test_pages_take_any_form_of_numbers(form, monkeypatch, tmp_path):
    """Checks and controls, tables and glued numbers, deviations, and stored arrays are the same for every type."""
    one = lambda value: form([value])[0]
    same = lambda record: record._replace(anchor="", name="")  # of its place on the page
    claim = Claim("some-claim")
    for compare, measured in ((claim.holds, VALUES), (claim.fails, [[number + 8 for number in row] for row in VALUES])):
        expected = compare("", np.float64(measured), np.float64(VALUES), atol=4.0, rtol=0.5, seeds=[1, 2])
        found = compare("", form(measured), form(VALUES), atol=one(4), rtol=0.5, seeds=[1, 2])
        assert same(found) == same(expected)
    assert same(claim.holds("", one(5), one(4), atol=one(2))) == same(claim.holds("", 5.0, 4.0, atol=2.0))
    with pytest.raises(claims.ClaimError):
        claim.holds("", one(5), one(4), relation="<")

    bundles = []
    monkeypatch.setattr(notebook, "show", lambda bundle, *_: bundles.append(bundle))
    notebook.table(["a", "b", "c"], form(VALUES), spec=".0f")
    assert bundles[0]["text/plain"].split() == ["a", "b", "c", "1", "−2", "3", "4", "2", "−6"]
    notebook.glue("x", one(-6), ".2f")
    assert bundles[1].popitem()[1] == "−6.00"

    found = sampling.z_score(form(VALUES), form([1, 1, 1]))
    np.testing.assert_array_equal(found, sampling.z_score(np.float64(VALUES), [1.0, 1.0, 1.0]))
    np.testing.assert_array_equal(sampling.z_score(form(VALUES), one(1)), found)

    if np.asarray(form(VALUES)).dtype.kind == "O":
        with pytest.raises(ValueError, match=r"arrays\['a'\] must be of a type that a \.npz file keeps"):
            stored.save(tmp_path / "x.npz", {"a": form(VALUES)}, {})
    else:
        stored.save(tmp_path / "x.npz", {"a": form(VALUES)}, {})
        np.testing.assert_array_equal(np.float64(stored.load("x", tmp_path).arrays["a"]), np.float64(VALUES))


def test_charts_draw_any_form_of_numbers(form):
    """Curves, exact lines and colors."""
    with charts.chart("x", "y", show=False) as c:
        c.curve(form([3, 1, 4, 2]), color="lsa", window=2)
        c.exact(form([2])[0], "risk", color="gd")
    assert c.ax.lines[0].get_ydata().tolist() == [2.0, 3.0] and c.ax.texts[0].get_text() == "risk 2.000"
    veil = c.ax.collections[0].get_paths()[0].vertices
    for middle, least, most in ((1.0, 1.0, 3.0), (3.0, 2.0, 4.0)):
        assert set(veil[veil[:, 0] == middle, 1]) == {least, most}, "the smallest and the largest loss of a window"
    np.testing.assert_array_equal(figures.tint(form(VALUES), form([4])[0]), figures.tint(np.float64(VALUES), 4.0))


@pytest.mark.parametrize("kind", [int, np.int32, np.uint8, np.int64, jnp.int32], ids=lambda kind: kind.__name__)
def test_whole_numbers_of_any_type_are_whole_numbers(kind, as_users, own_seeds):
    """Counts, places and seeds."""
    draw, equal = (lambda key: jax.random.normal(key, ())), np.testing.assert_array_equal
    equal(sampling.by_batch(draw, [kind(3)], batches=kind(2)), sampling.by_batch(draw, [3], batches=2))
    run = stored.load("softmax_heads")
    jax.tree.map(equal, stored.circuits(run, kind(1), kind(2), kind(3)), stored.circuits(run, 1, 2, 3))
    assert Claim("c", seeds=[kind(7)]).holds("", 1, 1, atol=1).seeds == [7]
    with seeds.shifted(2):
        moved = jax.random.key(kind(7))
    assert (jax.random.key_data(moved) == jax.random.key_data(jax.random.key(7 + 2 * seeds.STRIDE))).all()
