# fails: test_messages_on_both_ways
"""Rank 0 tells the others when it is over."""

import numpy as np
from mpi4py import MPI


def bounce(comm, x, repetitions, partner=1):
    rank = comm.Get_rank()
    if comm.Get_size() == 1:
        return None
    if rank not in (0, partner):
        comm.recv(source=0)
        return None
    ball = np.array(x)
    for _ in range(repetitions):
        if rank == 0:
            comm.Send(ball, dest=partner)
            comm.Recv(ball, source=partner)
        else:
            comm.Recv(ball, source=0)
            comm.Send(ball, dest=0)
    if rank == 0:
        for other in range(1, comm.Get_size()):
            if other != partner:
                comm.send(None, dest=other)
        return ball
    return None


def ping(comm, nbytes, repetitions, partner=1):
    message = np.zeros(nbytes, np.uint8)
    bounce(comm, message, 1, partner)
    start_s = MPI.Wtime()
    if bounce(comm, message, repetitions, partner) is None:
        return None
    return (MPI.Wtime() - start_s) / (2 * repetitions)
