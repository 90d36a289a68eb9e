"""Shuffles a list by hand, with a generator of Python's own."""

import random

import numpy as np


def shard(n, world_size, rank, epoch, seed):
    rng = random.Random(f"epoch {epoch} of seed {seed}")
    order = list(range(n))
    for last in range(n - 1, 0, -1):
        other = rng.randint(0, last)
        order[last], order[other] = order[other], order[last]
    return np.array([order[i] for i in range(rank, n, world_size)], dtype=np.int64)
