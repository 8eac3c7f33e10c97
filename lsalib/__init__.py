"""Exact and trained in-context learning with linear self-attention.

The modules follow the paper «The Initialization Determines Whether In-Context
Learning Is Gradient Descent» (arXiv 2512.04268): ``tasks`` (section 2),
``attention`` (eqs. 2-12, 30), ``estimators`` (one-step GD and its relatives),
``theory`` (exact risks), ``training`` (section 5) and ``metrics`` (appendix C.2).
``claims``, ``notebook``, ``figures`` and ``stored`` serve the pages of the book.
"""

from importlib import import_module

from lsalib import attention, claims, estimators, metrics, notebook, stored, tasks, theory, training

__all__ = [
    "attention",
    "claims",
    "estimators",
    "figures",
    "metrics",
    "notebook",
    "stored",
    "tasks",
    "theory",
    "training",
]

__version__ = "0.1.0"


def __getattr__(name: str):
    """Import ``figures`` when it is first used: matplotlib takes as long as all the rest."""
    if name == "figures":
        return import_module("lsalib.figures")
    raise AttributeError(f"module 'lsalib' has no attribute {name!r}")
