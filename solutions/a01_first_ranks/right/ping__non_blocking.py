"""Isend, Irecv and their waits; the receive is posted before the send."""

import numpy as np
from mpi4py import MPI


def bounce(comm, x, repetitions, partner=1):
    rank = comm.Get_rank()
    if comm.Get_size() < 2 or rank not in {0, partner}:
        return None
    other = partner - rank
    old, new = x.copy(), np.empty_like(x)
    for _ in range(repetitions):
        receive = comm.Irecv(new, source=other)
        if rank == 0:
            comm.Isend(old, dest=other).Wait()
            receive.Wait()
        else:
            receive.Wait()
            comm.Isend(new, dest=other).Wait()
        old, new = new, old
    return old if rank == 0 else None


def ping(comm, nbytes, repetitions, partner=1):
    message = np.zeros(nbytes, np.uint8)
    bounce(comm, message, 1, partner)
    start_s = MPI.Wtime()
    if bounce(comm, message, repetitions, partner) is None:
        return None
    return (MPI.Wtime() - start_s) / (2 * repetitions)
