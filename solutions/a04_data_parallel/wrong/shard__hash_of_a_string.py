# fails: test_every_sample_once_on_2_4_and_8_ranks
"""Seeds with a hash of a string, which is another number in each process."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    rng = np.random.default_rng(abs(hash(f"{seed}/{epoch}")))
    return rng.permutation(n)[rank::world_size].copy()
