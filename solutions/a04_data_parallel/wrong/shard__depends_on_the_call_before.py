# fails: test_same_result_whatever_was_called_before
"""A generator for each seed goes on from epoch to epoch, as if they came in order."""

import numpy as np


RNGS = {}


def shard(n, world_size, rank, epoch, seed):
    rng = RNGS.setdefault(seed, np.random.default_rng(seed))
    order = rng.permutation(n)
    return order[rank::world_size].astype(np.int64)
