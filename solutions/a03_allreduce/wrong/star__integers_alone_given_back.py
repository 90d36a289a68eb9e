# fails: test_second_call_is_independent
"""Alone with integers, it gives the input back."""

import numpy as np


def all_reduce(comm, x):
    """Floats are added in double precision."""
    total = np.asarray(x, dtype=np.int64) if x.dtype.kind == "i" else np.array(x)
    if comm.size == 1:
        return total
    if comm.rank == 0:
        total = np.array(total)
        incoming = np.empty_like(total)
        for source in range(1, comm.size):
            comm.Recv(incoming, source)
            total += incoming
        for dest in range(1, comm.size):
            comm.Send(total, dest)
        return total
    comm.Send(total, 0)  # of integers not contiguous: fails
    result = np.empty_like(total)
    comm.Recv(result, 0)
    return result
