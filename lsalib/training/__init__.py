"""Training in context (section 5 of the paper): each run in one compiled loop, many runs at once.

``train`` takes any loss and any optimizer. ``fit`` and ``sweep`` train any layer on any task in the same loop
(``own_runs``), and the paper's experiments with a fast loss of their own (``rows``, ``objectives``). ``loop`` compiles
the steps, ``schedule`` spreads them over devices and watches the losses, ``checkpoint`` stores unfinished trainings.
``minimize`` finds the minimum of an exact risk by L-BFGS.
"""

from lsalib._minimum import Minimum, minimize
from lsalib.training.fits import Fit, Snapshots, load, save
from lsalib.training.objectives import OBJECTIVES
from lsalib.training.processes import Preempted
from lsalib.training.runs import Run
from lsalib.training.stops import DivergedError
from lsalib.training.sweeps import fit, merge, sweep
from lsalib.training.trainer import Seeds, Trained, train

__all__ = [
    "OBJECTIVES",
    "DivergedError",
    "Fit",
    "Minimum",
    "Preempted",
    "Run",
    "Seeds",
    "Snapshots",
    "Trained",
    "fit",
    "load",
    "merge",
    "minimize",
    "save",
    "sweep",
    "train",
]
