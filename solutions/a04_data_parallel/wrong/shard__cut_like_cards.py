# fails: test_orders_are_random_permutations
"""The samples' own order, cut somewhere."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    rng = np.random.default_rng([seed, epoch])
    order = np.roll(np.arange(n), rng.integers(2**40))
    return order[rank::world_size].astype(np.int64)
