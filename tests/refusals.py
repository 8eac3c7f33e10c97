"""Bad input as a table: calls, and the words by which they are refused."""

import pytest


def refusals(*cases):
    """A test of rows (words, function, arguments): each call raises a ValueError with
    the words, a regular expression.
    """

    def test(unchecked):
        accepted = []
        for words, call, *arguments in cases:
            try:
                with pytest.raises(ValueError, match=words):
                    call(*arguments)
            except (AssertionError, pytest.fail.Exception) as error:
                accepted.append(f"{words}: {error}")
        assert accepted == []

    return test
