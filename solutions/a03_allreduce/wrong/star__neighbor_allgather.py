# fails: test_only_point_to_point_calls
"""A star-shaped graph and a collective among neighbours on it."""

import numpy as np


def all_reduce(comm, x):
    """A star as a graph; its neighbourhood collectives do the work."""
    rank, p = comm.rank, comm.size
    total = np.array(x)
    if p == 1:
        return total
    others = list(range(1, p))
    up = comm.Create_dist_graph_adjacent(others if rank == 0 else [], [] if rank == 0 else [0])
    down = comm.Create_dist_graph_adjacent([] if rank == 0 else [0], others if rank == 0 else [])
    table = np.empty((p - 1 if rank == 0 else 0, len(x)), x.dtype)
    up.Neighbor_allgather(total, table)
    if rank == 0:
        total += table.sum(axis=0, dtype=x.dtype)
    out = total.copy()
    down.Neighbor_allgather(out, total if rank else np.empty(0, x.dtype))
    up.Free()
    down.Free()
    return total
