# fails: test_every_sample_once_on_2_4_and_8_ranks
"""Shuffles with NumPy's global generator, which each rank has used in another way."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    order = np.random.permutation(n)
    return order[rank::world_size].astype(np.int64)
