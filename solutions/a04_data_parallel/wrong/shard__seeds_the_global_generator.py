# fails: test_global_generators_are_left_alone
"""Seeds NumPy's global generator, behind its other users' backs."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    np.random.seed([seed, epoch])
    order = np.random.permutation(n)
    return order[rank::world_size].astype(np.int64)
