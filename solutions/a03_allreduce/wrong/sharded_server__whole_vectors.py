# fails: test_bytes_between_each_pair
"""Each rank sends its whole vector to every other and adds up alone."""

import numpy as np


def all_reduce(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    mine = np.array(x)
    total, incoming = mine.copy(), np.empty_like(mine)
    for step in range(1, world_size):
        dest, source = (rank + step) % world_size, (rank - step) % world_size
        comm.Sendrecv(mine, dest, recvbuf=incoming, source=source)
        total += incoming
    return total
