"""A study of the book's own checks: which of them see planted defects.

The program stores what it found in ``STORE``, with the date and the commit; the page on trust reads it from there. A
stored result may be older than the code: nothing fails because of that.
"""

from pathlib import Path

__all__ = ["STORE"]

STORE = Path("studies/results/trust")
