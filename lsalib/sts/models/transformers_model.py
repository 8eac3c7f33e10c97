"""Any causal language model of Hugging Face, by transformers and PyTorch: for a GPU, or a small model on a CPU."""

import os
from collections.abc import Sequence
from functools import partial

import numpy as np

from lsalib import _validate
from lsalib.sts import files
from lsalib.sts.models import _text as text

INSTALL = "pip install 'transformers>=4.56' torch accelerate"
# Templates that print today's date would make a prompt change over night.
_DATE = "26 Jul 2024"


class TransformersModel(text.LanguageModel):
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
        # JAX, if it embeds sentences beside this model, would else begin with three quarters of the GPU's memory.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        install = f"{INSTALL} bitsandbytes" if load_in_4bit else INSTALL
        with files.needed("models of Hugging Face are run by transformers and torch", install):
            import torch
            import transformers

            if load_in_4bit:
                import bitsandbytes  # noqa: F401
        self._torch = torch
        self._device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        on_gpu = self._device.startswith("cuda")
        short = torch.bfloat16 if on_gpu and torch.cuda.get_device_capability(self._device)[0] >= 8 else torch.float16
        number_type = short if on_gpu else torch.float32
        options: dict = {"dtype": number_type, "revision": revision}
        if load_in_4bit:
            four_bits = {"bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": number_type}
            options["quantization_config"] = transformers.BitsAndBytesConfig(load_in_4bit=True, **four_bits)
            options["device_map"] = {"": self._device}
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(model, revision=revision, padding_side="left")
            loaded = transformers.AutoModelForCausalLM.from_pretrained(model, **options)
        except OSError as error:
            got = f"got {model!r} ({error}); a gated one needs `hf auth login`"
            raise OSError(f"model must be a causal language model that can be loaded, {got}") from None
        self._model = loaded if load_in_4bit else loaded.to(self._device)
        end = self._model.generation_config.eos_token_id or self._tokenizer.eos_token_id
        self._ends = set(end) if isinstance(end, list) else {end}
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        settings = {"do_sample": False, "eos_token_id": end, "pad_token_id": self._tokenizer.pad_token_id}
        self._model.generation_config = transformers.GenerationConfig(**settings)
        self.name = f"hf:{model}"
        commit = getattr(loaded.config, "_commit_hash", None) or revision or "unknown"
        self.version = {"transformers": transformers.__version__, "torch": torch.__version__}
        self.version |= {"model": model, "commit": commit, "device": self._device.partition(":")[0]}
        self.version["weights"] = "4 bit" if load_in_4bit else str(number_type)

    def _answer(self, asked, limit, stop, keep) -> None:
        limits: dict = {"max_new_tokens": limit}
        if stop:
            limits |= {"stop_strings": list(stop), "tokenizer": self._tokenizer}
        prompts = [self._written(prompt) for prompt in asked]
        special = not asked or isinstance(asked[0], str)
        tokens = partial(self._tokenizer, return_tensors="pt", padding=True, add_special_tokens=special)
        for some in text.batches(prompts, self.batch_size):
            batch = tokens([prompts[n] for n in some]).to(self._device)
            with self._torch.inference_mode():
                made = self._model.generate(input_ids=batch.input_ids, attention_mask=batch.attention_mask, **limits)
            for n, row in zip(some, made[:, batch.input_ids.shape[1] :], strict=True):
                finish = "stop" if self._ends.intersection(row.tolist()) else "length"
                keep(n, text.Answer(self._tokenizer.decode(row, skip_special_tokens=True), finish))

    def _score(self, asked, answers, keep, parts) -> None:
        for n, prompt in enumerate(asked):
            special = isinstance(prompt, str)
            encode = lambda texts, special=special: self._tokenizer(texts, add_special_tokens=special).input_ids
            with self._torch.inference_mode():
                keep(n, self._logprobs(*text.answer_tokens(encode, self._written(prompt), answers)))

    def _written(self, prompt: str | text.Conversation) -> str:
        options = {"tokenize": False, "add_generation_prompt": True, "date_string": _DATE}
        return prompt if isinstance(prompt, str) else self._tokenizer.apply_chat_template(prompt, **options)

    def _logprobs(self, ids: list[int], endings: Sequence[list[int]]) -> np.ndarray:
        """The prompt is read once; then the answers' distinct beginnings, side by side, each without its last token."""
        torch = self._torch
        tensor = lambda rows: torch.tensor(rows, device=self._device)
        read = self._model(tensor([ids]), use_cache=True, logits_to_keep=1)
        first = torch.log_softmax(read.logits[0, -1].double(), -1)
        beginnings = {part: row for row, part in enumerate(dict.fromkeys(tuple(ending[:-1]) for ending in endings))}
        width = max(map(len, beginnings))
        if width:
            rows = tensor([[*part, *[0] * (width - len(part))] for part in beginnings])
            read.past_key_values.batch_repeat_interleave(len(rows))
            positions = tensor([list(range(len(ids), len(ids) + width))]).expand(len(rows), -1)
            later = self._model(rows, past_key_values=read.past_key_values, position_ids=positions).logits
            later = torch.log_softmax(later.double(), -1)
        after = lambda ending: [first, *(later[beginnings[tuple(ending[:-1])], k] for k in range(len(ending) - 1))]
        total = lambda ending: sum(float(logp[token]) for logp, token in zip(after(ending), ending, strict=True))
        return np.array([total(ending) for ending in endings])
