"""What Qwen2.5-Coder answers, also where we set the last guess to 1, 2, 3 and 4.

    python -m studies.score_answers qwen2.5-coder-0.5b-instruct-q4_k_m.gguf 500

asks the first 500 queries in all conditions and stores the answers for the book.
"""

import hashlib
import sys
from pathlib import Path

import jax
import numpy as np
from tokenizers import Regex, pre_tokenizers

from lsalib.sts import _llama as llama
from lsalib.sts import design, models
from studies.provenance import provenance, versions
from studies.record_answers import write

SET = (1.0, 2.0, 3.0, 4.0)  # what we write in the place of the last guess
ASKED: list[tuple[str, str | None]] = [("none", None), ("constant", None)]
ASKED += [(name, net) for name in ("guess", "shuffled") for net in ("concat", "strong")]
RUNS = 1379  # all pairs of the test part; the first of them are asked
MOST = 16  # tokens of an answer: a number is shorter
# Qwen2's own split into words, before bytes are paired.
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class Qwen:
    """Qwen2 out of a GGUF file, in float32."""

    def __init__(self, path: Path):
        facts, tensor = models.read_gguf(path)
        self.config = llama.Config(*(facts[f"qwen2.{key}"] for key in models._CONFIG))
        size = facts["qwen2.embedding_length"] // self.config.heads

        def stack(name):
            depth = range(facts["qwen2.block_count"])
            found = np.stack([tensor(f"blk.{i}.{name}") for i in depth])
            if name.startswith(("attn_q.", "attn_k.")):
                # Entry i of a head turns with entry i + d/2 here; `forward` turns
                # neighbors.
                pairs = found.reshape(len(found), -1, 2, size // 2, *found.shape[2:])
                found = pairs.swapaxes(2, 3).reshape(found.shape)
            return found

        layers = {name: stack(f"{name}.weight") for name in models._LAYER}
        layers |= {
            f"{name}_bias": stack(f"{name}.bias")
            for name in ("attn_q", "attn_k", "attn_v")
        }
        embedding, output = tensor("token_embd.weight"), tensor("output.weight")
        params = llama.Params(embedding, output, tensor("output_norm.weight"), layers)
        self.params = jax.device_put(params)
        bytewise = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        split = [pre_tokenizers.Split(Regex(WORDS), "isolated"), bytewise]
        self.tokenizer = models.read_tokenizer(facts, pre_tokenizers.Sequence(split))
        count = len(self.params.output)
        words = [self.tokenizer.decode([token]) for token in range(count)]
        # An answer ends with its line, or at a control token, which decodes to nothing.
        self.stops = np.array(["\n" in word or not word for word in words])
        self.space, self.dot, *self.digits = (
            self.encode(sign)[0] for sign in " .0123456789"
        )

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text).ids

    def ask(self, text: str, ends: list[str]) -> tuple[list[str], list[float]]:
        """Answers to prompts that differ only in their ends: what is written, and the
        mean score.
        """
        tokens = self.encode(text)
        after = llama.read(self.params, self.config, tokens[:-1])
        rest = [self.encode(text + end)[len(tokens) - 1 :] for end in ends]
        answers = llama.greedy(after, np.array(rest), self.stops, MOST)
        written = [self.tokenizer.decode(each).partition("\n")[0] for each in answers]
        return written, [self._mean(after, branch) for branch in rest]

    def _mean(self, after, branch):
        """The mean of the score over the probabilities of its digits.

        The first is 0 to 5. The line then ends, or a dot and one or two digits follow;
        more than these are left out, and so is what follows a 5.
        """
        scores = [
            (self.space, self.digits[d], self.dot, e)
            for d in range(5)
            for e in self.digits
        ]
        blocks = np.array([[*branch, *score] for score in scores])
        p = np.asarray(jax.nn.softmax(after(blocks)[:, len(branch) :]), float)
        p = p.reshape(5, 10, 4, -1)  # first digit, second digit, place
        digit, dot, ten = p[..., self.digits], p[:, 0, 1, self.dot], np.arange(10)
        stop = p[..., self.stops].sum(-1)
        first = digit[0, 0, 0, :6] / digit[0, 0, 0, :6].sum()
        second = digit[:, 0, 2] / digit[:, 0, 2].sum(1, keepdims=True)
        third = digit[:, :, 3] @ ten / (digit[:, :, 3].sum(-1) + stop[:, :, 3])
        decimals = (
            (second * (ten / 10 + third / 100)).sum(1) * dot / (dot + stop[:, 0, 1])
        )
        return float(first @ np.arange(6) + first[:5] @ decimals)


def record(model: Qwen, asked: design.Experiment, item: design.Item) -> dict:
    """The answer to a prompt, and those to the guesses that we set."""
    text, ends = str(design.prompt(asked, item)), [""]
    if asked.condition != "none":
        shown = (item.query.guess, *(SET if asked.guess_model else ()))
        ends = [f"{guess:.2f}\nScore:" for guess in shown]
    (answer, *answers), means = model.ask(text.removesuffix(ends[0]), ends)
    expected, *others = np.round(means, 3).tolist()
    row = design.facts(item) | {"answer": answer, "expected": expected}
    return row | ({"set_answers": answers, "set_expected": others} if answers else {})


def main(path: Path, queries: int) -> None:
    model, name = Qwen(path), path.stem.removesuffix("-q4_k_m")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    about: dict = {"weights": path.name, "weights_sha256": digest, "dtype": "float32"}
    about |= versions("jax", "jaxlib", "gguf", "tokenizers")
    made = provenance("python -m studies.score_answers") | {"versions": about}
    for condition, net in ASKED:
        asked = design.Experiment(name, condition, net, runs=RUNS)
        items = design.items(asked, design.prepare(asked))
        rows = [record(model, asked, item) for item in items[:queries]]
        write(asked, items, made | ({"set": SET} if net else {}), rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
