# fails: test_every_sample_once_on_2_4_and_8_ranks
"""Blocks that share their boundary, as on the slide."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    order = np.random.default_rng([seed, epoch]).permutation(n)
    length = -(-n // world_size)
    lo, hi = rank * length, (rank + 1) * length
    return order[lo : hi + 1].astype(np.int64)
