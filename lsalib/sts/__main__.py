"""``python -m lsalib.sts run`` asks a language model, ``show`` prints what is stored, ``data`` gets the pairs."""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from lsalib.sts import data, experiment, prompts, records, results
from lsalib.sts.design import CONDITIONS
from lsalib.sts.guess import GUESS_MODELS

_PLACE = f"the folder that {records.FOLDER_VARIABLE} names, or lsalib's in the user's data folder"


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

    names = {field.name for field in fields(experiment.Experiment)}
    asked = experiment.Experiment(**{name: value for name, value in vars(options).items() if name in names})
    model = open_model(asked.model, **dict(options.option))
    folder = options.out or records.own_folder() / _name(asked)
    result = experiment.run(asked, model, experiment.prepare(asked), folder, batch_size=options.batch_size)
    print(results.table([result]))
    print(f"stored in {folder}")


def _show(options: argparse.Namespace) -> None:
    print(results.table(results.find(options.folder or records.own_folder())))


def _data(options: argparse.Namespace) -> None:
    for split in data.SPLITS:
        print(f"{split}: {len(data.load(split, options.folder).score)} pairs, the published ones")


def _name(asked: experiment.Experiment) -> str:
    """A folder name with whatever tells one experiment from another."""
    parts = [
        asked.model,
        asked.style,
        asked.condition,
        asked.guess_model or "",
        f"draw{asked.draw}",
        f"seed{asked.seed}",
    ]
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
    parser = argparse.ArgumentParser(
        prog="python -m lsalib.sts",
        description="Does a guess in the prompt help a language model? (section 5.3 of arXiv 2512.04268)",
    )
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser(
        "run", help="ask a model, or go on asking", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    run.set_defaults(command=_run)
    run.add_argument(
        "--model", required=True, help="as in smollm2-135m-instruct, hf:Qwen/Qwen2.5-7B-Instruct, openai:MODEL"
    )
    run.add_argument("--condition", required=True, choices=CONDITIONS)
    run.add_argument("--guess", dest="guess_model", choices=tuple(GUESS_MODELS), default="concat", help="who guesses")
    run.add_argument("--style", choices=prompts.STYLES, default="completion", help="of the prompt")
    run.add_argument("--draw", type=int, default=0, help="which queries and contexts")
    run.add_argument("--seed", type=int, default=0, help="of the guess model's training")
    run.add_argument("--runs", type=int, default=100, help="how many queries")
    run.add_argument("--context-size", type=int, default=10, help="labelled examples a query")
    run.add_argument("--context-split", choices=("dev", "train"), default="dev", help="where they come from")
    run.add_argument("--max-new-tokens", type=int, default=150, help="the longest answer")
    run.add_argument("--batch-size", type=int, default=8, help="prompts at once")
    run.add_argument(
        "--option",
        type=_option,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="for the model, as in load_in_4bit=true",
    )
    run.add_argument(
        "--out", type=Path, default=None, help=f"a folder for this experiment alone; without it one in {_PLACE}"
    )
    show = commands.add_parser("show", help="print what is stored")
    show.set_defaults(command=_show)
    show.add_argument(
        "folder", nargs="?", type=Path, default=None, help=f"where results lie, also below; without it {_PLACE}"
    )
    get = commands.add_parser("data", help="get the sentence pairs, once, and hold them against their checksums")
    get.set_defaults(command=_data)
    get.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=None,
        help=f"where they lie; without it the folder that {data.FOLDER_VARIABLE} names, or the web",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
