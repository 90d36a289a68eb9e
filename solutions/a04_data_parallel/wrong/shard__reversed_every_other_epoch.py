# fails: test_orders_are_random_permutations
"""Odd epochs go backwards."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    order = np.random.default_rng([seed, epoch // 2]).permutation(n)
    order = order[::-1] if epoch % 2 else order
    return order[rank::world_size].astype(np.int64)
