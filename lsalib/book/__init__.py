"""What the pages of the book need: checks of claims, numbers for the prose, figures, samples, stored results.

One import is enough: ``from lsalib.book import check, control, figures, glue, stored, table``. Only ``figures`` needs
matplotlib, which the library does not require: ``pip install matplotlib`` if it is missing.
"""

from lsalib.book.claims import ClaimError, Record, check, control
from lsalib.book.notebook import glue, table
from lsalib.book.seeds import from_environment

__all__ = ["ClaimError", "Record", "check", "control", "figures", "glue", "sampling", "seeds", "stored", "table"]

from_environment()
