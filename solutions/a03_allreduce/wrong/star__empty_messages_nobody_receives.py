# fails: test_sends_may_wait_for_their_receives
"""The master returns early where there is no element; the others send none."""

import numpy as np


def all_reduce(comm, x):
    total = np.array(x)
    if comm.rank == 0:
        if len(x) == 0:
            return total  # nothing to add
        incoming = np.empty_like(total)
        for source in range(1, comm.size):
            comm.Recv(incoming, source)
            total += incoming
        for dest in range(1, comm.size):
            comm.Send(total, dest)
        return total
    comm.Send(total, 0)
    if len(x):
        comm.Recv(total, 0)
    return total
