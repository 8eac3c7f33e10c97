"""Scores out of answers."""

import re
import unicodedata

_STRICT = re.compile(r"(\d++(?:\.\d++)?)\.?", re.ASCII)

# A number stands alone: no letter or digit touches it, as in v2, 2nd, 1e5, 4.5.6; an underscore or a star may.
_FIGURE = r"(?:\d++(?:[.,]\d++)?+|(?<!\.)\.\d++)"
_BEGIN, _END = r"(?<![^\W_])(?<!\d[.,])", r"(?![^\W_])(?![.,]\d)"
_MINUS = "[-\u2212\u2013]"  # hyphen, minus, en dash
_NUMBER = re.compile(rf"{_BEGIN}(?P<minus>{_MINUS}?)(?P<value>{_FIGURE}){_END}(?!\s?%)")
# From one number to another: where a verb or an arrow says so, the second is meant; not so «refine, from 0 to 5».
_VERB = r"(?:refin|adjust|rais|lower|increas|decreas|chang|revis|updat|correct|mov|shift|nudg|bump)"
_ARROW = r"(?:->|=>|\u2192)"
_CHANGE = re.compile(
    rf"(?:\b{_VERB}\w{{0,3}}\b(?:(?!\bscale|\brange)[^\d.]){{0,40}}{_BEGIN}(?!0\sto\s5\b){_FIGURE}(?:\s[a-z]+){{0,2}}"
    rf"(?:\sby\s{_FIGURE})?"
    rf"\s(?:to|into)\s|{_BEGIN}{_FIGURE}\s?{_ARROW}\s?)(?P<to>{_FIGURE}){_END}",
    re.IGNORECASE,
)
_RANGE = re.compile(
    rf"{_BEGIN}(?:between\s+{_FIGURE}\s+and\s+{_FIGURE}"
    rf"|(?:\bfrom\s)?(?<!/){_MINUS}?{_FIGURE}\s?(?:{_MINUS}|\bto\b|\bor\b)\s?{_FIGURE}){_END}",
    re.IGNORECASE,
)
_FRACTION = re.compile(rf"{_BEGIN}(?P<value>{_FIGURE})\s?(?:/|\bout\sof\b)\s?(?P<of>{_FIGURE}){_END}", re.IGNORECASE)

# What stands directly before a number, and says what it is; the first of the labels that names any is believed.
_SAYS = r"\W{0,8}(?:(?:is|of|would\sbe)\W{1,8})?\Z"
_NOUNS = r"(?:\s(?:similarity|score|rating|guess|answer|estimate))"
_LABELS = [
    re.compile(rf"(?:{words}){_SAYS}", re.IGNORECASE)
    for words in (rf"\bfinal{_NOUNS}{{0,2}}|\brefined{_NOUNS}{{1,2}}", r"score|rating|similarity")
]
_OTHER_THING = re.compile(
    r"(?:sentences?|examples?|pairs?|steps?|#|\bfrom|\bby|\bscale\W{1,4}of"
    r"|(?:initial|prior|given|original)\W{1,4}(?:guess|score|rating|estimate|value)(?:\W{1,4}(?:is|was|of))?)\W{0,4}\Z",
    re.IGNORECASE,
)
_LEADING = re.compile(rf"\W*(?P<value>{_FIGURE})(?![^\S\n]*\w)")


def parse(text: str, mode: str = "strict") -> float | None:
    """Read the score out of an answer, between 0 and 5, or None where the rule finds none.

    With mode "strict" the answer is a number in [0, 5], digits with or without a decimal point, and nothing else but
    whitespace around it and a final full stop.

    With mode "lenient" numbers count that stand alone and lie in [0, 5], digits of any script, with a decimal point or
    comma. Left out are negative numbers, percentages, ranges («3-4», «3 to 4», «3 or 4», «between 3 and 4»), fractions
    of anything but five («4/5» and «4 out of 5» are 4), the first number of a change («refine 2.3 to 2.8», «2.3 → 2.8»)
    and numbers of something else: after «sentence», «example», «pair», «step», «#», «from», «by», «scale of», or after
    «guess», «score» and the like where that is the initial, prior, given or original one. Of the others the answer is
    the one directly after «final» or «refined» (and «score», «guess», …; «is», «of», any signs between); else the one
    after «score», «rating» or «similarity»; else the one that the text begins with, if no word goes on from it; else
    any. Where a rule finds two different numbers, the answer is ambiguous, and None.

    Example:
        >>> parse(" 3.8."), parse("Score: 3.8"), parse("5.01")
        (3.8, None, None)
        >>> answers = "**4**", "4/5", "I refine 2.31 upward. Final: 2.8", "sentence 2 says more: 2.75", "2 dogs, 3 cats"
        >>> [parse(answer, "lenient") for answer in answers]
        [4.0, 4.0, 2.8, 2.75, None]
    """
    if mode not in ("strict", "lenient"):
        raise ValueError(f"mode must be one of strict, lenient, got {mode!r}")
    if mode == "strict":
        match = _STRICT.fullmatch(text.strip())
        return _in_range(match[1]) if match else None
    text = "".join(str(unicodedata.decimal(sign, sign)) for sign in text)
    text = _CHANGE.sub(lambda match: match["to"], text)
    text = _RANGE.sub("\u2026", text)
    text = _FRACTION.sub(lambda match: match["value"] if _in_range(match["of"]) == 5 else "\u2026", text)
    numbers = [match for match in _NUMBER.finditer(text) if not match["minus"]]
    found = [(text[max(0, one.start() - 40) : one.start()], one, _in_range(one["value"])) for one in numbers]
    found = [each for each in found if each[2] is not None and not _OTHER_THING.search(each[0])]
    return _meant(text, found)


def _meant(text: str, found: list) -> float | None:
    """The one score among (what stands before it, match, score) that the first of the rules names."""
    leading = _LEADING.match(text)
    rules = [[score for before, _, score in found if label.search(before)] for label in _LABELS]
    rules.append([score for _, match, score in found if leading and match.start("value") == leading.start("value")])
    named = next(filter(None, [*rules, [score for *_, score in found]]), [])
    return named[0] if len(set(named)) == 1 else None


def _in_range(written: str) -> float | None:
    value = float(written.replace(",", "."))
    return value if 0 <= value <= 5 else None
