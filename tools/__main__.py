"""The project's tools: python -m tools COMMAND …; each says more with --help."""

import argparse
import tomllib
from importlib import import_module
from pathlib import Path

COMMANDS = {
    "execute": (
        "tools.notebooks.execute",
        "execute pages, and keep their notebooks up to date",
    ),
    "validate": (
        "tools.notebooks.validate",
        "run notebooks again, and compare their outputs",
    ),
    "ledger": ("tools.ledger", "compare the claims with what the pages checked"),
    "build": ("tools.site.build", "build the HTML book"),
    "pdf": ("tools.site.pdf", "print the built book as one PDF"),
}


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, does) in COMMANDS.items():
        command = commands.add_parser(name, help=does, description=does)
        if name in ("execute", "validate"):
            pages = "these pages (default: all)"
            command.add_argument("names", nargs="*", metavar="NAME", help=pages)
        if name in ("execute", "validate", "ledger"):
            root = "the checkout (default: this folder)"
            command.add_argument("--root", type=Path, default=Path(), help=root)
        if name == "execute":
            changed = "only those whose code is not that of their notebooks"
            command.add_argument("--changed", action="store_true", help=changed)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    args = parse(argv)
    # Only the command's own module is imported: most need packages that the others do
    # without.
    module, _ = COMMANDS[args.command]
    try:
        import_module(module).main(args)
    except tomllib.TOMLDecodeError as error:
        raise SystemExit(f"book/claims.toml: {error}") from None


if __name__ == "__main__":
    main()
