"""``python -m lsalib.sts run`` asks a language model, ``show`` prints what is stored,
``data`` gets the pairs.
"""

import argparse
import inspect
import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from lsalib.sts import data, design, models, needed, records, results

_DEFAULTS = {
    "model": f"lsalib/{models.SmolLM2.name}",
    "condition": ["none"],
    "style": None,
}
_PLACE = "the folder that LSALIB_STS_RESULTS names, or in sts-results"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked.

    An error is a line on standard error, and status 2; an interruption is status 130 or
    143.
    """
    options = _parser().parse_args(arguments)
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        options.command(options)
        return 0
    except (KeyboardInterrupt, SystemExit, ImportError, OSError, ValueError) as error:
        status = {KeyboardInterrupt: 130, SystemExit: 143}.get(type(error), 2)
        said = f"error: {error}" if status == 2 else "stopped"
        print(said, *getattr(error, "__notes__", ()), sep="; ", file=sys.stderr)
        return status
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(options: argparse.Namespace) -> None:
    options.style = options.style or design.style_of(options.model)
    settings = {
        field.name: getattr(options, field.name)
        for field in fields(design.Experiment)[2:]
    }
    # wrong settings are refused before anything is asked
    for condition in options.condition:
        design.Experiment(options.model, condition, **settings)
    with needed("models are asked by inspect-ai", "sts,inspect"):
        from inspect_ai import eval_set
        from inspect_ai.model import GenerateConfig

        from lsalib.sts.inspect_task import stsb
    given: dict[str, Any] = {}
    # A server of one's own needs no key, has few slots, and is given up in 20 seconds.
    if re.match("openai-api[a-z-]*/local/", options.model):
        os.environ.setdefault("LOCAL_API_KEY", "none")
        given = {"max_connections": 2, "max_retries": 1}
        given["base_url"] = os.environ.get("LOCAL_BASE_URL")
    given |= options.option
    address = given.pop("base_url", None)
    asked: dict[str, Any] = {
        name: given.pop(name) for name in given.keys() & GenerateConfig.model_fields
    }
    version = {}
    if options.model.startswith("lsalib/"):
        version = models.open_model().version
    asked |= {
        "model": options.model,
        "model_base_url": address,
        "model_args": given,
        "retry_attempts": 0,
        "retry_immediate": False,
        "log_buffer": 1,
        "metadata": {"versions": dict(options.about) | version},
    }
    if not (sys.stdout.isatty() or os.environ.get("INSPECT_DISPLAY")):
        asked["display"] = "plain"  # progress in lines
    parts = {"model": options.model, **settings}.items()
    folder = options.out or records.own_folder() / "-".join(
        re.sub(r"[^\w.]+", "_", f"{name}{value}") for name, value in parts
    )
    where = folder / (conditions := ",".join(options.condition))
    task = stsb(
        conditions, settings.pop("guess_model"), settings.pop("style"), **settings
    )
    try:
        whole, logs = eval_set(task, str(where), **asked)
        if not whole:
            reasons = sorted({log.error.message for log in logs if log.error})
            by = f"not all was answered by {address or options.model}"
            raise OSError(": ".join([by, *reasons]))
    except BaseException as error:
        # what Inspect refuses; it does not export the class
        if type(error).__name__ == "PrerequisiteError":
            words = re.sub(r"\[/?[a-z ]*\]", "", str(error)).removeprefix("ERROR: ")
            raise ValueError(" ".join(words.split())) from error
        error.add_note(
            f"what was answered is kept in {where}; the same command continues from "
            "there"
        )
        raise
    print(f"{results.table(records.own(where))}\nstored in {folder}")


def _show(options: argparse.Namespace) -> None:
    if not (found := records.own(folder := options.folder or records.own_folder())):
        raise FileNotFoundError(
            f"no finished result in {folder} or below; python -m lsalib.sts run writes "
            "one"
        )
    print(results.table(found))


def _data(_) -> None:
    print({split: len(data.load(split).score) for split in ("train", "dev", "test")})


def _option(text: str) -> tuple[str, object]:
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lsalib.sts",
        description="Does a guess in the prompt help a language model? "
        "(section 5.3 of arXiv 2512.04268)",
    )
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser(
        "run",
        help="ask a model, or continue asking",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    meaning = dict(
        re.findall(
            r"^    (\w+): (.+(?:\n {8}.+)*)$",
            inspect.getdoc(design.Experiment) or "",
            re.MULTILINE,
        )
    )
    for field in fields(design.Experiment):
        # the model of the guesses is --guess
        name = field.name.removesuffix("_model").replace("_", "-")
        run.add_argument(
            f"--{name}",
            dest=field.name,
            type=int if isinstance(field.default, int) else str,
            help=meaning[field.name],
            choices=design.CHOICES.get(field.name),
            default=_DEFAULTS.get(field.name, field.default),
            nargs="+" if name == "condition" else None,
        )
    run.add_argument(
        "--out", type=Path, help=f"a folder for the answers; without it one in {_PLACE}"
    )
    free = {
        "--option": "for Inspect: of the model, or how it is asked, "
        "as in base_url=http://localhost:8000/v1 or timeout=60",
        "--about": "what to store with the answers, as in weights_sha256=… or "
        "server=…, because a server does not say it",
    }
    for flag, meant in free.items():
        run.add_argument(
            flag,
            type=_option,
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help=meant,
        )
    run.set_defaults(command=_run)
    show = commands.add_parser("show", help="print what is stored")
    show.add_argument(
        "folder",
        nargs="?",
        type=Path,
        help=f"where results are, also below; without it {_PLACE}",
    )
    show.set_defaults(command=_show)
    pairs = commands.add_parser(
        "data",
        help="get the sentence pairs, once, and compare them with their checksums",
    )
    pairs.set_defaults(command=_data)
    return parser


if __name__ == "__main__":
    sys.exit(main())
