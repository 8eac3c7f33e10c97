"""Every optional argument of a public function is given in a test."""

import ast
import inspect
from pathlib import Path

import lsalib

PUBLIC = {
    name: getattr(getattr(lsalib, part), name)
    for part in lsalib.__all__
    for name in getattr(lsalib, part).__all__
}
PUBLIC |= {
    name: method
    for owner in PUBLIC.values()
    for name, method in vars(owner).items()
    if inspect.isclass(owner) and inspect.isfunction(method) and name[0] != "_"
}


def given(path: Path) -> set[tuple[str, str]]:
    """Pairs of a function and an argument: by its place in a call, or by its name where
    the module uses the function.
    """
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    name = lambda node: getattr(node, "attr", getattr(node, "id", ""))
    words = {node.arg for node in nodes if isinstance(node, ast.keyword)}
    words |= {node.value for node in nodes if isinstance(node, ast.Constant)}
    pairs = {
        (used, word) for used in PUBLIC.keys() & set(map(name, nodes)) for word in words
    }
    for call in nodes:
        if isinstance(call, ast.Call) and name(call.func) in PUBLIC:
            taken = inspect.signature(PUBLIC[name(call.func)]).parameters
            places = [each for each in taken if each != "self"][: len(call.args)]
            pairs |= {(name(call.func), each) for each in places}
    return pairs


def test_every_optional_argument_is_given():
    optional = {
        (name, each.name)
        for name, function in PUBLIC.items()
        if not (inspect.isclass(function) and issubclass(function, tuple))
        for each in inspect.signature(function).parameters.values()
        if each.default is not each.empty
    }
    tests = [*Path(__file__).parents[1].rglob("test_*.py")]
    assert len(optional) > 60 and optional - set().union(*map(given, tests)) == set()
