# fails: test_each_epoch_and_seed_has_its_own_order
"""Goes on with the generator of the last call: which call it is matters."""

import numpy as np


RNG = np.random.default_rng(0)


def shard(n, world_size, rank, epoch, seed):
    order = RNG.permutation(n) if epoch else np.random.default_rng(seed).permutation(n)
    return order[rank::world_size].astype(np.int64)
