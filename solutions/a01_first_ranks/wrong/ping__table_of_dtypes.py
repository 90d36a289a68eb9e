# fails: test_what_was_sent_comes_back
"""Four types are known."""

import numpy as np
from mpi4py import MPI


def bounce(comm, x, repetitions, partner=1):
    rank = comm.Get_rank()
    if comm.Get_size() == 1 or rank not in (0, partner):
        return None
    ball = np.array(x)
    kind = {"d": MPI.DOUBLE, "f": MPI.FLOAT, "l": MPI.LONG, "B": MPI.BYTE}[ball.dtype.char]
    for _ in range(repetitions):
        if rank == 0:
            comm.Send([ball, kind], dest=partner)
            comm.Recv([ball, kind], source=partner)
        else:
            comm.Recv([ball, kind], source=0)
            comm.Send([ball, kind], dest=0)
    return ball if rank == 0 else None


def ping(comm, nbytes, repetitions, partner=1):
    message = np.zeros(nbytes, np.uint8)
    bounce(comm, message, 1, partner)
    start_s = MPI.Wtime()
    if bounce(comm, message, repetitions, partner) is None:
        return None
    return (MPI.Wtime() - start_s) / (2 * repetitions)
