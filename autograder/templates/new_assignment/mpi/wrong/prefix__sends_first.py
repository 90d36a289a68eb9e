# fails: test_sends_may_wait_for_their_receives
"""Everybody sends to a neighbour before it receives, round a ring."""

import numpy as np


def prefix_sum(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    result = np.array(x)
    if world_size == 1:
        return result
    comm.Send(np.zeros(1, "uint8"), (rank + 1) % world_size, 1)
    comm.Recv(np.zeros(1, "uint8"), (rank - 1) % world_size, 1)
    if rank > 0:
        before = np.empty_like(result)
        comm.Recv(before, rank - 1)
        result += before
    if rank < world_size - 1:
        comm.Send(result, rank + 1)
    return result
