"""What is stored for the page: answers without sentences, and guesses that are changed."""

import numpy as np
import pytest

from lsalib.sts import design
from lsalib.sts.prompts import Example
from studies.experiments import language_models
from studies.record_answers import without_sentences


def test_answers_are_stored_without_the_sentences_of_their_prompts():
    """Whole sentences, and four words in a row of one; in another prompt's company an answer stays as it is."""
    context = [Example("A dog runs in the park.", "Rain", 3.0)]
    item = design.Item(0, 0, [0], context, Example("A cat sleeps.", "The cat is on a mat."))
    answer = "Sentence 1: a dog runs in the sun, rain. A cat sleeps! The cat is 3.5"
    assert without_sentences(answer, item) == "Sentence 1: … sun, …. …! The cat is 3.5"
    assert without_sentences(answer, item._replace(query=Example("One.", "Two."), context=[])) == answer


def test_a_guess_misses_its_score_by_one_half_on_either_side():
    """With the score's digit or another one; at the ends of the scale one side is left."""
    for score in np.arange(0.5, 4.5, 0.1):
        same, other = language_models.beside(score, True), language_models.beside(score, False)
        assert abs(same - score) == pytest.approx(0.5) == pytest.approx(abs(other - score))
        assert same // 1 == score // 1 != other // 1
    assert language_models.beside(5.0, True) == language_models.beside(5.0, False) == 4.5
