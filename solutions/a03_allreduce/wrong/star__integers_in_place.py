# fails: test_input_stays_as_it_was
"""Floats are copied on the way to float64; integers are added up in the input."""

import numpy as np


def all_reduce(comm, x):
    """Floats are added in double precision, integers need no copy."""
    rank, p = comm.rank, comm.size
    mine = np.ascontiguousarray(x)
    if rank == 0:
        total = x.astype(np.float64) if x.dtype.kind == "f" else x
        incoming = np.empty_like(mine)
        for source in range(1, p):
            comm.Recv(incoming, source)
            total += incoming
        result = total.astype(x.dtype)
        for dest in range(1, p):
            comm.Send(result, dest)
        return result
    comm.Send(mine, 0)
    result = np.empty_like(mine)
    comm.Recv(result, 0)
    return result
