# fails: test_sums_on_1_2_and_4_ranks
"""The sum of the ranks before this one: an exclusive scan."""

import numpy as np


def prefix_sum(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    before = np.zeros_like(x)
    if rank > 0:
        comm.Recv(before, rank - 1)
    if rank < world_size - 1:
        comm.Send(before + x, rank + 1)
    return before
