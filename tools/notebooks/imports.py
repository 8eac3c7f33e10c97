"""Which parts of lsalib a piece of code imports."""

import ast


def parts_imported(source: str) -> set[str]:
    """The parts of lsalib that this code imports, anywhere in it: "theory" for anything in lsalib.theory.

    ``import lsalib`` alone names no part and gives "lsalib".
    """
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"imports must be absolute, got one relative to the module: {ast.unparse(node)}")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    paths = (name.split(".") for name in found)
    return {path[min(1, len(path) - 1)] for path in paths if path[0] == "lsalib"}
