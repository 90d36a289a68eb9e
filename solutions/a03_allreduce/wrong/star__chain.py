# fails: test_messages_go_through_rank_0
"""The sum travels down a chain of neighbours and back, not through the master."""

import numpy as np


def all_reduce(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    incoming = np.empty_like(total)
    if rank < world_size - 1:
        comm.Recv(incoming, rank + 1)
        total += incoming
    if rank > 0:
        comm.Send(total, rank - 1)
        comm.Recv(total, rank - 1)
    if rank < world_size - 1:
        comm.Send(total, rank + 1)
    return total
