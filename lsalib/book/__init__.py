"""What the pages of the book need: checks of claims, numbers for the prose, figures, samples, stored results.

One line has it all: ``from lsalib.book import check, control, figures, glue, stored, table``. Of these,
``figures`` alone needs matplotlib, which the library does without: ``pip install matplotlib`` where it is missing.
"""

from lsalib.book.claims import ClaimError, Record, check, control
from lsalib.book.notebook import glue, table
from lsalib.book.seeds import from_environment

__all__ = ["ClaimError", "Record", "check", "control", "figures", "glue", "sampling", "seeds", "stored", "table"]

from_environment()
