# fails: test_time_of_a_message
"""nbytes elements of eight bytes each."""

import numpy as np
from mpi4py import MPI


def bounce(comm, x, repetitions, partner=1):
    rank = comm.Get_rank()
    if comm.Get_size() == 1 or rank not in (0, partner):
        return None
    ball = np.array(x)
    for _ in range(repetitions):
        if rank == 0:
            comm.Send(ball, dest=partner)
            comm.Recv(ball, source=partner)
        else:
            comm.Recv(ball, source=0)
            comm.Send(ball, dest=0)
    return ball if rank == 0 else None


def ping(comm, nbytes, repetitions, partner=1):
    message = np.zeros(nbytes, np.float64)
    bounce(comm, message, 1, partner)
    start_s = MPI.Wtime()
    if bounce(comm, message, repetitions, partner) is None:
        return None
    return (MPI.Wtime() - start_s) / (2 * repetitions)
