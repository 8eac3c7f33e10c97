"""What takes too long for a page: run once, and stored with how it was made. `python -m
studies.experiments --help` lists it.

A new one is a function that returns named arrays, and a line in the registry. The
constants of its module are its settings.
"""

from studies.experiments import (
    block_heads,
    depth,
    depth_alike,
    depth_products,
    depth_training,
    fast_weights,
    real_block,
    softmax,
    training_speed,
    unit_keys,
)
from studies.experiments.experiment import constants

MODULES = (
    training_speed,
    depth,
    depth_alike,
    depth_training,
    depth_products,
    fast_weights,
    unit_keys,
    real_block,
    block_heads,
)
EXPERIMENTS = softmax.EXPERIMENTS | {
    module.__name__.rpartition(".")[2]: module.EXPERIMENT._replace(
        settings=constants(vars(module))
    )
    for module in MODULES
}
