# fails: test_every_sample_once_on_2_4_and_8_ranks
"""Fails where there are fewer samples than ranks."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    order = np.random.default_rng([seed, epoch]).permutation(n)
    if n < world_size:
        raise ValueError("too few samples")
    return order[rank::world_size].astype(np.int64)
