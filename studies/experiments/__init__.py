"""What takes too long for a page: run once, and stored with how it was made. `python -m
studies.experiments --help` lists it.

A new one is a function that returns named arrays, and a line in the registry.
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
    module.__name__.rpartition(".")[2]: module.EXPERIMENT for module in MODULES
}
