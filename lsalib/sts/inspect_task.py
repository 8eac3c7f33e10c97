"""The experiment as a task of Inspect (https://inspect.aisi.org.uk), for any model that Inspect can ask.

``inspect eval lsalib/stsb --model vllm/Qwen/Qwen2.5-7B-Instruct -T guess=strong --log-dir logs`` runs it; in a checkout
the file's path can stand in place of ``lsalib/stsb``. Inspect asks several prompts at once, repeats requests that fail,
resumes (``inspect eval-retry``) and shows the answers (``inspect view``). ``python -m lsalib.sts show logs`` compares
the conditions run by run.
"""

from dataclasses import asdict
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, GenerateConfig, Model, get_model
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, mean, metric, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from lsalib.sts import design, results
from lsalib.sts.experiment import ANSWERS, facts
from lsalib.sts.prompts import digest

__all__ = ["stsb"]

# How a server of vLLM is told to read an answer as the beginning of the assistant's own message.
_PREFILL = {"continue_final_message": True, "add_generation_prompt": False}


@task
def stsb(
    condition: str | list[str] = "none,guess,shuffled",
    guess: str = "concat",
    style: str = "chat",
    probe: bool = False,
    readout: str = "written",
    **settings: int | str,
) -> Task:
    """The same queries and contexts in one or more conditions.

    Args:
        condition: one or more, separated by commas.
        guess: which model makes the guesses.
        style: "chat"; "prefill", a chat whose answer begins with “Score:”, for a provider that continues it, such as
            vllm; or "completion" for a provider that continues a text, such as vllm-completions.
        probe: whether numbers in the prompt are moved, one kind at a time.
        readout: "written", or "both" where the provider gives the prompt's log-probabilities, as vllm does.
        settings: other fields of ``lsalib.sts.design.Experiment``, as in draw=1, seed=1, runs=20.
    """
    if readout not in ("written", "both"):
        raise ValueError(f"readout must be written or both, got {readout!r}")
    samples, prompts = [], []
    for name in condition.split(",") if isinstance(condition, str) else condition:
        for moved in design.CHOICES["moved"][1:] if probe else (None,):
            asked = design.Experiment("", name, guess, style, moved=moved, **settings)  # type: ignore[arg-type]
            arm = f"{name}, {moved} moved" if moved else name
            for item in design.items(asked, design.prepare(asked)):
                known = facts(item) | {"arm": arm, "experiment": asdict(asked)}
                text: Any = design.prompt(asked, item)
                prompts.append(text)
                samples.append(Sample(text, target=str(item.query.score), id=f"{arm}: {item.run}", metadata=known))
    config = GenerateConfig(temperature=0.0, max_tokens=asked.max_new_tokens)
    config.stop_seqs = None if style == "chat" else ["\n"]
    config.extra_body = _PREFILL if style == "prefill" else None
    # Answers to other prompts are another experiment, which Inspect does not continue.
    version = digest(prompts)
    return Task(samples, solver=ask(style, readout), scorer=squared_error(), config=config, version=version)


@solver
def ask(style: str, readout: str) -> Solver:
    """The written answer, and with the readout "both" the log-probabilities of all answers, in the metadata."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        model, messages = get_model(), list(state.messages)
        continues = "-completions" in str(model).partition("/")[0]
        if continues != (style == "completion"):
            hint = "completion needs vllm-completions or openai-api-completions, chat any other provider"
            raise ValueError(f"style must be one that the provider can ask, got {style} for {model}: {hint}")
        state = await generate(state)
        if readout == "both":
            state.metadata["logprobs"] = [await _logprob(model, messages, answer) for answer in ANSWERS]
        return state

    return solve


@metric(name="mean")
def by_condition() -> Metric:
    """The mean over each condition and over all, with its standard error; a cluster is a run, in all conditions."""
    measures: dict[str, Any] = {"": mean(), ", stderr": stderr(cluster="run")}

    def values(scores: list[SampleScore]) -> Value:
        groups: dict[str, list[SampleScore]] = {"all": scores}
        for one in scores:
            groups.setdefault(str((one.sample_metadata or {}).get("arm")), []).append(one)
        return {arm + what: measure(some) for arm, some in groups.items() for what, measure in measures.items()}

    return values


@scorer(metrics={"squared error": [by_condition()], "unreadable": [by_condition()]})
def squared_error() -> Scorer:
    """The squared error of the written score; where that is unreadable, of the mean score of the context."""

    async def score(state: TaskState, target: Target) -> Score:
        record = state.metadata | {"answer": state.output.completion}
        found = results.outcome({"records": [record]})
        error = float((found.prediction[0] - found.truth[0]) ** 2)
        return Score(value={"squared error": error, "unreadable": int(found.failed[0])}, answer=record["answer"])

    return score


async def _logprob(model: Model, messages: list, answer: str) -> float:
    """log p(answer | prompt): the sum over the tokens at the end of a prompt that goes on with the answer."""
    config = GenerateConfig(temperature=0.0, max_tokens=1, prompt_logprobs=1)
    if messages[-1].text.endswith("Score:"):  # a text, or an answer that was begun
        answer = " " + answer
        asked: list = [*messages[:-1], messages[-1].model_copy(update={"content": messages[-1].text + answer})]
        config.extra_body = _PREFILL if len(messages) > 1 else None
    else:
        asked, config.extra_body = [*messages, ChatMessageAssistant(content=answer)], _PREFILL
    told = (await model.generate(asked, config=config)).choices[0].prompt_logprobs
    words, total = "", 0.0
    for token in reversed(told.content if told else []):
        if len(words) < len(answer):
            words, total = token.token + words, total + token.logprob
    if words != answer:
        hint = "the provider gives no log-probabilities of a prompt, or a token does not begin where the answer does"
        raise ValueError(f"readout must be written for {model}, got both: {hint}")
    return total
