"""The experiment as a task of Inspect (https://inspect.aisi.org.uk), for any model that
Inspect can ask.

``inspect eval lsalib/stsb --model vllm/Qwen/Qwen2.5-7B-Instruct -T guess=strong
--log-dir logs`` runs it, and ``python -m lsalib.sts show logs`` compares the
conditions. ``lsalib/smollm2-135m-instruct`` is a model in this process.
"""

from dataclasses import asdict
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig, ModelAPI, ModelOutput, get_model, modelapi
from inspect_ai.scorer import Score, Scorer, Target, grouped, mean, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

from lsalib.sts import design, models, results
from lsalib.sts.prompts import digest

__all__ = ["InProcess", "stsb"]

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
            known = design.facts(item) | {
                "condition": name,
                "experiment": asdict(asked),
            }
            text: Any = design.prompt(asked, item)
            prompts.append(text)
            found.append(
                Sample(
                    text,
                    target=str(item.query.score),
                    id=f"{name}: {item.run}",
                    metadata=known,
                )
            )
    # Query by query, so that what is answered so far is a comparison.
    samples = [
        sample for run in range(asked.runs) for sample in found[run :: asked.runs]
    ]
    config = GenerateConfig(temperature=0.0, max_tokens=asked.max_new_tokens)
    config.stop_seqs = None if style == "chat" else ["\n"]
    # Answers to other prompts are another experiment, which Inspect does not continue.
    version = digest(prompts)
    return Task(
        samples,
        solver=ask(style),
        scorer=squared_error(),
        config=config,
        version=version,
    )


@solver
def ask(style: str) -> Solver:
    """The written answer, from a provider that can ask in this style."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        design.check_style(str(get_model()), style)
        return await generate(state)

    return solve


@scorer(metrics=[grouped(mean(), "condition")])
def squared_error() -> Scorer:
    """The squared error of the written score; where that is unreadable, of the mean
    score of the context.
    """

    async def score(state: TaskState, target: Target) -> Score:
        answer = state.output.completion
        found = results.outcome({"records": [state.metadata | {"answer": answer}]})
        return Score(
            value=float((found.prediction[0] - found.truth[0]) ** 2), answer=answer
        )

    return score


@modelapi("lsalib")
class InProcess(ModelAPI):
    """The small model of this package, in this process."""

    def __init__(self, model_name, base_url=None, api_key=None, config=None, **_):
        super().__init__(model_name, base_url, api_key, [], config or GenerateConfig())
        self.model = models.open_model(model_name)

    def max_connections(self) -> int:
        return 1

    async def generate(self, input, tools, tool_choice, config) -> ModelOutput:
        """A single message is a text to complete: a chat of ours has two."""
        talk = [{"role": each.role, "content": each.text} for each in input]
        prompt: Any = talk if len(talk) > 1 else talk[0]["content"]
        (stop,) = config.stop_seqs or [""]
        (answer,) = self.model.complete(
            [prompt], max_new_tokens=config.max_tokens or 150, stop=stop
        )
        return ModelOutput.from_content(self.model_name, answer)
