"""``plain_table`` as users run it: no strict promotion, no run-time shape checks. Prints what it found as JSON.

A process of its own, since the tests' process has both. ``as_users.py [NAME...]`` looks at some names alone.
"""

import inspect
import json
import sys
import warnings
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plain_table import HOLDERS, MODULES, STRONG, TABLE, Built, Entry

from lsalib import attention, tasks

try:
    from jax import enable_x64
except ImportError:  # before JAX 0.8
    from jax.experimental import enable_x64
calm = settings(
    max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def leaves(arguments, path=()):
    """The arguments that come in forms, those within weights and tasks as well, by their path."""
    for name, argument in arguments.items():
        if isinstance(argument, Built):
            yield from leaves(argument.parts, (*path, name))
        else:
            yield (*path, name), argument


def build(arguments, values, path=()):
    """The arguments themselves, of the values by path."""
    made = {}
    for name, argument in arguments.items():
        here = (*path, name)
        if isinstance(argument, Built):
            made[name] = argument.make(**build(argument.parts, values, here))
        else:
            made[name] = values[here]
    return made


def call(entry: Entry, values: dict, by_name: bool = False) -> list[np.ndarray]:
    """All numbers of the result; Python's floats are float64."""
    arguments = build(entry.arguments, values)
    if by_name:
        result = entry.function(**arguments)
    else:
        bound = inspect.signature(entry.function).bind(**arguments) if named(entry) else None
        result = entry.function(*bound.args, **bound.kwargs) if bound else entry.function(*arguments.values())
    return [np.asarray(leaf).astype(np.float64) for leaf in jax.tree.leaves(result)]


def named(entry: Entry) -> bool:
    return set(entry.arguments) <= set(inspect.signature(entry.function).parameters)


def computed_in(entry: Entry, forms: dict) -> np.dtype:
    """The float type that numbers in these forms must be computed in: the widest of them, and more if it says so."""
    widest = "float64" if jax.config.jax_enable_x64 else "float32"
    # A task is rounded to the type of the weights; Python's own numbers fit any type.
    types = [
        form.split()[-1]
        for path, form in forms.items()
        if getattr(entry.arguments[path[0]], "make", None) is not tasks.GaussianTask and form.split()[0] in STRONG
    ]
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

    def reference(which):
        key = tuple(np.asarray(value).tobytes() for value in which.values() if isinstance(value, np.ndarray))
        if key not in references:
            with enable_x64(True):
                references[key] = call(entry, which)
        return references[key]

    def tell(which, forms, by_name=False):
        if error := wrong(entry, which, forms, reference(which), by_name):
            found.append(error)

    # Each form alone, where an argument has it, positionally and by name.
    first, last = ({path: argument.values()[k] for path, argument in of.items()} for k in (0, -1))
    names = dict.fromkeys(form for path, argument in of.items() for form in argument.forms(first[path]))
    for form, (by_name, which) in product(names, enumerate((first, last))):
        forms = {path: form if form in (has := of[path].forms(which[path])) else next(iter(has)) for path in of}
        tell(which, forms, bool(by_name) and named(entry))

    mixtures = st.fixed_dictionaries(
        {path: st.sampled_from(argument.values()) for path, argument in of.items()}
    ).flatmap(
        lambda which: st.tuples(
            st.just(which),
            st.fixed_dictionaries({path: st.sampled_from(list(of[path].forms(which[path]))) for path in of}),
        )
    )

    @calm
    @given(mixtures)
    def mixed(case):
        tell(*case)

    mixed()
    for path, argument in of.items():
        for bad in argument.refused():
            if not refused(entry, {**first, path: bad}, path[-1]):
                found.append(f"{'.'.join(path)} = {bad!r} is taken")
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


def broken(X, y, x_q, y_q):
    """As the library once was: the guess is rounded to the query's type."""
    return attention.embed(X, y, x_q, np.asarray(y_q).astype(np.asarray(x_q).dtype))


def main(*names):
    public = {f"{module}.{name}" for module, has in MODULES.items() for name in has.__all__}
    report = {
        "promotion": jax.config.jax_numpy_dtype_promotion,
        "rank": jax.config.jax_numpy_rank_promotion,
        "checked": "jaxtyping" in repr(inspect.unwrap(attention.embed).__code__),
        "missing": sorted(public - set(TABLE) - HOLDERS),
        "unknown": sorted((set(TABLE) | HOLDERS) - public),
    }
    report["found"], report["times"] = {}, {}
    for name, entry in TABLE.items():
        if not names or name in names:
            import time; t=time.process_time()
            report["found"][name] = look(entry)
            report["times"][name] = round(time.process_time()-t, 2)
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
