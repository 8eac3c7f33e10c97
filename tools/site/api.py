"""Sphinx extension of the API pages: signatures as they are written, and code in prose that leads to what it names."""

import ast
import inspect
import re
import sys
import textwrap
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

PACKAGE = "lsalib"
# «theory.optimal_risk», «lsalib.theory.optimal_risk», «records.recorded()».
NAME = re.compile(r"(\w+(?:\.\w+)+)(?:\(\))?")

# The ways to a source and back, with the name to which they lead.
WAY = re.compile(r'(<a [^>]*?(\w+)\.html#([\w.]+)")(>(?:<span class="viewcode-link"><span class="pre">)?(\[\w+\]))')

log = logging.getLogger(__name__)


class OwnTypes(ast.NodeTransformer):
    """The package's own classes by their whole name, behind the «~» with which Sphinx shows only its end."""

    def __init__(self, known: dict) -> None:
        self.known = known

    def visit_Name(self, node: ast.Name | ast.Attribute) -> ast.expr:
        value = eval(ast.unparse(node), self.known)
        own = isinstance(value, type) and value.__module__.partition(".")[0] == PACKAGE
        return ast.Name(f"~{value.__module__}.{value.__qualname__}") if own else node

    visit_Attribute = visit_Name

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """A shape of one letter begins with a space for the linters alone."""
        for part in ast.walk(node.slice):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                part.value = part.value.strip()
        return self.generic_visit(node)


def made_of(node: ast.ClassDef) -> ast.arguments:
    """The arguments of a class: those of its __init__, or the fields of a NamedTuple or a dataclass."""
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            return without_self(part.args)
    fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
    names = [ast.arg(ast.unparse(field.target), field.annotation) for field in fields]
    return ast.arguments([], names, kwonlyargs=[], kw_defaults=[], defaults=[f.value for f in fields if f.value])


def without_self(args: ast.arguments) -> ast.arguments:
    args.args = args.args[1:]
    return args


def written_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: object, signature: str, result: str | None
) -> tuple[str, str | None] | None:
    """Arguments and result as the source has them: types by their short names, defaults as expressions."""
    if what not in ("function", "method", "class"):
        return None
    if getattr(obj, "_is_protocol", False):  # nobody makes one
        return "", None
    obj = inspect.unwrap(obj)  # jax.jit and its like wrap a function
    node: Any = ast.parse(textwrap.dedent(inspect.getsource(obj))).body[0]
    short = OwnTypes(vars(sys.modules[obj.__module__])).visit
    if what == "class":
        made = ast.unparse(short(made_of(node)))
        return f"({made})" if made else "", None
    args, returns = without_self(node.args) if what == "method" else node.args, node.returns
    if isinstance(getattr(returns, "value", None), str):  # within its own body a class is named by a text
        returns = ast.parse(returns.value, mode="eval").body
    return f"({ast.unparse(short(args))})", ast.unparse(short(returns)) if returns else None


def skip_fields(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """The fields of a NamedTuple stand in its signature."""
    return True if type(obj).__name__ == "_tuplegetter" else None


def clear_docstring(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """What would be misread: at a constant the text on all tuples; and «heads: H.», which would open a list."""
    if what == "data" and lines and (inspect.getdoc(obj) or "").startswith(lines[0]):
        lines.clear()
    lines[:] = [re.sub(r"(?<=\S: )([A-Za-z])(?=\.$)", r"`\1`", line) for line in lines]


def module_of(app: Sphinx, module: str, name: str) -> str:
    """The module that holds the source: viewcode would look for a constant in the module of its type."""
    value: Any = sys.modules[module]
    for part in name.split("."):
        value = getattr(value, part, None)
    home: str = getattr(value, "__module__", module)
    return home if home.partition(".")[0] == PACKAGE else module


class NamesLead(SphinxPostTransform):
    """Inline code that names a public function, class or constant becomes a link to its entry."""

    default_priority = 100

    def run(self, **kwargs) -> None:
        domain: Any = self.env.get_domain("py")
        entries = {name: entry for name, entry in domain.objects.items() if not entry.aliased}
        for code in list(self.document.findall(nodes.literal)):
            match = NAME.fullmatch(code.astext())
            if match and not isinstance(code.parent, nodes.reference):
                self.lead(code, match[1], entries)

    def lead(self, code: nodes.literal, name: str, entries: dict) -> None:
        found = [entry for full, entry in entries.items() if f".{full}".endswith(f".{name}")]
        if len(found) == 1:
            (entry,) = found
            here = self.env.docname
            code.replace_self(make_refnode(self.app.builder, here, entry.docname, entry.node_id, code.deepcopy()))
        elif found or self.names_module(code, name.rpartition(".")[0], entries):
            log.warning("«%s» names %s of the API's entries", name, "several" if found else "none", location=code)

    def names_module(self, code: nodes.literal, name: str, entries: dict) -> bool:
        """Whether this is a module; in a docstring by its whole name only: an argument may be called «experiment»."""
        modules = [full.removeprefix(f"{PACKAGE}.") for full, entry in entries.items() if entry.objtype == "module"]
        whole, parent = name.removeprefix(f"{PACKAGE}."), code.parent
        while parent and not isinstance(parent, addnodes.desc):
            parent = parent.parent
        return whole in modules or (parent is None and any(module.endswith(f".{name}") for module in modules))


def name_ways(app: Sphinx, pagename: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """«[source]» stands on a page many times: by ear, each says of what."""

    def named(found: re.Match[str]) -> str:
        link, module, name, inside, word = found.groups()
        whole = name.removeprefix(f"{PACKAGE}.") if name.startswith(PACKAGE) else f"{module}.{name}"
        return f'{link} aria-label="{word} of {whole}"{inside}'

    context["body"] = WAY.sub(named, context.get("body", ""))


def setup(app: Sphinx) -> None:
    for extension in ("autodoc", "napoleon", "viewcode"):
        app.setup_extension(f"sphinx.ext.{extension}")
    app.connect("autodoc-process-signature", written_signature)
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("autodoc-process-docstring", clear_docstring, priority=0)  # before napoleon reads it
    app.connect("viewcode-follow-imported", module_of)
    app.connect("html-page-context", name_ways)
    app.add_post_transform(NamesLead)
