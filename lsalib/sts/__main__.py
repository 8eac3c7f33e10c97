"""``python -m lsalib.sts run`` asks a language model, ``probe`` moves the numbers that it sees, ``show`` prints what is
stored, ``data`` gets the pairs."""

import argparse
import hashlib
import inspect
import json
import logging
import os
import re
import signal
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from lsalib.sts import data, design, experiment, files, models, records, results

# The fields of an experiment that an option sets.
_SETTINGS = [field.name for field in fields(design.Experiment) if field.name not in ("condition", "moved")]
_SHOWN = argparse.ArgumentDefaultsHelpFormatter
_PLACE = "the folder that LSALIB_STS_RESULTS names, or lsalib's in the user's data folder"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked. What is wrong is said in a line on standard error.

    The exit status is then 2; it is 1 where most answers have no score, and 130 or 143 after an interruption.
    """
    options = _parser().parse_args(arguments)
    logging.basicConfig(format="%(message)s")
    logging.getLogger("lsalib").setLevel(logging.INFO)  # progress, also where there is no terminal
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return options.command(options) or 0
    except (KeyboardInterrupt, SystemExit, ImportError, OSError, ValueError) as error:
        status = {KeyboardInterrupt: 130, SystemExit: 143}.get(type(error), 2)
        said = f"error: {error}" if status == 2 else "stopped"
        print(said, *getattr(error, "__notes__", ()), sep="; ", file=sys.stderr)
        return status
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(options: argparse.Namespace) -> int:
    options.style = options.style or ("chat" if "/" in options.model else "completion")
    asked = [
        design.Experiment(condition=condition, moved=moved, **{name: getattr(options, name) for name in _SETTINGS})
        for condition in options.condition
        for moved in (design.CHOICES["moved"][1:] if options.probe else (None,))
    ]
    parts = [*(f"{name}{getattr(options, name)}" for name in _SETTINGS), *["probe"] * options.probe]
    folder = options.out or files.folder("results") / "-".join(re.sub(r"[^\w.]+", "_", part) for part in parts)
    found = (_by_inspect if "/" in options.model else _in_process)(options, asked, folder)
    print(results.table(found))
    print(f"stored in {folder}")
    if counts := results.unreadable(found):
        print(f"error: most answers have no score; {counts}", file=sys.stderr)
    return int(bool(counts))


def _in_process(options: argparse.Namespace, asked: list[design.Experiment], folder: Path) -> list[dict]:
    """The results of the small model, each in a folder of its own."""
    sources, made = [design.prepare(one) for one in asked], []
    for one, each in zip(asked, sources, strict=True):
        design.items(one, each)
    readouts = experiment.READOUTS[:1] if options.readout == "written" else experiment.READOUTS[options.probe :]
    model = models.open_model(options.model)
    for one, each in zip(asked, sources, strict=True):
        print(one.condition, *filter(None, [one.moved]), sep=", moved: ", file=sys.stderr)
        where = folder / "-".join(filter(None, (one.condition, one.moved)))
        made.append(experiment.run(one, model, each, where, readouts=readouts))
    return made


def _by_inspect(options: argparse.Namespace, asked: list[design.Experiment], folder: Path) -> list[dict]:
    """The results of any other model, in logs of Inspect, which continues with what is in the folder."""
    with files.needed(
        "models other than the small one are asked by inspect-ai",
        "pip install '.[sts,inspect]' in the book's repository",
    ):
        from inspect_ai import eval_set
        from inspect_ai.model import GenerateConfig
        from rich.text import Text

        from lsalib.sts.inspect_task import stsb
    settings = {name: getattr(options, name) for name in _SETTINGS[3:]}
    conditions = ",".join(options.condition)
    task = stsb(conditions, options.guess_model, options.style, options.probe, options.readout or "written", **settings)
    given = dict(options.option)
    if re.match("openai-api[a-z-]*/local/", options.model):  # a server of one's own: it needs no key, and has few slots
        os.environ.setdefault("LOCAL_API_KEY", "none")
        given.setdefault("max_connections", 2)
    config = {name: given.pop(name) for name in list(given) if name in GenerateConfig.model_fields}
    model = {"model": options.model, "model_base_url": given.pop("base_url", None), "model_args": given}
    chosen = sys.stdout.isatty() or os.environ.get("INSPECT_DISPLAY")  # else progress in lines
    once: dict[str, Any] = {"retry_attempts": 0, "retry_immediate": False, "log_buffer": 1}
    once["display"] = None if chosen else "plain"
    where = folder / conditions
    try:
        whole, logs = eval_set(task, str(where), metadata={"versions": _versions(options)}, **once, **model, **config)
        if not whole:
            reasons = {log.error.message for log in logs if log.error}
            raise OSError("not all was answered" + "".join(f": {reason}" for reason in sorted(reasons)))
    except BaseException as error:
        if type(error).__name__ == "PrerequisiteError":  # what Inspect refuses; it does not export the class
            words = Text.from_markup(str(error)).plain.removeprefix("ERROR: ")
            raise ValueError(" ".join(words.split())) from error
        if isinstance(error, sqlite3.Error):  # of Inspect's buffer, on a full disk
            error = OSError(f"Inspect cannot write ({error})")
        then = "" if isinstance(error, KeyboardInterrupt | SystemExit) else "when the cause is removed, "
        error.add_note(f"what was answered is kept in {where}; {then}the same command continues from there")
        raise error
    return records.own(where, probes=options.probe)


def _versions(options: argparse.Namespace) -> dict[str, str]:
    """What the user says about the server: a note, and the name and SHA-256 of the file with the weights."""
    known = {"note": options.note} if options.note else {}
    if options.weights:
        with open(options.weights, "rb") as file:
            known |= {
                "weights": options.weights.name,
                "weights_sha256": hashlib.file_digest(file, "sha256").hexdigest(),
            }
    return known


def _show(options: argparse.Namespace) -> None:
    folder = options.folder or files.folder("results")
    found = records.own(folder) + records.own(folder, probes=True)
    if not found:
        raise FileNotFoundError(f"no finished result in {folder} or below; python -m lsalib.sts run writes one")
    print(results.table(found))


def _data(options: argparse.Namespace) -> None:
    for split in ("train", "dev", "test"):
        print(f"{split}: {len(data.load(split, options.folder).score)} pairs, the published ones")


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
    _add_asking(commands.add_parser("run", help="ask a model, or continue asking", formatter_class=_SHOWN), False)
    what = "measure what numbers in the prompt do to a model's answer"
    _add_asking(commands.add_parser("probe", help=what, formatter_class=_SHOWN), True)
    show = commands.add_parser("show", help="print what is stored")
    show.add_argument("folder", nargs="?", type=Path, help=f"where results are, also below; without it {_PLACE}")
    show.set_defaults(command=_show)
    pairs = commands.add_parser("data", help="get the sentence pairs, once, and compare them with their checksums")
    where = "where they are; without it the folder that LSALIB_STS_DATA names, or the web"
    pairs.add_argument("folder", nargs="?", type=Path, help=where)
    pairs.set_defaults(command=_data)
    return parser


def _add_asking(command: argparse.ArgumentParser, probe: bool) -> None:
    """The options of ``run`` and ``probe``: the fields of an experiment, and how it is asked."""
    meaning = dict(re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)$", inspect.getdoc(design.Experiment) or "", re.MULTILINE))
    conditions = design.CHOICES["condition"][probe:]
    defaults: dict = {"model": "smollm2-135m-instruct", "condition": conditions[:-1] if probe else conditions[:1]}
    defaults |= {"style": None, "runs": 20 if probe else 100}
    for field in fields(design.Experiment)[:-1]:
        flag = "--guess" if field.name == "guess_model" else f"--{field.name.replace('_', '-')}"
        options: dict = {"nargs": "+"} if field.name == "condition" else {}
        options |= {"choices": design.CHOICES.get(field.name), "default": defaults.get(field.name, field.default)}
        kind = int if isinstance(field.default, int) else str
        command.add_argument(flag, dest=field.name, type=kind, help=meaning[field.name], **options)
    both = "also the probabilities of all scores, which the small model gives unless told otherwise"
    command.add_argument("--readout", choices=("written", "both"), help=both)
    command.add_argument("--out", type=Path, help=f"a folder for the answers; without it one in {_PLACE}")
    option = "for Inspect: of the model, or how it is asked, as in base_url=http://localhost:8000/v1 or timeout=60"
    command.add_argument("--option", type=_option, action="append", default=[], metavar="NAME=VALUE", help=option)
    command.add_argument(
        "--weights", type=Path, help="the file of the weights behind a server, whose SHA-256 is stored"
    )
    command.add_argument("--note", help="words to store with the answers, such as the version of the server")
    command.set_defaults(command=_run, probe=probe)


if __name__ == "__main__":
    sys.exit(main())
