"""From a model's answer to a score: strictly, or by a rule that reads what models write around a number."""

import re
import unicodedata
from collections.abc import Iterator

__all__ = ["parse"]

_STRICT = re.compile(r"(\d++(?:\.\d++)?)\.?", re.ASCII)

# A number stands alone: no letter or digit touches it, as in v2, 2nd, 1e5, 4.5.6; an underscore or a star may.
_FIGURE = r"(?:\d++(?:[.,]\d++)?+|(?<!\.)\.\d++)"
_BEGIN, _END = r"(?<![^\W_])(?<!\d[.,])", r"(?![^\W_])(?![.,]\d)"
_MINUS = "[-\u2212\u2013]"  # hyphen, minus, en dash
_NUMBER = re.compile(rf"{_BEGIN}(?P<minus>{_MINUS}?)(?P<value>{_FIGURE}){_END}(?!\s?%)")
_RANGE = re.compile(
    rf"{_BEGIN}(?:between\s+{_FIGURE}\s+and\s+{_FIGURE}|{_MINUS}?{_FIGURE}\s?(?:{_MINUS}|\bto\b)\s?{_FIGURE}){_END}",
    re.IGNORECASE,
)
_FRACTION = re.compile(rf"{_BEGIN}(?P<value>{_FIGURE})\s?(?:/|\bout\sof\b)\s?(?P<of>{_FIGURE}){_END}", re.IGNORECASE)

# What stands directly before a number, and says what it is.
_LABEL = re.compile(r"(?:score|rating|similarity)\W{0,8}(?:(?:is|of|would\sbe)\W{1,8})?\Z", re.IGNORECASE)
_OTHER_THING = re.compile(
    r"(?:sentences?|examples?|pairs?|steps?|#|\bfrom|\bscale\W{1,4}of|(?:initial|prior|given)\W{1,4}guess(?:\W{1,4}(?:is|was|of))?)\W{0,4}\Z",
    re.IGNORECASE,
)
_LOOK_BACK = 40


def parse(text: str, mode: str = "strict") -> float | None:
    """Read the score out of an answer, between 0 and 5, or None where the rule finds none.

    With mode "strict" the answer is a number in [0, 5], digits with or without a decimal point, and nothing else but
    whitespace around it and a final full stop.

    With mode "lenient" it is, of the numbers that stand alone, digits of any script, with a decimal point or comma, the
    first in [0, 5] that directly follows «score», «rating» or «similarity» (and «is», «of», «would be», any signs
    between); if there is none, the first in [0, 5] at all. Left out are negative numbers, percentages, ranges («3-4»,
    «3 to 4», «between 3 and 4»), fractions of anything but five («4/5» and «4 out of 5» are 4), and numbers of
    something else: after «sentence», «example», «pair», «step», «#», «from», «scale of», or after «guess» where that is
    the initial, prior or given one.

    Example:
        >>> parse(" 3.8."), parse("Score: 3.8"), parse("5.01")
        (3.8, None, None)
        >>> answers = "**4**", "4/5", "3,5", "Sentence 1 is close to sentence 2: 2.75", "8/10"
        >>> [parse(answer, "lenient") for answer in answers]
        [4.0, 4.0, 3.5, 2.75, None]
    """
    if mode not in ("strict", "lenient"):
        raise ValueError(f"mode must be one of strict, lenient, got {mode!r}")
    if mode == "strict":
        match = _STRICT.fullmatch(text.strip())
        return _in_range(match[1]) if match else None
    text = "".join(str(unicodedata.decimal(sign, sign)) for sign in text)
    text = _RANGE.sub("\u2026", text)
    text = _FRACTION.sub(lambda match: match["value"] if _in_range(match["of"]) == 5 else "\u2026", text)
    found = list(_candidates(text))
    return next((score for before, score in found if _LABEL.search(before)), found[0][1] if found else None)


def _candidates(text: str) -> Iterator[tuple[str, float]]:
    """Each number that may be the score, with what stands before it."""
    for match in _NUMBER.finditer(text):
        before = text[max(0, match.start() - _LOOK_BACK) : match.start()]
        score = _in_range(match["value"])
        if score is not None and not match["minus"] and not _OTHER_THING.search(before):
            yield before, score


def _in_range(written: str) -> float | None:
    value = float(written.replace(",", "."))
    return value if 0 <= value <= 5 else None
