"""What takes too long for a page: run once, and stored with how it was made. `python -m experiments` lists it.

A new one is a function that returns named arrays, and a line in the registry of its module.
"""

from experiments import depth, depth_alike, depth_training, language_models, softmax, training_speed

OF_DEPTH = depth.EXPERIMENTS | depth_alike.EXPERIMENTS | depth_training.EXPERIMENTS
EXPERIMENTS = softmax.EXPERIMENTS | training_speed.EXPERIMENTS | OF_DEPTH | language_models.EXPERIMENTS
