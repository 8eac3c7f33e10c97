"""Scores out of answers: each rule by example, and any text at all."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsalib.sts.parsing import MODES, parse

STRICT = {"3": 3, " 3.8\n": 3.8, "4.": 4, "4.75.": 4.75, "0": 0, "5.0": 5, "0.067": 0.067, "05": 5}
NOT_STRICT = [
    "",
    " ",
    ".",
    ".5",
    "5.01",
    "6",
    "-1",
    "+1",
    "4/5",
    "3,5",
    "Score: 3",
    "**4**",
    "3 4",
    "3..",
    "nan",
    "inf",
    "1e0",
    "٣",
    "４",
    "4 out of 5",
    "9" * 5000,
    "3\x00",
]

LENIENT = {
    "3.8": 3.8,
    "Score: 2.75": 2.75,
    "**4**": 4,
    "__4__": 4,
    "4/5": 4,
    "4 / 5": 4,
    "4.5 out of 5": 4.5,
    "3,5": 3.5,
    "I'd say 4.": 4,
    "- 4": 4,
    "Well,4": 4,
    ".5": 0.5,
    "...4": 4,
    "(4.0)": 4,
    "٣": 3,
    "４.５": 4.5,
    "4." + "0" * 5000: 4,
    "Score between 0 and 5: 4": 4,
    "On a scale of 0 to 5, I say 4.2.": 4.2,
    "On a scale of 5: 4.2": 4.2,
    "Sentence 1 and sentence 2 are close: 3": 3,
    "Both mention 2 dogs. Rating: 4": 4,
    "Both mention 2 dogs. The similarity score is **3.5**": 3.5,
    "Both mention 2 dogs and 3 cats": 2,
    "Initial guess: 2.31\nScore: 3.0": 3,
    "I start from the initial guess of 2.5 and say 3": 3,
    "My refined guess is 3.4": 3.4,
    "Score: -1, or rather 4": 4,
    "The score is 4 and 5 is the most": 4,
    "v2 says 4": 4,
    "12 words, 3 in common": 3,
    "10/5 or 3/5": 3,
}
NOT_LENIENT = [
    "",
    "none",
    "nan",
    "inf",
    "-2",
    "\u22122",
    "\u20132",
    "3-4",
    "3 \u2013 4",
    "3 to 4",
    "between 2 and 3",
    "8/10",
    "80%",
    "4 %",
    "1e5",
    "4.5.6",
    "1,2,3",
    "v2",
    "2nd",
    "3D",
    "4½",
    "½",
    "x²",
    "5.0001",
    "9" * 5000,
    "sentence 1",
    "#3",
]


@pytest.mark.parametrize("text", STRICT)
def test_strict_reads(text):
    assert parse(text) == STRICT[text] and parse(text, "lenient") == STRICT[text]


@pytest.mark.parametrize("text", NOT_STRICT)
def test_strict_refuses(text):
    assert parse(text, "strict") is None


@pytest.mark.parametrize("text", LENIENT)
def test_lenient_reads(text):
    assert parse(text, "lenient") == LENIENT[text]


@pytest.mark.parametrize("text", NOT_LENIENT)
def test_lenient_refuses(text):
    assert parse(text, "lenient") is None


PIECES = st.sampled_from(
    [
        "score",
        "Score:",
        "sentence 1",
        "4",
        "3.5",
        "-",
        "\u2212",
        "/5",
        "/10",
        "%",
        "to",
        "between",
        "and",
        "out of 5",
        ",",
        ".",
        " ",
        "\n",
        "9" * 400,
        "٣",
        "½",
        "nan",
        "*",
    ]
)


@settings(max_examples=600, deadline=None, derandomize=True)
@given(st.one_of(st.text(), st.lists(PIECES).map("".join), st.floats(width=32).map(str)))
def test_any_text_gives_a_score_or_none(text):
    strict, lenient = (parse(text, mode) for mode in MODES)
    for score in (strict, lenient):
        assert score is None or (type(score) is float and 0 <= score <= 5)
    assert strict is None or lenient == strict


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 5000))
def test_what_a_prompt_shows_is_read_back(thousandths):
    score = thousandths / 1000
    for text in (
        f" {score}",
        f"{score:.3f}.",
        f"Score: {score}",
        f"**{score}**",
        f"{score}/5",
        f"{score:.3f}".replace(".", ","),
    ):
        assert parse(text, "lenient") == score
    assert parse(f" {score}") == score


@pytest.mark.parametrize(
    "text",
    ["1" * 200_000 + "a", "1." * 100_000, "1," * 100_000, "1-" * 100_000, "score " * 50_000, "between 1 " * 20_000],
)
def test_a_long_answer_takes_no_long_time(text):
    begin = time.perf_counter()
    assert parse(text) is None
    parse(text, "lenient")
    assert time.perf_counter() - begin < 10, "quadratic work would take minutes"


def test_an_unknown_mode_is_refused(unchecked):
    with pytest.raises(ValueError, match="mode must be one of strict, lenient, got 'wild'"):
        parse("3", "wild")
