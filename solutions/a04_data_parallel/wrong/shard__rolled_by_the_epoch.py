# fails: test_orders_are_random_permutations
"""One order, rolled on a bit in each epoch."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    order = np.roll(np.random.default_rng(seed).permutation(n), 7 * (epoch + 1) + seed % 3)
    return order[rank::world_size].astype(np.int64)
