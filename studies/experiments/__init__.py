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

EXPERIMENTS = softmax.EXPERIMENTS | {
    "training_speed": training_speed.EXPERIMENT,
    "depth": depth.EXPERIMENT,
    "depth_alike": depth_alike.EXPERIMENT,
    "depth_training": depth_training.EXPERIMENT,
    "depth_products": depth_products.EXPERIMENT,
    "fast_weights": fast_weights.EXPERIMENT,
    "unit_keys": unit_keys.EXPERIMENT,
    "real_block": real_block.EXPERIMENT,
    "block_heads": block_heads.EXPERIMENT,
}
