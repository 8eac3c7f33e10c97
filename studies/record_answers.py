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
from pathlib import Path

from lsalib.sts import design, prompts, records
from studies.provenance import provenance


def store(folder: Path, home: Path) -> None:
    """Store all results of a folder, one file each; of an unfinished run what ``own``
    counts.
    """
    for result in records.own(folder):
        asked = design.Experiment(**result["experiment"])
        items = design.items(asked, design.prepare(asked))
        rows = [
            row | {"answer": without_sentences(row["answer"], items[row["run"]])}
            for row in result["records"]
        ]
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
    words or more in a row of one.
    """
    quotes = []
    for text in [text for pair in (*item.context, item.query) for text in pair[:2]]:
        words = re.findall(r"\w+", text)
        least = min(4, len(words))
        for end in range(least, len(words) + 1):
            quotes += [words[begin:end] for begin in range(end - least + 1)]
    longest_first = sorted(filter(None, quotes), key=len, reverse=True)
    quoted = "|".join(r"\W+".join(words) for words in longest_first)
    return re.sub(rf"\b({quoted})\b", "…", answer, flags=re.IGNORECASE)


if __name__ == "__main__":
    store(Path(sys.argv[1]), records.FOLDER)
