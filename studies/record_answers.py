"""Store a language model's answers for the book, without the sentences of their
prompts.

The command line asks the model, and then they are stored from its folder:

    for draw in 0 1 2; do python -m lsalib.sts run --out answers/$draw --draw $draw \\
        --seed $draw --guess strong --condition none guess shuffled; done
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
    """Store all results of a folder, one file each; of an unfinished run what ``own``
    counts.
    """
    for result in records.own(folder):
        asked = design.Experiment(**result["experiment"])
        items = design.items(asked, design.prepare(asked))
        rows = []
        for row in result["records"]:
            answer = without_sentences(row["answer"], items[row["run"]])
            rows.append(row | {"answer": answer})
        made = provenance("python -m studies.record_answers")
        write(asked, items, made | {"versions": result["versions"]}, rows, home)


def write(
    asked: design.Experiment,
    items: list[design.Item],
    about: dict,
    rows: list[dict],
    home: Path = records.FOLDER,
) -> None:
    """Write one result by columns, with the digest of all prompts of its experiment."""
    texts = [design.prompt(asked, item) for item in items]
    made = about | {"experiment": asdict(asked), "prompts": prompts.digest(texts)}
    made["records"] = {name: [row[name] for row in rows] for name in rows[0]}
    parts = (
        asked.model.rpartition("/")[2],
        asked.style,
        asked.condition,
        asked.guess_model,
        asked.draw,
    )
    name = "-".join(str(part) for part in parts if part is not None)
    text = json.dumps(made, separators=(",", ":"), ensure_ascii=False)
    (home / f"{name}.json").write_text(text, encoding="utf-8")
    print(name)


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
