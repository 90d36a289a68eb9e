# fails: test_messages_follow_one_another
"""Rank 0 starts all its messages at once."""

import numpy as np
from mpi4py import MPI


def bounce(comm, x, repetitions, partner=1):
    rank = comm.Get_rank()
    if comm.Get_size() == 1 or rank not in (0, partner):
        return None
    ball = np.array(x)
    if rank == 0:
        requests = [comm.Isend(x, dest=partner) for _ in range(repetitions)]
        for _ in range(repetitions):
            comm.Recv(ball, source=partner)
        MPI.Request.Waitall(requests)
        return ball
    for _ in range(repetitions):
        comm.Recv(ball, source=0)
        comm.Send(ball, dest=0)
    return None


def ping(comm, nbytes, repetitions, partner=1):
    message = np.zeros(nbytes, np.uint8)
    bounce(comm, message, 1, partner)
    start_s = MPI.Wtime()
    if bounce(comm, message, repetitions, partner) is None:
        return None
    return (MPI.Wtime() - start_s) / (2 * repetitions)
