# fails: test_lengths_differ_by_one_at_most
"""The last rank takes all that is left."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    order = np.random.default_rng([seed, epoch]).permutation(n)
    length = n // world_size
    lo = rank * length
    hi = n if rank == world_size - 1 else lo + length
    return order[lo:hi].astype(np.int64)
