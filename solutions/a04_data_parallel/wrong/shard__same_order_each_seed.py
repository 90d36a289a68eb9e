# fails: test_each_epoch_and_seed_has_its_own_order
"""Forgets the seed."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    order = np.random.default_rng(epoch).permutation(n)
    return order[rank::world_size].astype(np.int64)
