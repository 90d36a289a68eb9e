# fails: test_nothing_is_sent
"""Rank 0 shuffles and tells the others."""

import numpy as np
from mpi4py import MPI


def shard(n, world_size, rank, epoch, seed):
    comm = MPI.COMM_WORLD
    order = np.random.default_rng([seed, epoch]).permutation(n)
    order = comm.bcast(order, root=0) if world_size == comm.Get_size() else order
    return order[rank::world_size].astype(np.int64)
