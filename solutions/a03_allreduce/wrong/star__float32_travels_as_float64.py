# fails: test_bytes_per_rank
"""Single precision is added and sent in double: twice the bytes."""

import numpy as np


def all_reduce(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    total = np.array(x, dtype=np.float64 if x.dtype.kind == "f" else x.dtype)
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
    return total.astype(x.dtype)
