# fails: test_second_call_is_independent
"""Results of other types than float64 can't be written to."""

import numpy as np


def all_reduce(comm, x):
    """Floats as arrays, integers as bytes."""
    total = np.array(x)
    if comm.rank == 0:
        incoming = np.empty_like(total)
        for source in range(1, comm.size):
            comm.Recv(incoming, source)
            total += incoming
        for dest in range(1, comm.size):
            comm.Send(total, dest)
    else:
        comm.Send(total, 0)
        comm.Recv(total, 0)
    if x.dtype == np.float64:
        return total
    return np.frombuffer(total.tobytes(), dtype=x.dtype)
