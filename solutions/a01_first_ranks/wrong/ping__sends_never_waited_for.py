# fails: test_sends_may_wait_and_requests_end
"""Isend, and nobody waits."""

import numpy as np
from mpi4py import MPI


def bounce(comm, x, repetitions, partner=1):
    rank = comm.Get_rank()
    if comm.Get_size() == 1 or rank not in (0, partner):
        return None
    for _ in range(repetitions):
        ball = np.empty_like(x)
        if rank == 0:
            comm.Isend(np.array(x), dest=partner)
            comm.Recv(ball, source=partner)
        else:
            comm.Recv(ball, source=0)
            comm.Isend(ball, dest=0)
    return ball if rank == 0 else None


def ping(comm, nbytes, repetitions, partner=1):
    message = np.zeros(nbytes, np.uint8)
    bounce(comm, message, 1, partner)
    start_s = MPI.Wtime()
    if bounce(comm, message, repetitions, partner) is None:
        return None
    return (MPI.Wtime() - start_s) / (2 * repetitions)
