"""Training in context (section 5 of the paper), each training in one compiled loop.

``train`` takes any loss and any optimizer. ``fit`` trains LSA and yq-LSA on any task, and ``sweep`` many of them at
once. ``minimize`` finds the minimum of an exact risk by L-BFGS.
"""

from lsalib._minimum import Minimum, minimize
from lsalib.training.runs import Fit, Run, load, save
from lsalib.training.sweeps import fit, sweep
from lsalib.training.trainer import DivergedError, Trained, train

__all__ = ["DivergedError", "Fit", "Minimum", "Run", "Trained", "fit", "load", "minimize", "save", "sweep", "train"]
