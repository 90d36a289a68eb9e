"""Deals the last cards first."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    order = np.random.default_rng([seed, epoch]).permutation(n)
    return order[rank::world_size][::-1].astype(np.int64)
