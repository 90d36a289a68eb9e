# fails: test_every_sample_once_on_3_5_6_and_7_ranks
"""Gives the first samples twice, so that all shards are equally long."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    order = np.random.default_rng([seed, epoch]).permutation(n)
    missing = -n % world_size
    order = np.concatenate([order, np.resize(order, missing)])
    return order[rank::world_size].astype(np.int64)
