"""Exact results, without samples.

If all numbers of a task are known, closed forms are computed in NumPy's float64, and
nothing is compiled for them. Under ``jax.jit``, ``jax.vmap`` and ``jax.grad`` the same
formulas work on a task's prior mean, covariances and noise.
"""

from lsalib.theory.bayes import bayes_risk
from lsalib.theory.closed import (
    ConstantRegression,
    constant_regression,
    gd_risk,
    optimal_preconditioner,
    optimal_risk,
    optimal_step,
    optimal_weights,
    yq_optimal_weights,
    yq_risk,
)
from lsalib.theory.debiased import centered_task, debiased_risk, debiased_step
from lsalib.theory.delta_rule import delta_rule_risk
from lsalib.theory.depth import depth_price, depth_risk
from lsalib.theory.few_heads import LeastRisk, few_heads_weights, least_risk
from lsalib.theory.lifted import LiftedRisk, lifted_risk, squared_distance
from lsalib.theory.moments import GramMoments, gram_moments
from lsalib.theory.risk import ltb_risk, population_risk

__all__ = [
    "ConstantRegression",
    "GramMoments",
    "LeastRisk",
    "LiftedRisk",
    "bayes_risk",
    "centered_task",
    "constant_regression",
    "debiased_risk",
    "debiased_step",
    "delta_rule_risk",
    "depth_price",
    "depth_risk",
    "few_heads_weights",
    "gd_risk",
    "gram_moments",
    "least_risk",
    "lifted_risk",
    "ltb_risk",
    "optimal_preconditioner",
    "optimal_risk",
    "optimal_step",
    "optimal_weights",
    "population_risk",
    "squared_distance",
    "yq_optimal_weights",
    "yq_risk",
]
