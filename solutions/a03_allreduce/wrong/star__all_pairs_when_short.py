# fails: test_messages_go_through_rank_0
"""No master while vectors are short."""

import numpy as np


def direct(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    got = np.empty_like(total)
    for k in range(1, p):
        comm.Sendrecv(np.array(x), (rank + k) % p, recvbuf=got, source=(rank - k) % p)
        total += got
    return total


def all_reduce(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    if len(x) < 4:
        return direct(comm, x)
    total = np.array(x)
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
