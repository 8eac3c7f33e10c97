"""Exact results, without samples. Only ``softmax_risk`` is an approximation.

If all numbers are known, closed forms are computed in float64, whatever JAX's setting is, and nothing is compiled.
Under ``jax.jit``, ``jax.vmap`` and ``jax.grad`` the same formulas work on all fields of a task.
"""

from lsalib.theory.bayes import bayes_risk
from lsalib.theory.closed_forms import gd_risk, optimal_preconditioner, optimal_risk, optimal_step, yq_risk
from lsalib.theory.constant import ConstantRegression, constant_regression
from lsalib.theory.delta_rule import delta_rule_risk, delta_rule_step
from lsalib.theory.depth import depth_price, depth_risk
from lsalib.theory.few_heads import few_heads_weights
from lsalib.theory.guesses import optimal_guess
from lsalib.theory.least import LeastRisk, least_risk
from lsalib.theory.lifted import LiftedRisk, lifted_risk, squared_distance
from lsalib.theory.moments import GramMoments, gram_moments
from lsalib.theory.optimum import optimal_weights, yq_optimal_weights
from lsalib.theory.risk import ltb_risk, population_risk, standard_form, standard_risk
from lsalib.theory.softmax import centred_task, debiased_risk, debiased_step, softmax_output, softmax_risk

__all__ = [
    "ConstantRegression",
    "GramMoments",
    "LeastRisk",
    "LiftedRisk",
    "bayes_risk",
    "centred_task",
    "constant_regression",
    "debiased_risk",
    "debiased_step",
    "delta_rule_risk",
    "delta_rule_step",
    "depth_price",
    "depth_risk",
    "few_heads_weights",
    "gd_risk",
    "gram_moments",
    "least_risk",
    "lifted_risk",
    "ltb_risk",
    "optimal_guess",
    "optimal_preconditioner",
    "optimal_risk",
    "optimal_step",
    "optimal_weights",
    "population_risk",
    "softmax_output",
    "softmax_risk",
    "squared_distance",
    "standard_form",
    "standard_risk",
    "yq_optimal_weights",
    "yq_risk",
]
