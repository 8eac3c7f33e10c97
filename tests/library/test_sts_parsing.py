"""Scores out of answers: each rule by example, and any text at all."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from lsalib.sts.results import parse

# Answers by their score, with a bar between them; the first of each are in the words of the prompt.
READ = {
    0: "0",
    0.067: "0.067",
    5: "5.0|05",
    4.75: "4.75.",
    0.5: ".5",
    2.75: "Score: 2.75",
    3: "The initial guess for the last pair was 2.31; I refine it to 3.0|I refine the initial guess of 2.31 to 3.0"
    "|I refine the initial guess of the last pair to 3.0|Sentence 1 and sentence 2 are close: 3"
    "|Initial guess: 2.31\nScore: 3.0|12 words, 3 in common|10/5 or 3/5|I'd move 2.31 up to 3"
    "|3. Because 2 of 4 words agree"
    "|I start from the initial guess of 2.5 and say 3|3\nSentence 2 has 4 words|Initial score of 2.31, Final: 3"
    "|on the scale 0 to 5: 3|Based on the initial guess of 2.31, the refined similarity score is 3.0.",
    3.4: "My refined guess is 3.4|I would refine my score on the scale from 0 to 5: 3.4",
    3.5: "Similarity score for the last pair: 3.5|Refined similarity score for the last pair: 3.5|3,5"
    "|Refined guess for the last pair: **3.5**|I would rate the last pair 3.5 out of 5.|Similarity score: 3.5/5"
    "|Both mention 2 dogs. The similarity score is **3.5**|Score: 2.5 at first sight, final score: 3.5",
    3.8: "3.8| 3.8\n|3.8, since both have 2 dogs"
    "|The refined similarity score for the last pair is **3.8** (from 0 to 5).",
    2.8: "I refine 2.31 upward. Final: 2.8|I refined 2.31 a bit. Final answer: **2.8**|2.31 -> 2.8|2.31 → 2.8"
    "|Raised from 2.31 to 2.8|I adjust the guess of 2.31 by 0.49 to 2.8|The original rating was 2.31; 2.8",
    4: "I would rate this pair 4.0|I rate this pair 4|**4**|__4__|4/5|4 / 5|I'd say 4.|- 4|Well,4|...4|(4.0)"
    "|Score between 0 and 5: 4|Both mention 2 dogs. Rating: 4|Score: -1, or rather 4|v2 says 4|4." + "0" * 5000,
    4.2: "On a scale of 0 to 5, I say 4.2.|On a scale of 5: 4.2",
    4.5: "4.5 out of 5",
}
UNREADABLE = [
    "",
    *"none nan inf -2 \u22122 \u20132 3-4 8/10 3/4 80% 1e5 4.5.6 1,2,3 v2 2nd 3D 4½ ½ x² 5.0001 #3".split(),
]
UNREADABLE += [
    "3 \u2013 4",
    "3 to 4",
    "between 2 and 3",
    "2 out of 3",
    "4 %",
    "9" * 5000,
    "sentence 1",
    "pair 2 is close",
]
# More than one number, and nothing that says which.
UNREADABLE += ["Both mention 2 dogs and 3 cats", "Score: 3 or 4", "2.31 seems low, 2.8", "Score: 3. Score: 4"]
UNREADABLE += ["3 dogs run in both, so 4", "The guess of 2.31 is low; I say 2.8", "Final: 3. Or final: 4", "by 0.5"]

CASES = [(text, score) for score, texts in READ.items() for text in texts.split("|")]
CASES += [(text, None) for text in UNREADABLE]


def test_an_answer_is_read_by_its_rule():
    assert [(text, score, parse(text)) for text, score in CASES if parse(text) != score] == []


PIECES = "score|Score:|sentence 1|4|3.5|-|\u2212|/5|/10|%|to|between|and|out of 5|,|.| |\n|٣|½|nan|*".split("|")
PIECES = st.sampled_from([*PIECES, "9" * 400])


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.one_of(st.text(), st.lists(PIECES).map("".join), st.floats(width=32).map(str)))
def test_any_text_gives_a_score_or_none(text):
    score = parse(text)
    assert score is None or (type(score) is float and 0 <= score <= 5)


def work(text: str) -> float:
    """The processor's time for reading a text, whatever else the machine does."""
    begin = time.process_time()
    parse(text)
    return time.process_time() - begin


def test_sixteen_times_the_text_is_sixteen_times_the_work():
    """And not 256 times, as where a rule begins again at every sign."""
    for piece in ("1", "1.", "1,", "1-", "score ", "between 1 ", "raise ", "raise 1 ", "from 1 "):
        text = (piece * 50_000)[:50_000] + "a"
        assert work(text) < 64 * max(work(text[-3_125:]), 1e-3), piece
