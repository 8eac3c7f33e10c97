"""Formulas are set when the book is built: as MathML, with their LaTeX."""

import re

import pytest
from math_core import LatexError

from tools.site import math as sphinx_math


def parts(tex: str, display: bool = False) -> list[str]:
    """The text of each part in which the formula may be broken."""
    return [re.sub("<[^>]*>", "", part) for part in sphinx_math.mathml(tex, display).split("<wbr>")]


def test_a_formula_keeps_its_latex():
    made = sphinx_math.mathml('x < "y"\n& z'.replace("&", "+"), display=False)
    assert made.startswith('<math alttext="x &lt; &quot;y&quot; + z">')


@pytest.mark.parametrize("tex", [r"x^1^2", r"\frac{1", r"\nosuchmacro"])
def test_what_is_no_latex_is_refused(tex):
    with pytest.raises(LatexError):
        sphinx_math.mathml(tex, display=False)


def test_a_long_formula_breaks_behind_relations_outside_of_brackets():
    assert parts(r"f(a, b, c) = g(a = b) \le 1") == ["f(a,b,c)=", "g(a=b)≤", "1"]
    assert parts("a = b") == ["a=b"]
    assert parts(r"\big(a + b = c + d\big)^2") == ["(a+b=c+d)2"]


def test_a_formula_on_its_own_breaks_at_its_gaps():
    assert parts(r"a = b, \qquad c = d", display=True) == ["a=b,", "c=d"]
    assert parts(r"\begin{aligned} a &= b, \qquad c = d \end{aligned}", display=True) == ["a=b,c=d"]


def test_lines_outside_of_an_environment_stand_below_each_other():
    assert sphinx_math.rows(r"a \\ b") == r"\begin{aligned}a \\ b\end{aligned}"
    assert sphinx_math.rows("a\n\nb") == r"\begin{aligned}a \\ b\end{aligned}"
    matrix = r"\begin{bmatrix} 1 \\ \begin{matrix} 2 \\ 3 \end{matrix} \end{bmatrix}"
    assert sphinx_math.rows(matrix) == matrix


def test_a_large_bracket_with_an_exponent_keeps_its_size():
    assert re.search(r"<msup><mrow><mo [^>]*>\)</mo></mrow>", sphinx_math.mathml(r"\big( x \big)^2", display=False))
    assert "<mrow>" not in sphinx_math.mathml(r"(x)^2", display=False)


def test_a_prime_stands_beside_its_letter_and_behind_its_index():
    assert '<mrow><mi>L</mi><mo lspace="0" rspace="0">′</mo></mrow>' in sphinx_math.mathml("L'", display=False)
    assert '<mrow><mi>L</mi><mo lspace="0" rspace="0">″</mo></mrow>' in sphinx_math.mathml("L''", display=False)
    assert "<msub><mi>f</mi><mi>i</mi></msub><mo" in sphinx_math.mathml("f_i'", display=False)
    assert "<msup><mi>L</mi>" in sphinx_math.mathml("L^2", display=False)  # control
