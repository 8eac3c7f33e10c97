"""Training in context (section 5 of the paper), each training in one compiled loop.

``train`` takes any loss and optimizer, ``fit`` trains (yq-)LSA, ``sweep`` many at once;
``minimize`` is L-BFGS.
"""

from lsalib._minimum import Minimum, minimize
from lsalib.training.records import Trained
from lsalib.training.runs import Fit, Run, load, rows, save
from lsalib.training.sweeps import fit, sweep
from lsalib.training.trainer import train

__all__ = [
    "Fit",
    "Minimum",
    "Run",
    "Trained",
    "fit",
    "load",
    "minimize",
    "rows",
    "save",
    "sweep",
    "train",
]
