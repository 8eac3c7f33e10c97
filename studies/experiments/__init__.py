"""What takes too long for a page: run once, and stored with how it was made. `python -m studies.experiments` lists it.

A new one is a function that returns named arrays, and a line in the registry of its module.
"""

from studies.experiments import (
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

EXPERIMENTS = softmax.EXPERIMENTS | training_speed.EXPERIMENTS
EXPERIMENTS |= depth.EXPERIMENTS | depth_alike.EXPERIMENTS | depth_training.EXPERIMENTS
EXPERIMENTS |= depth_products.EXPERIMENTS | fast_weights.EXPERIMENTS
EXPERIMENTS |= unit_keys.EXPERIMENTS | real_block.EXPERIMENTS
