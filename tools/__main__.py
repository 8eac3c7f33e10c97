"""The project's tools: python -m tools COMMAND …; each command says more with --help."""

import sys
import tomllib
from importlib import import_module

COMMANDS = {
    "execute": (
        "tools.notebooks.execute",
        "execute pages and keep their notebooks up to date",
    ),
    "validate": (
        "tools.notebooks.validate",
        "run notebooks again and compare their outputs",
    ),
    "ledger": ("tools.ledger", "compare claims with what the pages checked"),
    "build": ("tools.site.build", "build the HTML book"),
    "pdf": ("tools.site.pdf", "print the built book as one PDF"),
}


def main(argv: list[str] | None = None) -> None:
    name, *rest = (sys.argv[1:] if argv is None else argv) or [""]
    if name not in COMMANDS:
        listed = "\n".join(
            f"  {command:<10}{does}" for command, (_, does) in COMMANDS.items()
        )
        raise SystemExit(f"usage: python -m tools COMMAND …\n{listed}")
    # Only the command's own module is imported: most need packages that the others do
    # without.
    try:
        import_module(COMMANDS[name][0]).main(rest)
    except tomllib.TOMLDecodeError as error:
        raise SystemExit(f"book/claims.toml: {error}") from None


if __name__ == "__main__":
    main()
