# fails: test_each_epoch_and_seed_has_its_own_order
"""In the order of the file."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    return np.arange(rank, n, world_size, dtype=np.int64)
