# fails: test_steps_do_not_depend_on_the_number_of_ranks
"""The number of ranks goes into the seed."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    order = np.random.default_rng([seed, epoch, world_size]).permutation(n)
    return order[rank::world_size].astype(np.int64)
