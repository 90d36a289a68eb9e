# fails: test_steps_do_not_depend_on_the_number_of_ranks
"""Blocks in place of turns: with more ranks a step has other samples."""

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    order = np.random.default_rng([seed, epoch]).permutation(n)
    return np.array_split(order, world_size)[rank].astype(np.int64)
