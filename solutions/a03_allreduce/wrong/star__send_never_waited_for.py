# fails: test_sends_may_wait_for_their_receives
"""An Isend that nobody waits for: its buffer may be gone before the message is."""

import numpy as np


def all_reduce(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    if rank == 0:
        incoming = np.empty_like(total)
        for source in range(1, p):
            comm.Recv(incoming, source)
            total += incoming
        for dest in range(1, p):
            comm.Send(total, dest)
    else:
        comm.Isend(total, 0)
        comm.Recv(total, 0)
    return total
