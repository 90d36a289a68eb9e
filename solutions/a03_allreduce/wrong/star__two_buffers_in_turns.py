# fails: test_second_call_is_independent
"""Two buffers for all results, in turns."""

import numpy as np


_buffers = {}


def _result(x):
    """Two buffers of each kind take turns."""
    pair = _buffers.setdefault((len(x), x.dtype.str), [np.empty(len(x), x.dtype) for _ in "ab"])
    pair.reverse()
    return pair[0]


def all_reduce(comm, x):
    total = _result(x)
    total[:] = x
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
    return total
