"""``python -m lsalib.sts run`` asks a language model, ``probe`` moves the numbers that it sees, ``show`` prints what is
stored, ``data`` gets the pairs."""

import argparse
import inspect
import json
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import MISSING, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from lsalib.sts import data, design, experiment, files, records, results

_PLACE = "the folder that LSALIB_STS_RESULTS names, or lsalib's in the user's data folder"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked. What is wrong is said in a line on standard error.

    The exit status is then 2; it is 1 where all was done and some answers are empty, and 130 after an interruption.
    """
    options = _parser().parse_args(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
        try:
            return options.command(options) or 0
        except (KeyboardInterrupt, ImportError, OSError, ValueError) as error:
            stopped = isinstance(error, KeyboardInterrupt)
            said = ["stopped" if stopped else f"error: {error}", *getattr(error, "__notes__", ())]
            print("; ".join(said), file=sys.stderr)
            return 130 if stopped else 2


def _run(options: argparse.Namespace) -> int:
    asked, sources, model = _opened(options)
    folder = options.out or files.folder("results") / _name(asked)
    some: dict[str, Any] = {"readouts": ("written",)} if options.readout == "written" else {}
    result = experiment.run(asked, model, sources, folder, batch_size=options.batch_size, **some)
    print(results.table([result]))
    print(f"stored in {folder}")
    return int(any(not record["answer"].strip() for record in result["records"]))


def _probe(options: argparse.Namespace) -> None:
    (first, sources, model), made = _opened(options), []
    for condition, moved in product(options.conditions, design.CHOICES["moved"][1:]):
        print(f"{condition}, moved: {moved}", flush=True)
        asked = replace(first, condition=condition, moved=moved)
        folder = (options.out or files.folder("results")) / _name(asked)
        result = experiment.run(asked, model, sources, folder, readouts=("expected",), batch_size=options.batch_size)
        if not result["records"][0]["logprobs"]:
            hint = "take another style, or a server that echoes a prompt with its log-probabilities"
            raise ValueError(f"model must give log-probabilities for a probe, got {asked.model}; {hint}")
        made.append(result)
    print(results.table(made))


def _opened(options: argparse.Namespace) -> tuple:
    """The experiment that the options name, its sources, and its model, which comes last: it may be large."""
    from lsalib.sts.models import open_model

    asked = design.Experiment(**{field.name: getattr(options, field.name) for field in fields(design.Experiment)})
    sources = design.prepare(asked)
    design.items(asked, sources)
    return asked, sources, open_model(asked.model, **dict(options.option))


def _show(options: argparse.Namespace) -> None:
    folder = options.folder or files.folder("results")
    found = records.own(folder) + records.own(folder, probes=True)
    if not found:
        raise FileNotFoundError(f"no finished result in {folder} or below; python -m lsalib.sts run writes one")
    print(results.table(found))


def _data(options: argparse.Namespace) -> None:
    for split in ("train", "dev", "test"):
        print(f"{split}: {len(data.load(split, options.folder).score)} pairs, the published ones")


def _name(asked: design.Experiment) -> str:
    """A folder name with whatever tells one experiment from another."""
    parts = [asked.model, asked.style, asked.condition, asked.guess_model, f"draw{asked.draw}", f"seed{asked.seed}"]
    parts += [f"runs{asked.runs}", f"context{asked.context_size}{asked.context_split}", f"tokens{asked.max_new_tokens}"]
    parts.append(asked.moved and f"moved {asked.moved}")
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
    shown: dict[str, Any] = {"formatter_class": argparse.ArgumentDefaultsHelpFormatter}

    run = commands.add_parser("run", help="ask a model, or go on asking", **shown)
    run.set_defaults(command=_run, moved=None)
    _add_asking(run, "moved")
    written = "the written answers alone, or the scores as well; a later run may ask for these"
    run.add_argument("--readout", choices=("both", "written"), default="both", help=written)
    run.add_argument("--out", type=Path, help=f"a folder for this experiment alone; without it one in {_PLACE}")

    probe = commands.add_parser("probe", help="what numbers in the prompt do to a model's expected score", **shown)
    _add_asking(probe, "condition", "moved")
    probe.set_defaults(command=_probe, condition="guess", moved="nothing", runs=20)
    known = [name for name in design.CHOICES["condition"] if name != "none"]
    probe.add_argument("--conditions", nargs="+", choices=known, default=known[:-1], help="what is done to the guesses")
    probe.add_argument("--out", type=Path, help=f"a folder for the probe's folders; without it {_PLACE}")

    checksums = "get the sentence pairs, once, and hold them against their checksums"
    lie = "where they lie; without it the folder that LSALIB_STS_DATA names, or the web"
    stored = ("show", _show, "print what is stored", f"where results lie, also below; without it {_PLACE}")
    for name, function, line, where in (stored, ("data", _data, checksums, lie)):
        command = commands.add_parser(name, help=line)
        command.set_defaults(command=function)
        command.add_argument("folder", nargs="?", type=Path, help=where)
    return parser


def _add_asking(command: argparse.ArgumentParser, *others: str) -> None:
    """What is asked, but for these fields of an experiment, and of which model."""
    meaning = dict(re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)$", inspect.getdoc(design.Experiment) or "", re.MULTILINE))
    for field in fields(design.Experiment):
        if (name := field.name) not in others:
            flag = "--guess" if name == "guess_model" else f"--{name.replace('_', '-')}"
            default = {"required": True} if field.default is MISSING else {"default": field.default}
            kind, choices = int if isinstance(field.default, int) else str, design.CHOICES.get(name)
            command.add_argument(flag, dest=name, type=kind, choices=choices, help=meaning[name], **default)
    command.add_argument("--batch-size", type=int, default=8, help="prompts at once")
    option = "for the model, as in load_in_4bit=true"
    command.add_argument("--option", type=_option, action="append", default=[], metavar="NAME=VALUE", help=option)


if __name__ == "__main__":
    sys.exit(main())
