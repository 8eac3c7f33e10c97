"""Store a language model's answers for the book, without the sentences of their
prompts.

The command line asks the model, and then they are stored from its folder:

    for draw in 0 1 2; do python -m lsalib.sts run --out answers/$draw --draw $draw
    --seed $draw \\
        --guess strong --condition none guess shuffled; done
    python -m studies.record_answers answers
"""

import json
import re
import sys
from dataclasses import asdict
from itertools import groupby, product
from pathlib import Path

import numpy as np

from lsalib.sts import design, prompts, records
from studies.provenance import provenance


def store(folder: Path, home: Path) -> None:
    """Store all results of a folder, one file each, without sentences; of an unfinished
    run what ``own`` counts.
    """
    for result in records.own(folder):
        asked = design.Experiment(**result["experiment"])
        runs = design.items(asked, design.prepare(asked))
        digest = prompts.digest([design.prompt(asked, item) for item in runs])
        pairs = [(row, runs[row["run"]]) for row in result["records"]]
        rows = [
            row | {"answer": without_sentences(row["answer"], item)}
            for row, item in pairs
        ]
        made: dict = dict(provenance("python -m studies.record_answers"))
        made |= {
            "experiment": asdict(asked),
            "versions": result["versions"],
            "prompts": digest,
            "records": rows,
        }
        parts = (
            asked.model.rpartition("/")[2],
            asked.style,
            asked.condition,
            asked.guess_model,
            asked.draw,
        )
        path = (
            home / f"{'-'.join(str(part) for part in parts if part is not None)}.json"
        )
        path.write_text(
            json.dumps(made, separators=(",", ":"), ensure_ascii=False),
            encoding="utf-8",
        )
        print(path.name)


def without_sentences(answer: str, item: design.Item) -> str:
    """The answer with "…" in place of whole sentences of its prompt, and of any four
    words in a row of one.
    """
    words = lambda text: re.findall(r"\w+", text.lower())
    sentences = [
        words(text) for pair in (*item.context, item.query) for text in pair[:2]
    ]
    quotes = {
        tuple(one[k : k + 4]) for one in sentences for k in range(max(1, len(one) - 3))
    }
    found, hidden = list(re.finditer(r"\w+", answer)), np.zeros(len(answer), bool)
    for size, k in product(range(1, 5), range(len(found))):
        some = found[k : k + size]
        if tuple(one[0].lower() for one in some) in quotes:
            hidden[some[0].start() : some[-1].end()] = True
    pieces = groupby(range(len(answer)), key=hidden.__getitem__)
    return "".join(
        "…" if quoted else "".join(answer[k] for k in piece) for quoted, piece in pieces
    )


if __name__ == "__main__":
    store(Path(sys.argv[1]), records.FOLDER)
