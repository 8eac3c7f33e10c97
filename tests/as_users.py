"""``plain_table`` as users run it: no strict promotion, no run-time shape checks. Prints what it found as JSON.

A process of its own, since the tests' process has both. ``as_users.py [NAME...]`` looks at some names alone.
"""

import inspect
import json
import sys
import warnings
from itertools import cycle, product

import jax
import jax.numpy as jnp
import numpy as np
import plain_table
import plain_training
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plain_table import STRONG, Built, Entry, Numbers, annotations_are_checked

from lsalib import attention, tasks, training

try:
    from jax import enable_x64
except ImportError:  # before JAX 0.8
    from jax.experimental import enable_x64
calm = settings(max_examples=8, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


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


def call(entry: Entry, values: dict, by_name: bool = False) -> list[np.ndarray]:
    """All numbers of the result; Python's floats are float64."""
    arguments = build(entry.arguments, values)
    bound = inspect.signature(entry.function).bind(**arguments)
    result = entry.function(**arguments) if by_name else entry.function(*bound.args, **bound.kwargs)
    return [np.asarray(leaf).astype(np.float64) for leaf in jax.tree.leaves(result)]


def computed_in(entry: Entry, forms: dict) -> np.dtype:
    """The float type that numbers in these forms are computed in: the widest of them, or the entry's own minimum."""
    widest = "float64" if jax.config.jax_enable_x64 else "float32"
    # A task is rounded to the type of the weights; Python's own numbers fit any type.
    own = {name for name, argument in entry.arguments.items() if getattr(argument, "make", None) is tasks.GaussianTask}
    types = [form.split()[-1] for path, form in forms.items() if path[0] not in own and form.split()[0] in STRONG]
    known = [name if name in ("float16", "bfloat16", "float32") else widest for name in types] or [widest]
    return np.dtype(jnp.result_type(*known, *([entry.least] if entry.least else [])))


def wrong(entry: Entry, which: dict, forms: dict, reference: dict, by_name: bool = False) -> str | None:
    """What is wrong with the result for arguments of these values in these forms, if anything is."""
    of = dict(leaves(entry.arguments))
    made = {path: of[path].forms(which[path])[form]() for path, form in forms.items()}
    told = ", ".join(f"{'.'.join(path)}: {form}" for path, form in forms.items())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = call(entry, made, by_name)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]} with {told}"
    dtype = np.dtype(np.float64) if entry.least == "float64" else computed_in(entry, forms)
    for mine, right in zip(found, reference, strict=True):
        bound = 64 * float(jnp.finfo(dtype).eps) * max(1.0, np.abs(right).max(initial=0))
        if mine.shape != right.shape or not np.abs(mine - right).max(initial=0) <= bound:
            return f"{mine.ravel()[:4]} where {right.ravel()[:4]} is right, to {dtype.name}, with {told}"
    return None


def look(entry: Entry) -> list[str]:
    """Everything that is wrong with a function."""
    found, of, references = [], dict(leaves(entry.arguments)), {}

    def tell(which, forms, by_name=False):
        key = tuple(np.asarray(value).tobytes() for value in map(which.get, of) if isinstance(value, np.ndarray))
        if key not in references:
            with enable_x64(True):
                references[key] = call(entry, which)
        found.extend(error for error in [wrong(entry, which, forms, references[key], by_name)] if error)

    # Each form alone, where an argument has it, and the first of them by name, too.
    first, last = ({path: argument.values()[k] for path, argument in of.items()} for k in (0, -1))
    names = dict.fromkeys(form for path, argument in of.items() for form in argument.forms(first[path]))
    for form, which in product(names, (first, last)):
        has = {path: argument.forms(which[path]) for path, argument in of.items()}
        tell(which, {path: form if form in has[path] else next(iter(has[path])) for path in of})
    tell(last, {path: next(iter(argument.forms(last[path]))) for path, argument in of.items()}, by_name=True)

    # Types and values that differ between arguments, and once more where JAX has float64.
    values = st.fixed_dictionaries({path: st.sampled_from(argument.values()) for path, argument in of.items()})
    forms = lambda which: {path: st.sampled_from(list(of[path].forms(which[path]))) for path in of}
    mixtures = values.flatmap(lambda which: st.tuples(st.just(which), st.fixed_dictionaries(forms(which))))
    calm(given(mixtures)(lambda case: tell(*case)))()
    wide = cycle(("numpy float32", "numpy float64", "list", "numpy int32"))
    with enable_x64(True):
        for which in (first, last):
            has = {path: argument.forms(which[path]) for path, argument in of.items()}
            tell(which, {path: form if (form := next(wide)) in has[path] else list(has[path])[-1] for path in of})

    own = {name for name, argument in entry.arguments.items() if getattr(argument, "make", None) is tasks.GaussianTask}
    for path, argument in of.items():
        # A closed form and a task know their numbers, so that they can refuse one that is not finite.
        known = isinstance(argument, Numbers) and (entry.least == "float64" or path[0] in own | {"bias"})
        bad = [*argument.refused(), *([np.full(argument.whole.shape, np.nan)] if known else [])]
        # Other arguments say how long these are.
        bad += [np.zeros(len(argument.whole) + 1)] if path[-1] in {"guess", "y", "x_q", "w0", "w"} else []
        for value in bad:
            if not refused(entry, {**first, path: value}, path[-1]):
                found.append(f"{'.'.join(path)} = {value!r} is taken")
    return found


def refused(entry: Entry, values: dict, name: str) -> bool:
    """Whether this raises a ValueError that names the argument."""
    try:
        call(entry, values)
    except ValueError as error:
        return name in str(error)
    except Exception:
        return False
    return False


def narrowed(X, y, x_q, y_q):
    """A defect that the library once had: the guess is rounded to the query's type."""
    return attention.embed(X, y, x_q, np.asarray(y_q).astype(np.asarray(x_q).dtype))


def unchecked(X, y, x_q, y_q):
    """Another one: NumPy reads whatever comes."""
    return attention.embed(*(np.asarray(value, np.float64) for value in (X, y, x_q, y_q)))


TABLE = plain_table.TABLE | plain_training.TABLE
HOLDERS = plain_table.HOLDERS | plain_training.HOLDERS
MODULES = plain_table.MODULES | {"training": training}


def main(*names):
    public = {f"{module}.{name}" for module, has in MODULES.items() for name in has.__all__}
    controls = [TABLE["attention.embed"]._replace(function=function) for function in (narrowed, unchecked)]
    report = {
        "promotion": jax.config.jax_numpy_dtype_promotion,
        "shapes": jax.config.jax_numpy_rank_promotion,
        "checked": annotations_are_checked(),
        "missing": sorted(public ^ (set(TABLE) | HOLDERS)),
        "found": {name: look(entry) for name, entry in TABLE.items() if not names or name in names},
        "controls": list(map(look, controls)),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
