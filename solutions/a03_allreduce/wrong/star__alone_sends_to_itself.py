# fails: test_only_point_to_point_calls
"""On one rank it sends the vector to itself."""

import numpy as np


def all_reduce(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    if p == 1:
        comm.Sendrecv(np.array(x), 0, recvbuf=total, source=0)
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
