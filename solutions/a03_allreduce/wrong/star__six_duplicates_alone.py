# fails: test_only_point_to_point_calls
"""Six communicators alone, where four are allowed."""

import numpy as np


def all_reduce(comm, x):
    """Six duplicates whatever p is: too many for one rank, 4 + 2 log2(1) = 4."""
    total = np.array(x)
    dups = [comm.Dup() for _ in range(6)]
    link = dups[-1]
    if comm.rank == 0:
        incoming = np.empty_like(total)
        for source in range(1, comm.size):
            link.Recv(incoming, source)
            total += incoming
        for dest in range(1, comm.size):
            link.Send(total, dest)
    else:
        link.Send(total, 0)
        link.Recv(total, 0)
    for d in dups:
        d.Free()
    return total
