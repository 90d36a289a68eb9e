# fails: test_only_point_to_point_calls
"""A collective among neighbours in each step."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def _shift(grid, out, incoming):
    """One step round the ring, by a neighbourhood collective."""
    t = MPI._typedict[out.dtype.char]
    # one source and one destination in a directed ring
    grid.Neighbor_alltoallv([out, [out.size], [0], t], [incoming, [incoming.size], [0], t])


def _ring(comm):
    rank, p = comm.rank, comm.size
    return comm.Create_dist_graph_adjacent([(rank - 1) % p], [(rank + 1) % p])


def reduce_scatter(comm, x):
    rank, p = comm.rank, comm.size
    total = np.array(x)
    if p == 1:
        return total
    grid = _ring(comm)
    part = [slice(*shard_bounds(len(x), p, r)) for r in range(p)]
    for k in range(p - 1):
        mine = total[part[(rank - k - 2) % p]]
        incoming = np.empty_like(mine)
        _shift(grid, total[part[(rank - k - 1) % p]], incoming)
        mine += incoming
    grid.Free()
    return total[part[rank]].copy()


def all_gather(comm, shard, n):
    rank, p = comm.rank, comm.size
    whole = np.empty(n, shard.dtype)
    part = [slice(*shard_bounds(n, p, r)) for r in range(p)]
    whole[part[rank]] = shard
    if p == 1:
        return whole
    grid = _ring(comm)
    for k in range(p - 1):
        _shift(grid, whole[part[(rank - k) % p]], whole[part[(rank - k - 1) % p]])
    grid.Free()
    return whole


def all_reduce(comm, x):
    return all_gather(comm, reduce_scatter(comm, x), len(x))
