# fails: test_result_belongs_to_the_caller
"""Keeps the order of the last epoch and returns a view of it."""

import numpy as np


KEPT = {}


def shard(n, world_size, rank, epoch, seed):
    if (n, epoch, seed) not in KEPT:
        KEPT.clear()
        KEPT[n, epoch, seed] = np.random.default_rng([seed, epoch]).permutation(n).astype(np.int64)
    return KEPT[n, epoch, seed][rank::world_size]
