"""Requests made once and started for every trip; NumPy's number is returned."""

import numpy as np
from mpi4py import MPI


def bounce(comm, x, repetitions, partner=1):
    rank = comm.Get_rank()
    if comm.Get_size() == 1 or rank not in (0, partner):
        return None
    ball = np.array(x)
    other = partner if rank == 0 else 0
    send, receive = comm.Send_init(ball, dest=other), comm.Recv_init(ball, source=other)
    steps = (send, receive) if rank == 0 else (receive, send)
    for _ in range(repetitions):
        for request in steps:
            request.Start()
            request.Wait()
    send.Free()
    receive.Free()
    return ball if rank == 0 else None


def ping(comm, nbytes, repetitions, partner=1):
    if comm.Get_size() == 1 or comm.Get_rank() not in (0, partner):
        return None
    buffer = bytearray(nbytes)
    trips = np.empty(repetitions + 1)
    for k in range(repetitions + 1):
        start = MPI.Wtime()
        if comm.Get_rank() == 0:
            comm.Send([buffer, MPI.BYTE], dest=partner)
            comm.Recv([buffer, MPI.BYTE], source=partner)
        else:
            comm.Recv([buffer, MPI.BYTE], source=0)
            comm.Send([buffer, MPI.BYTE], dest=0)
        trips[k] = MPI.Wtime() - start
    return np.mean(trips[1:]) / 2 if comm.Get_rank() == 0 else None
