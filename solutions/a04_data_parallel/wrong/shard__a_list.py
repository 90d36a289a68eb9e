# fails: test_every_sample_once_on_2_4_and_8_ranks
"""Returns a list."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    order = np.random.default_rng([seed, epoch]).permutation(n)
    return order[rank::world_size].tolist()
