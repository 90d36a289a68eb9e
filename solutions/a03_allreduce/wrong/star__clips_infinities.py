# fails: test_sum_on_3_5_6_and_7_ranks
"""Infinities become the largest number."""

import numpy as np


def all_reduce(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    got = np.empty_like(total)
    if rank == 0:
        for k in range(1, p):
            comm.Recv(got, k)
            total += got
        for k in range(1, p):
            comm.Send(total, k)
    else:
        comm.Send(total, 0)
        comm.Recv(total, 0)
    if total.dtype.kind == "f":
        most = np.finfo(total.dtype).max
        total.clip(-most, most, out=total)
    return total
