# fails: test_bytes_per_rank
"""Sends each vector round as text inside objects."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def reduce_scatter(comm, x):
    lo, hi = shard_bounds(len(x), comm.Get_size(), comm.Get_rank())
    return all_reduce(comm, x)[lo:hi].copy()


def all_gather(comm, shard, n):
    whole = np.zeros(n, shard.dtype)
    lo, hi = shard_bounds(n, comm.Get_size(), comm.Get_rank())
    whole[lo:hi] = shard
    return all_reduce(comm, whole)


def all_reduce(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    prev_rank, next_rank = (rank - 1) % world_size, (rank + 1) % world_size
    vectors = {rank: np.array(x).tobytes().hex()}
    newest = vectors
    for _ in range(world_size - 1):
        newest = comm.sendrecv(newest, next_rank, source=prev_rank)
        vectors = {**vectors, **newest}
    parts = [np.frombuffer(bytes.fromhex(text), x.dtype) for text in vectors.values()]
    return np.sum(np.array(parts), axis=0, dtype=x.dtype)
