"""A pipeline: chunks are sent on as soon as they are summed."""

import numpy as np


def prefix_sum(comm, x):
    rank, last = comm.Get_rank(), comm.Get_size() - 1
    result = np.array(x)
    sending = []
    for part in np.array_split(result, 8):
        if rank > 0:
            before = np.empty_like(part)
            comm.Recv(before, rank - 1)
            part += before
        if rank < last:
            sending.append(comm.Isend(part, rank + 1))
    for request in sending:
        request.Wait()
    return result
