"""Takes whatever comes, and asks again and again whether it is there."""

import numpy as np
from mpi4py import MPI


def bounce(comm, x, repetitions, partner=1):
    rank = comm.Get_rank()
    if comm.Get_size() == 1 or rank not in (0, partner):
        return None
    ball = np.array(x)
    for k in range(2 * repetitions):
        if (k % 2 == 0) == (rank == 0):
            comm.Ssend(ball, dest=partner if rank == 0 else 0, tag=7)
        else:
            request = comm.Irecv(ball, source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
            while not request.Test():
                pass
    return ball if rank == 0 else None


def ping(comm, nbytes, repetitions, partner=1):
    message = np.zeros(nbytes, np.uint8)
    bounce(comm, message, 1, partner)
    start_s = MPI.Wtime()
    if bounce(comm, message, repetitions, partner) is None:
        return None
    return (MPI.Wtime() - start_s) / (2 * repetitions)
