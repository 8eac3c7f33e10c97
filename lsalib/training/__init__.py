"""Training in context (section 5 of the paper): Adam, each run in one compiled loop, many runs at once.

``objectives`` says what is minimised, ``loop`` compiles the steps and spreads the runs over devices,
``checkpoint`` stores an unfinished sweep, ``sweeps`` is what a page calls. ``minimum`` searches an
exact risk's minimum by second-order steps instead; ``descent`` trains any other model on samples.
"""

from lsalib.training.descent import Descent, descend
from lsalib.training.minimum import Minimum, minimize
from lsalib.training.objectives import OBJECTIVES
from lsalib.training.sweeps import Fit, Run, fit, sweep

__all__ = ["OBJECTIVES", "Descent", "Fit", "Minimum", "Run", "descend", "fit", "minimize", "sweep"]
