"""Formulas are set when the book is built: as MathML, with their LaTeX."""

import re

import pytest

from tools.site.math import mathml, unbroken

# A formula, whether it stands on its own, and the text of each part in which it may be
# broken: behind relations outside of brackets in a line, at its gaps otherwise.
BROKEN = [
    (r"f(a, b, c) = g(a = b) \le 1", False, ["f(a,b,c)=", "g(a=b)≤", "1"]),
    ("a = b", False, ["a=b"]),
    (r"\big(a + b = c + d\big)^2", False, ["(a+b=c+d)2"]),
    (r"a = b, \qquad c = d", True, ["a=b,", "c=d"]),
    (r"\begin{aligned} a &= b, \qquad c = d \end{aligned}", True, ["a=b,c=d"]),
    (r"a = b, \qquad \\ c = d", True, ["a=b,c=d"]),
]
# What is in the MathML of a formula, and what is not: a large bracket keeps its size
# under an exponent, a prime stands beside its letter and behind its index.
SET = [
    ('x < "y"\n+ z', '<math alttext="x &lt; &quot;y&quot; [+] z">', "$^"),
    (r"\big( x \big)^2", r"<msup><mrow><mo [^>]*>\)</mo></mrow>", "$^"),
    ("(x)^2", "<msup>", "<mrow>"),
    ("L'", '<mrow><mi>L</mi><mo lspace="0" rspace="0">′</mo></mrow>', "<msup>"),
    ("L''", '<mrow><mi>L</mi><mo lspace="0" rspace="0">″</mo></mrow>', "<msup>"),
    ("f_i'", "<msub><mi>f</mi><mi>i</mi></msub><mo", "<msup>"),
    ("L^2", "<msup><mi>L</mi>", "<mrow>"),
]


def test_a_formula_breaks_where_it_may():
    for tex, display, wanted in BROKEN:
        text = re.sub("<(?!wbr>)[^>]*>", "", mathml(tex, display))
        assert text.split("<wbr>") == wanted, tex


@pytest.mark.parametrize(("tex", "there", "not_there"), SET)
def test_a_formula_keeps_its_latex_and_its_form(tex, there, not_there):
    made = mathml(tex, display=False)
    assert re.search(there, made) and not re.search(not_there, made)


def test_the_signs_around_a_formula_go_with_it():
    formula = lambda parts: f'<span class="math notranslate nohighlight">{parts}</span>'
    short, long = (
        formula("<math>x</math>"),
        formula("<math>x=</math><wbr><math>y</math>"),
    )
    joined = lambda words: f'<span class="unbroken">{words}</span>'
    words = {
        f"({short}), ": f"{joined(f'({short}),')} ",
        f" {long}. ": f" {joined(f'{long}.')} ",
    }
    words |= {f"({short} ": f"{joined(f'({short}')} "}
    # A formula that can go on in the next line may do so behind a bracket; a word on
    # its own is as it was.
    words |= {
        same: same for same in (f"({long} is", f"a {short} b", "<code>f(x), </code>")
    }
    assert {text: unbroken(text) for text in words} == words
