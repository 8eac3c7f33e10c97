"""What the pages of the book need: claims with their checks, numbers for the prose,
charts, interactive figures, stored results, intervals.

One import is enough: ``from lsalib.book import Claim, charts, glue, stored, table``.
``charts``, ``explore`` and ``figures`` need matplotlib, and ``statistics`` needs SciPy:
the extra ``book`` brings both.
"""

from lsalib.book.claims import Claim, ClaimError, Record
from lsalib.book.explorers import explore
from lsalib.book.notebook import glue, table

__all__ = [
    "Claim",
    "ClaimError",
    "Record",
    "charts",
    "explore",
    "figures",
    "glue",
    "statistics",
    "stored",
    "table",
]
