"""Any causal language model of Hugging Face, by transformers and PyTorch: for a GPU, or a small model on a CPU."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from lsalib import _validate
from lsalib.sts.models import text

__all__ = ["TransformersModel"]

INSTALL = "pip install 'transformers>=4.56' torch accelerate"
# Templates that print today's date would make a prompt change over night.
_DATE = "26 Jul 2024"


class TransformersModel:
    """A model of Hugging Face as a ``LanguageModel``.

    Decoding is the plain argmax: what a model's own generation settings add (Qwen2.5 comes with a
    repetition penalty of 1.05) is left out.

    Args:
        model: its name, as in ``Qwen/Qwen2.5-7B-Instruct``, or a folder.
        load_in_4bit: by bitsandbytes, so that 8 billion weights fit a GPU of 15 GB.
        batch_size: how many prompts are read at once.
        device: as PyTorch names it; None means the GPU where there is one.
        revision: branch, tag or commit; None means the main branch.

    Raises:
        ImportError: if transformers, torch or, for 4 bits, bitsandbytes is missing.
        OSError: if the model cannot be found, or asks for a login.
        ValueError: if ``batch_size`` is not a whole number of at least 1.

    Source: Wolf et al. (2020).
    """

    def __init__(
        self,
        model: str,
        *,
        load_in_4bit: bool = False,
        batch_size: int = 8,
        device: str | None = None,
        revision: str | None = None,
    ):
        self.batch_size = _validate.count("batch_size", batch_size)
        try:
            import torch
            import transformers
        except ImportError as error:
            raise ImportError(
                f"models of Hugging Face are run by transformers and torch ({error}): {INSTALL}"
            ) from None
        self._torch = torch
        self._device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        options = {"dtype": _number_type(torch, self._device), "revision": revision}
        if load_in_4bit:
            options |= {
                "quantization_config": _four_bits(transformers, options["dtype"]),
                "device_map": {"": self._device},
            }
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(model, revision=revision, padding_side="left")
            loaded = transformers.AutoModelForCausalLM.from_pretrained(model, **options)
        except OSError as error:
            raise OSError(
                f"model must be a causal language model that can be loaded, got {model!r} ({error}); a gated one needs `hf auth login`"
            ) from None
        self._model = (loaded if load_in_4bit else loaded.to(self._device)).eval()
        end = self._model.generation_config.eos_token_id or self._tokenizer.eos_token_id
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        self._model.generation_config = transformers.GenerationConfig(
            do_sample=False, eos_token_id=end, pad_token_id=self._tokenizer.pad_token_id
        )
        self.name = f"hf:{model}"
        commit = getattr(loaded.config, "_commit_hash", None) or revision or "unknown"
        self.version = {
            "transformers": transformers.__version__,
            "torch": torch.__version__,
            "model": model,
            "commit": commit,
        }
        self.version |= {
            "weights": "4 bit" if load_in_4bit else str(options["dtype"]),
            "device": self._device.partition(":")[0],
        }

    def complete(
        self,
        prompts: list[str],
        *,
        max_new_tokens: int,
        stop: Sequence[str] = (),
        on_answer: Callable[[int, str], None] | None = None,
    ) -> list[str]:
        """Continue plain texts; see ``LanguageModel``."""
        text.check_prompts(prompts)
        text.cut("", stop)
        return self._generate(prompts, True, max_new_tokens, stop, on_answer)

    def chat(
        self,
        conversations: list[text.Conversation],
        *,
        max_new_tokens: int,
        on_answer: Callable[[int, str], None] | None = None,
    ) -> list[str]:
        """Answer conversations, by the model's own template; see ``LanguageModel``."""
        return self._generate(self._rendered(conversations), False, max_new_tokens, (), on_answer)

    def score_logprobs(
        self, prompts: list[str] | list[text.Conversation], answers: Sequence[str]
    ) -> Float[np.ndarray, "n A"]:
        """Log-probability of each answer after each prompt or conversation; see ``LanguageModel``."""
        text.check_answers(answers)
        plain = not prompts or isinstance(prompts[0], str)
        text.check_prompts(prompts) if plain else None
        with self._torch.inference_mode():
            rows = [self._score(prompt, plain, answers) for prompt in (prompts if plain else self._rendered(prompts))]
        return np.array(rows, np.float64).reshape(len(prompts), len(answers))

    def _rendered(self, conversations: list[text.Conversation]) -> list[str]:
        text.check_conversations(conversations)
        render = self._tokenizer.apply_chat_template
        return [
            render(conversation, tokenize=False, add_generation_prompt=True, date_string=_DATE)
            for conversation in conversations
        ]

    def _generate(self, prompts, special, max_new_tokens, stop, on_answer) -> list[str]:
        limits = {"max_new_tokens": _validate.count("max_new_tokens", max_new_tokens)}
        if stop:
            limits |= {"stop_strings": list(stop), "tokenizer": self._tokenizer}
        answers = [""] * len(prompts)
        order = sorted(range(len(prompts)), key=lambda n: len(prompts[n]))
        for begin in range(0, len(order), self.batch_size):
            some = order[begin : begin + self.batch_size]
            batch = self._tokenizer(
                [prompts[n] for n in some], return_tensors="pt", padding=True, add_special_tokens=special
            ).to(self._device)
            with self._torch.inference_mode():
                made = self._model.generate(input_ids=batch.input_ids, attention_mask=batch.attention_mask, **limits)
            for n, row in zip(some, made[:, batch.input_ids.shape[1] :], strict=True):
                answers[n] = text.cut(self._tokenizer.decode(row, skip_special_tokens=True), stop)
                if on_answer is not None:
                    on_answer(n, answers[n])
        return answers

    def _score(self, prompt: str, special: bool, answers: Sequence[str]) -> list[float]:
        """The prompt is read once; then the answers' distinct beginnings, side by side, each without its last token."""
        torch = self._torch
        ids, endings = answer_tokens(
            lambda words: self._tokenizer(words, add_special_tokens=special).input_ids, prompt, answers
        )
        read = self._model(torch.tensor([ids], device=self._device), use_cache=True, logits_to_keep=1)
        first = torch.log_softmax(read.logits[0, -1].double(), -1)
        beginnings = {
            beginning: row for row, beginning in enumerate(dict.fromkeys(tuple(ending[:-1]) for ending in endings))
        }
        width = max(map(len, beginnings))
        if width:
            rows = torch.tensor(
                [[*beginning, *[0] * (width - len(beginning))] for beginning in beginnings], device=self._device
            )
            read.past_key_values.batch_repeat_interleave(len(rows))
            positions = torch.arange(len(ids), len(ids) + width, device=self._device)[None].expand(len(rows), -1)
            later = torch.log_softmax(
                self._model(rows, past_key_values=read.past_key_values, position_ids=positions).logits.double(), -1
            )
        total = []
        for ending in endings:
            after = [first] + [later[beginnings[tuple(ending[:-1])], k] for k in range(len(ending) - 1)]
            total.append(sum(float(logp[token]) for logp, token in zip(after, ending, strict=True)))
        return total


def answer_tokens(
    encode: Callable[[str], list[int]], prompt: str, answers: Sequence[str]
) -> tuple[list[int], list[list[int]]]:
    """The tokens of a prompt, and those that follow them in prompt and answer together.

    Args:
        encode: text to token ids.
        prompt: what the answers follow.
        answers: the answers.

    Returns:
        The prompt's tokens, and each answer's.

    Raises:
        ValueError: if an answer changes the tokens of the prompt: the model would not write it this way.

    Example:
        >>> encode = lambda words: [len(word) for word in words.split()]
        >>> answer_tokens(encode, "Score is ", ["3", "3 .5"])
        ([5, 2], [[1], [1, 2]])
    """
    ids = encode(prompt)
    endings = []
    for answer in answers:
        joined = encode(prompt + answer)
        if joined[: len(ids)] != ids or len(joined) == len(ids):
            raise ValueError(
                f"answers must begin where a token begins, got {answer!r} after {prompt[-20:]!r}; move spaces from one to the other"
            )
        endings.append(joined[len(ids) :])
    return ids, endings


def _number_type(torch, device: str):
    """float32 on a CPU, bfloat16 on a GPU that computes with it, else float16."""
    if not device.startswith("cuda"):
        return torch.float32
    return torch.bfloat16 if torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16


def _four_bits(transformers, number_type):
    try:
        import bitsandbytes  # noqa: F401
    except ImportError as error:
        raise ImportError(f"load_in_4bit needs bitsandbytes ({error}): pip install bitsandbytes") from None
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=number_type
    )
