"""Whoever comes first is taken first; the tag is the round, and each call has a communicator."""

import numpy as np
from mpi4py import MPI


def average(comm, x, neighbours, weights, num_rounds):
    rank, size = comm.Get_rank(), comm.Get_size()
    wrong = num_rounds < 0 or len(neighbours) != len(weights)
    wrong = wrong or len({*neighbours, rank}) != len(neighbours) + 1
    wrong = wrong or not all(0 <= j < size for j in neighbours)
    if wrong or min([0, *weights]) < 0 or sum(weights) > 1 + 1e-9:
        raise ValueError("this row of the matrix can't be right")
    weight_of = dict(zip(neighbours, weights, strict=True))
    comm, now = comm.Dup(), np.array(x)
    for number in range(num_rounds):
        sends = [comm.Isend(now, dest=j, tag=number) for j in neighbours]
        mixed = now * (1 - sum(weights))
        for _ in neighbours:
            status, theirs = MPI.Status(), np.empty_like(now)
            comm.Recv(theirs, source=MPI.ANY_SOURCE, tag=number, status=status)
            mixed = mixed + weight_of[status.Get_source()] * theirs
        MPI.Request.Waitall(sends)
        now = np.asarray(mixed, now.dtype)
    comm.Free()
    return now
