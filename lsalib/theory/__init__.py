"""Exact results: no sample is drawn anywhere in here."""

from lsalib.theory.closed_forms import bayes_risk, gd_risk, optimal_preconditioner, optimal_risk, optimal_step, yq_risk

__all__ = [
    "bayes_risk",
    "gd_risk",
    "optimal_preconditioner",
    "optimal_risk",
    "optimal_step",
    "yq_risk",
]
