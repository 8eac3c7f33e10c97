"""``python -m lsalib.sts run`` asks a language model, ``show`` prints what is stored, ``data`` gets the pairs."""

import argparse
import inspect
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path

from lsalib.sts import data, design, experiment, files, records, results

_PLACE = "the folder that LSALIB_STS_RESULTS names, or lsalib's in the user's data folder"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked; what is wrong is said in a line on standard error, and the exit status is then 2."""
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    except (ImportError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _run(options: argparse.Namespace) -> None:
    from lsalib.sts.models import open_model

    asked = design.Experiment(**{field.name: getattr(options, field.name) for field in fields(design.Experiment)})
    model = open_model(asked.model, **dict(options.option))
    folder = options.out or files.folder("results") / _name(asked)
    result = experiment.run(asked, model, design.prepare(asked), folder, batch_size=options.batch_size)
    print(results.table([result]))
    print(f"stored in {folder}")


def _show(options: argparse.Namespace) -> None:
    folder = options.folder or files.folder("results")
    found = records.own(folder)
    if not found:
        raise FileNotFoundError(f"no finished result.json in {folder} or below; python -m lsalib.sts run writes one")
    print(results.table(found))


def _data(options: argparse.Namespace) -> None:
    for split in ("train", "dev", "test"):
        print(f"{split}: {len(data.load(split, options.folder).score)} pairs, the published ones")


def _name(asked: design.Experiment) -> str:
    """A folder name with whatever tells one experiment from another."""
    parts = [asked.model, asked.style, asked.condition, asked.guess_model, f"draw{asked.draw}", f"seed{asked.seed}"]
    parts += [f"runs{asked.runs}", f"context{asked.context_size}{asked.context_split}", f"tokens{asked.max_new_tokens}"]
    return "-".join(re.sub(r"[^\w.]+", "_", part) for part in parts if part)


def _option(text: str) -> tuple[str, object]:
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _parser() -> argparse.ArgumentParser:
    about = "Does a guess in the prompt help a language model? (section 5.3 of arXiv 2512.04268)"
    parser = argparse.ArgumentParser(prog="python -m lsalib.sts", description=about)
    commands = parser.add_subparsers(required=True)

    run = commands.add_parser(
        "run", help="ask a model, or go on asking", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    run.set_defaults(command=_run)
    meaning = dict(re.findall(r"^    (\w+): (.+)$", inspect.getdoc(design.Experiment) or "", re.MULTILINE))
    for field in fields(design.Experiment):
        name = field.name
        flag = "--guess" if name == "guess_model" else f"--{name.replace('_', '-')}"
        default = {"required": True} if field.default is MISSING else {"default": field.default}
        kind = int if isinstance(field.default, int) else str
        run.add_argument(flag, dest=name, type=kind, choices=design.CHOICES.get(name), help=meaning[name], **default)
    run.add_argument("--batch-size", type=int, default=8, help="prompts at once")
    option = "for the model, as in load_in_4bit=true"
    run.add_argument("--option", type=_option, action="append", default=[], metavar="NAME=VALUE", help=option)
    run.add_argument("--out", type=Path, help=f"a folder for this experiment alone; without it one in {_PLACE}")
    checksums = "get the sentence pairs, once, and hold them against their checksums"
    lie = "where they lie; without it the folder that LSALIB_STS_DATA names, or the web"
    stored = ("show", _show, "print what is stored", f"where results lie, also below; without it {_PLACE}")
    for name, function, line, where in (stored, ("data", _data, checksums, lie)):
        command = commands.add_parser(name, help=line)
        command.set_defaults(command=function)
        command.add_argument("folder", nargs="?", type=Path, help=where)
    return parser


if __name__ == "__main__":
    sys.exit(main())
