"""What the pages of the book need: claims with their checks, numbers for the prose, charts, samples, stored results.

One import is enough: ``from lsalib.book import Claim, charts, glue, stored, table``. Only ``charts`` and ``figures``
need matplotlib, which the library does not require: ``pip install matplotlib`` if it is missing.
"""

from lsalib.book.claims import Claim, ClaimError, Record
from lsalib.book.notebook import glue, table
from lsalib.book.seeds import from_environment

__all__ = [
    "Claim",
    "ClaimError",
    "Record",
    "charts",
    "figures",
    "glue",
    "sampling",
    "seeds",
    "statistics",
    "stored",
    "table",
]

from_environment()
