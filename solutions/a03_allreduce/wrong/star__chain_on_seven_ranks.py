# fails: test_messages_go_through_rank_0
"""A chain, on seven ranks only."""

import numpy as np


def all_reduce(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    if p == 7:
        got = np.empty_like(total)
        if rank:
            comm.Recv(got, rank - 1)
            total = total + got
        if rank < p - 1:
            comm.Send(total, rank + 1)
            comm.Recv(total, rank + 1)
        if rank:
            comm.Send(total, rank - 1)
        return total
    if rank == 0:
        incoming = np.empty_like(total)
        for source in range(1, p):
            comm.Recv(incoming, source)
            total += incoming
        for dest in range(1, p):
            comm.Send(total, dest)
    else:
        comm.Send(total, 0)
        comm.Recv(total, 0)
    return total
