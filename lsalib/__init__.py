"""Exact and trained in-context learning with linear self-attention.

The modules follow the paper “The Initialization Determines Whether In-Context
Learning Is Gradient Descent” (arXiv 2512.04268): ``tasks`` (section 2),
``attention`` (eqs. 2-12, 30), ``estimators`` (one-step GD and its relatives),
``theory`` (exact risks), ``training`` (section 5) and ``metrics`` (appendix C.2).
``layers`` holds other layers of the field behind one interface.
Not imported with them: ``lsalib.book``, which serves the pages, and ``lsalib.sts``,
which asks language models.
"""

from lsalib import attention, estimators, layers, metrics, tasks, theory, training

__all__ = [
    "attention",
    "estimators",
    "layers",
    "metrics",
    "tasks",
    "theory",
    "training",
]

__version__ = "0.1.0"
