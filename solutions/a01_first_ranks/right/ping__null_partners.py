"""Spectators talk to PROC_NULL, which is nobody."""

import numpy as np
from mpi4py import MPI


def bounce(comm, x, repetitions, partner=1):
    rank = comm.Get_rank()
    playing = comm.Get_size() > 1
    to = partner if playing and rank == 0 else MPI.PROC_NULL
    back = 0 if playing and rank == partner else MPI.PROC_NULL
    ball = np.array(x)
    for _ in range(repetitions):
        comm.Send(ball, dest=to)
        comm.Recv(ball, source=back)
        comm.Send(ball, dest=back)
        comm.Recv(ball, source=to)
    return ball if playing and rank == 0 else None


def ping(comm, nbytes, repetitions, partner=1):
    message = np.zeros(nbytes, np.uint8)
    bounce(comm, message, 1, partner)
    start_s = MPI.Wtime()
    if bounce(comm, message, repetitions, partner) is None:
        return None
    return (MPI.Wtime() - start_s) / (2 * repetitions)
