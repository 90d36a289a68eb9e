# fails: test_each_epoch_and_seed_has_its_own_order
"""Epoch 1 of seed 2 is epoch 2 of seed 1."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    order = np.random.default_rng(seed + epoch).permutation(n)
    return order[rank::world_size].astype(np.int64)
