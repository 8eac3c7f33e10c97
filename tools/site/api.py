"""Sphinx extension of the API pages: autodoc with short names of types, and code in
prose that leads to its entry.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

# What autodoc makes of a type that has a short name in the source, and this name.
SHORT = {
    r"~?\b(jaxlib\._jax|jaxtyping)\.": "",
    r"Key\[Array, ''\] \| UInt32\[Array, '2'\] \| UInt32\[Array, '4'\]": "PRNGKeyArray",
    r"_Buffer \| .*?(?= \| None|, \w+:|\)$|$)": "ArrayLike",
    r"float \| Float\[ndarray, ''\] \| Float\[Array, ''\]": "Number",
    r"Float\[Array, ''\]": "Scalar",
    # Arguments also come as lists and numbers.
    r" \| ~?(typing\.)?Any\b": "",
}
# “theory.optimal_risk”, “lsalib.theory.optimal_risk”, “metrics.sampled_risk()”.
NAME = re.compile(r"(?:lsalib\.)?((\w+)(?:\.\w+)+)(?:\(\))?")
log = logging.getLogger(__name__)


def short_types(app, what, name, obj, options, signature, result):
    for long, short in SHORT.items():
        signature = signature and re.sub(long, short, signature)
        result = result and re.sub(long, short, result)
    return ("" if getattr(obj, "_is_protocol", False) else signature), result


def skip_fields(app, what, name, obj, skip, options) -> bool | None:
    """The fields of a NamedTuple stand in its signature."""
    return True if type(obj).__name__ == "_tuplegetter" else None


class NamesLead(SphinxPostTransform):
    """Inline code that names a public function, class or constant becomes a link to its
    entry.
    """

    default_priority = 100

    def run(self, **kwargs) -> None:
        domain: Any = self.env.get_domain("py")
        entries = {
            name: entry for name, entry in domain.objects.items() if not entry.aliased
        }
        for code in list(self.document.findall(nodes.literal)):
            match = NAME.fullmatch(code.astext())
            if not match or isinstance(code.parent, nodes.reference):
                continue
            found = [
                entry
                for full, entry in entries.items()
                if full.endswith(f".{match[1]}")
            ]
            if len(found) == 1:
                here, target = self.env.docname, (found[0].docname, found[0].node_id)
                code.replace_self(
                    make_refnode(self.app.builder, here, *target, code.deepcopy())
                )
            elif found or f"lsalib.{match[2]}" in entries:
                log.warning(
                    "“%s” names %s of the API's entries",
                    match[0],
                    "several" if found else "none",
                    location=code,
                )


def setup(app: Sphinx) -> None:
    for extension in ("autodoc", "napoleon", "viewcode"):
        app.setup_extension(f"sphinx.ext.{extension}")
    app.connect("autodoc-process-signature", short_types)
    app.connect("autodoc-skip-member", skip_fields)
    app.add_post_transform(NamesLead)
