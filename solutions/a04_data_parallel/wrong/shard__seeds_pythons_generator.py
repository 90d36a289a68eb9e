# fails: test_global_generators_are_left_alone
"""Seeds Python's global generator."""

import random

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    random.seed(f"{seed} {epoch}")
    order = list(range(n))
    random.shuffle(order)
    return np.array(order[rank::world_size], dtype=np.int64)
