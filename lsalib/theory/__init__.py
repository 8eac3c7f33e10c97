"""Exact results: no sample is drawn anywhere in here. (``softmax_risk`` is an approximation, and says so.)"""

from lsalib.tasks import StandardTask, standardize
from lsalib.theory.closed_forms import bayes_risk, gd_risk, optimal_preconditioner, optimal_risk, optimal_step, yq_risk
from lsalib.theory.few_heads import few_heads_weights
from lsalib.theory.lifted import LiftedRisk, lifted_risk
from lsalib.theory.moments import GramMoments, gram_moments
from lsalib.theory.optimum import optimal_weights, yq_optimal_weights
from lsalib.theory.risk import ltb_risk, population_risk, standard_form, standard_risk
from lsalib.theory.softmax import debiased_risk, debiased_step, one_example_less, softmax_output, softmax_risk
from lsalib.theory.standard import ConstantImitation, imitate_constant

__all__ = [
    "ConstantImitation",
    "GramMoments",
    "LiftedRisk",
    "StandardTask",
    "bayes_risk",
    "debiased_risk",
    "debiased_step",
    "few_heads_weights",
    "gd_risk",
    "gram_moments",
    "imitate_constant",
    "lifted_risk",
    "ltb_risk",
    "one_example_less",
    "optimal_preconditioner",
    "optimal_risk",
    "optimal_step",
    "optimal_weights",
    "population_risk",
    "softmax_output",
    "softmax_risk",
    "standard_form",
    "standard_risk",
    "standardize",
    "yq_optimal_weights",
    "yq_risk",
]
