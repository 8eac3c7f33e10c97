"""The experiment as a task of Inspect (https://inspect.aisi.org.uk), for any model that
Inspect can ask.

``inspect eval lsalib/stsb --model vllm/Qwen/Qwen2.5-7B-Instruct -T guess=strong
--log-dir logs`` runs it, and ``python -m lsalib.sts show logs`` compares the
conditions. ``lsalib/smollm2-135m-instruct`` is a model in this process.
"""

import re
from dataclasses import asdict
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig, ModelAPI, ModelOutput, get_model, modelapi
from inspect_ai.solver import Generate, Solver, TaskState, solver
from tenacity import RetryError

from lsalib.sts import design, models
from lsalib.sts.prompts import digest

ALL = ",".join(design.CHOICES["condition"])


@task
def stsb(
    condition: str | list[str] = ALL,
    guess: str = "concat",
    style: str = "chat",
    **settings: int,
) -> Task:
    """The same queries and contexts in one or more conditions.

    Args:
        condition: one or more, separated by commas.
        guess: which model makes the guesses.
        style: "chat", or "completion" for a provider that continues a text, such as
            vllm-completions.
        settings: other fields of ``lsalib.sts.design.Experiment``, as in draw=1,
            seed=1, runs=20.
    """
    found, prompts = [], []
    for name in condition.split(",") if isinstance(condition, str) else condition:
        asked = design.Experiment("", name, guess, style, **settings)
        for item in design.items(asked, design.prepare(asked)):
            known = {"condition": name, "experiment": asdict(asked)}
            known |= design.facts(item)
            text: Any = design.prompt(asked, item)
            prompts.append(text)
            found.append(Sample(text, id=f"{name}: {item.run}", metadata=known))
    # Query by query, so that what is answered so far is a comparison.
    samples = [
        sample for run in range(asked.runs) for sample in found[run :: asked.runs]
    ]
    config = GenerateConfig(temperature=0.0, max_tokens=asked.max_new_tokens)
    config.stop_seqs = None if style == "chat" else ["\n"]
    # Answers to other prompts are another experiment, which Inspect does not continue.
    return Task(samples, solver=ask(style), config=config, version=digest(prompts))


@solver
def ask(style: str) -> Solver:
    """The written answer, from a provider that can ask in this style."""
    said: list[str] = []

    async def listen(response):
        """Keep what a server says with the status of success, but without an answer."""
        await response.aread()
        if not re.search(r'"choices":\s*\[\s*\{', response.text):
            said[:] = [response.text]

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        model = get_model()
        design.check_style(str(model), style)
        client = getattr(model.api, "http_client", None)
        if client and listen not in client.event_hooks["response"]:
            client.event_hooks["response"].append(listen)
        try:
            return await generate(state)
        except (IndexError, TypeError, RetryError) as error:
            words = error.__cause__ or "".join(said)
            raise ValueError(f"no answer, but {words}") from error

    return solve


@modelapi("lsalib")
class InProcess(ModelAPI):
    """The small model of this package, in this process."""

    def __init__(self, model_name, base_url=None, api_key=None, config=None, **_):
        super().__init__(model_name, base_url, api_key, [], config or GenerateConfig())
        self.model = models.open_model(model_name)

    def max_connections(self) -> int:
        return 1

    async def generate(self, input, tools, tool_choice, config) -> ModelOutput:
        (prompt,), (stop,) = input, config.stop_seqs
        (answer,) = self.model.complete(
            [prompt.text], max_new_tokens=config.max_tokens, stop=stop
        )
        return ModelOutput.from_content(self.model_name, answer)
