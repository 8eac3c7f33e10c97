"""Does the answer follow the guess? In each prompt the query's guess becomes 1, 2, 3
and 4, and nothing else changes.

    python -m studies.probe_answers smollm2-135m-instruct
    python -m studies.probe_answers NAME http://127.0.0.1:8000/v1 weights_sha256=…
    server=…

asks the small model, or a server that completes texts, and stores the answers for the
book. What is stored is kept: the same command asks only for what is missing.
"""

import json
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from lsalib.sts import design, models, prompts, records
from studies.provenance import provenance

GUESSES = (1.0, 2.0, 3.0, 4.0)
PROMPTS = 32


def probe(
    path: Path, asked: design.Experiment, ask: Callable[[str], str], versions: dict
) -> None:
    """Ask about the first queries of an experiment, and store the answers, a list of
    four for each.
    """
    about = {"experiment": asdict(asked), "versions": versions, "guesses": GUESSES}
    known: dict = {**provenance("python -m studies.probe_answers"), **about}
    if path.exists():
        known = json.loads(path.read_text())
    answers: list = known.setdefault("answers", [])
    for item in design.items(asked, design.prepare(asked))[len(answers) : PROMPTS]:
        moved = [item.query._replace(guess=guess) for guess in GUESSES]
        answers.append(
            [
                ask(str(prompts.build(item.context, query, guesses=True)))
                for query in moved
            ]
        )
        path.write_text(json.dumps(known, separators=(",", ":")))


def completions(name: str, url: str) -> Callable[[str], str]:
    """What a server of OpenAI's protocol writes after a text, up to the end of its
    line.
    """

    def ask(text: str) -> str:
        body = {
            "model": name,
            "prompt": text,
            "max_tokens": 150,
            "temperature": 0,
            "stop": ["\n"],
        }
        request = urllib.request.Request(
            f"{url}/completions", json.dumps(body).encode()
        )
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=3600) as response:
            return json.load(response)["choices"][0]["text"]

    return ask


if __name__ == "__main__":
    name, *server = sys.argv[1:]
    if server:
        ask, versions = (
            completions(name, server[0]),
            dict(each.split("=", 1) for each in server[1:]),
        )
    else:
        small = models.open_model(name)
        ask, versions = (
            lambda text: small.complete([text], max_new_tokens=150, stop="\n")[0],
            dict(small.version),
        )
    home = records.FOLDER / "probes"
    home.mkdir(exist_ok=True)
    probe(
        home / f"{name}.json", design.Experiment(name, "guess", "strong"), ask, versions
    )
