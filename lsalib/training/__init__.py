"""Training in context (section 5 of the paper): each run in one compiled loop, many runs at once.

``train`` takes any loss and any optimiser. ``fit`` and ``sweep`` are the paper's experiments on it, with a fast loss of
their own (``objectives``). ``loop`` compiles the steps and spreads them over devices, ``checkpoint`` stores what is
unfinished. ``minimize`` searches an exact risk's minimum by second-order steps instead.
"""

from lsalib._minimum import Minimum, minimize
from lsalib.training.objectives import OBJECTIVES
from lsalib.training.runs import Fit, Run
from lsalib.training.sweeps import fit, sweep
from lsalib.training.trainer import Trained, train

__all__ = ["OBJECTIVES", "Fit", "Minimum", "Run", "Trained", "fit", "minimize", "sweep", "train"]
