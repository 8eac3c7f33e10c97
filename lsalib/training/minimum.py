"""The minimum itself: where an exact risk is wanted at its lowest, not after so many steps of Adam."""

from lsalib._minimum import Minimum, minimize

__all__ = ["Minimum", "minimize"]
