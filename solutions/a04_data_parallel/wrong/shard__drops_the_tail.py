# fails: test_every_sample_once_on_3_5_6_and_7_ranks
"""Leaves out the last n % p samples."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    order = np.random.default_rng([seed, epoch]).permutation(n)
    order = order[: n - n % world_size]
    return order[rank::world_size].astype(np.int64)
