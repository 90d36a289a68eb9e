# fails: test_steps_do_not_depend_on_the_number_of_ranks
"""Each rank keeps its samples for good and shuffles them."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    mine = np.arange(n)[rank::world_size]
    rng = np.random.default_rng([seed, epoch, rank])
    return rng.permutation(mine).astype(np.int64)
