# fails: test_each_epoch_and_seed_has_its_own_order
"""Epoch 10 of a seed is epoch 0 of the next one."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    order = np.random.default_rng(10 * seed + epoch).permutation(n)
    return order[rank::world_size].astype(np.int64)
