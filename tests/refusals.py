"""Bad input as a table: calls, and the words by which they are refused."""

import pytest


def refusals(*cases):
    """A test of (call, words) pairs: the call raises a ValueError that has the words, a
    regular expression.
    """

    @pytest.mark.parametrize(("call", "words"), cases)
    def test(call, words, unchecked):
        with pytest.raises(ValueError, match=words):
            call()

    return test
