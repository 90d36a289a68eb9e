# fails: test_time_with_long_vectors
"""A vector in 64 messages, of which the next rank awaits all before it sends any."""

import numpy as np


def prefix_sum(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    result = np.array(x)
    if rank > 0:
        before = np.empty_like(result)
        for part in np.array_split(before, 64):
            comm.Recv(part, rank - 1)
        result += before
    if rank < world_size - 1:
        for part in np.array_split(result, 64):
            comm.Send(part, rank + 1)
    return result
