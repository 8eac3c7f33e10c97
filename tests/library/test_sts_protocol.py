"""What the experiment asks of a model: answers one a prompt, one by one or all at once, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from sts_support import Fake, last_guess, made_up

from lsalib.sts import experiment
from lsalib.sts.design import Experiment

SOURCES = made_up()
ASKED = Experiment("fake", "guess", runs=20, context_size=5)


class Lazy(Fake):
    def complete(self, prompts, **options):
        return super().complete(prompts[1:], **options)


values = "the log-probabilities of the model must"


@pytest.mark.parametrize(
    ("model", "size", "message"),
    [
        (Fake(last_guess, name="other"), 8, "model must be the experiment's, 'fake', got 'other'"),
        (Fake(lambda prompt: None), 8, "an answer of the model must be a text, got None"),
        (Lazy(last_guess), 8, "model fake must give 8 answers, one a prompt, got 7"),
        (Fake(last_guess, lambda prompt: np.zeros(50)), 8, rf"{values} have shape \(51,\), got shape \(50,\)"),
        (Fake(last_guess, lambda prompt: np.full(51, np.nan)), 8, f"{values} be finite"),
        (Fake(last_guess), 0, "batch_size must be a whole number of at least 1, got 0"),
    ],
)
def test_a_model_that_does_not_keep_to_its_protocol_is_named(model, size, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        experiment.run(ASKED, model, SOURCES, tmp_path, batch_size=size)


class Silent(Fake):
    """Gives all answers at once, and never calls back."""

    def complete(self, prompts, **options):
        return super().complete(prompts, **options | {"on_answer": None})

    def score_logprobs(self, prompts, answers, **options):
        return super().score_logprobs(prompts, answers, on_answer=lambda place, row: None)


@pytest.mark.parametrize("style", ["completion", "chat"])
def test_a_model_may_give_its_answers_all_at_once(style, tmp_path):
    asked = replace(ASKED, style=style)
    given = last_guess, lambda prompt: np.linspace(-2, 0, 51)
    one_by_one, at_once = (
        experiment.run(asked, kind(*given), SOURCES, tmp_path / kind.__name__) for kind in (Fake, Silent)
    )
    assert at_once["records"] == one_by_one["records"] and len(at_once["records"][0]["logprobs"]) == 51
