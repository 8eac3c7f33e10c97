"""The score in an answer."""

import re

# A number, which no letter or digit touches.
_N = r"(?<![^\W_])(?<!\d[.,])(?:\d++(?:[.,]\d++)?+|(?<!\.)\.\d++)(?![^\W_])(?![.,]\d)"
_CHANGE = r"\b(?:refin|adjust|rais|lower|increas|decreas|chang|revis|updat|correct|mov|shift)\w{0,3}\b[^\d.\n]{0,40}"

# What is no score goes first, rule by rule; where a rule keeps a number of several, it is the group.
_LEFT_OUT = [
    r"\b0(?:\.0)?\s?(?:to|and|-|–)\s?5(?:\.0)?\b",  # the scale
    rf"({_N})\s?(?:/|\bout of\b)\s?5(?:\.0)?(?![\w/]|\.\d)",  # of five
    rf"{_N}\s?(?:->|=>|→)\s?({_N})",  # from one to another
    rf"{_CHANGE}{_N}[a-z ]{{0,12}}(?:\bby {_N} )?\b(?:in)?to ({_N})",
    rf"\bbetween {_N} and {_N}|{_N}\s?(?:[-/–]|\b(?:to|or|out of)\b)\s?{_N}|[-−–]{_N}|{_N}\s?%",
    r"(?:\b(?:sentence|example|step)s?|\b(?<!this )(?<!last )pair|#)\W{0,2}\d++(?!\.\d)",  # the number of something
    rf"\b(?:by|scale of) {_N}",
    rf"\b(?:initial|original|prior|given) (?:guess|score|rating|estimate)\b(?:(?!\bto\b)[^\d\n;]){{0,60}}{_N}",
]
_RULES = [(re.compile(rule, re.IGNORECASE), rule.count(f"({_N})") > 0) for rule in _LEFT_OUT]
# What comes before a number in its sentence, and says that it is the score; the first that fits anywhere counts.
_LABELS = [
    re.compile(rf"\b(?:{word})\b[^\d\n;!?]{{0,60}}\Z", re.IGNORECASE)
    for word in ("final|refined (?:similarity|score|rating|guess|estimate|answer)", "score|rating|similarity|rate")
]
_LEADING = re.compile(rf"\W*{_N}(?![^\S\n]*\w)")


def parse(text: str) -> float | None:
    """Read the score in an answer, between 0 and 5, or None where there is none, or more than one.

    Numbers of something else are left out: the scale, ranges, negative numbers, percentages, the number of a sentence,
    what "by" adds, and the initial guess. "4/5" is 4, and "2.3 to 2.8" after a verb of change 2.8. Of the others, those
    count that stand after "final" or "refined" in their sentence; else after "score", "rating", "rate" or "similarity";
    else the one that the text begins with; else all. They must agree.

    Example:
        >>> answers = "**4**", "The initial guess for the last pair was 2.31; I refine it to 3.0", "2 dogs, 3 cats"
        >>> [parse(answer) for answer in answers]
        [4.0, 3.0, None]
    """
    for rule, keeps in _RULES:
        text = rule.sub(r" \1 " if keeps else " … ", text)
    found = [(text[max(0, one.start() - 90) : one.start()], one, _score(one[0])) for one in re.finditer(_N, text)]
    found = [each for each in found if each[2] is not None]
    named = [[score for before, _, score in found if label.search(before)] for label in _LABELS]
    leading = _LEADING.match(text)
    named.append([score for _, one, score in found if leading and one.end() == leading.end()])
    counted = next(filter(None, [*named, [score for *_, score in found]]), [])
    return counted[0] if len(set(counted)) == 1 else None


def _score(written: str) -> float | None:
    value = float(written.replace(",", "."))
    return value if 0 <= value <= 5 else None
