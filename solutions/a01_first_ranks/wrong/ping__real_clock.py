# fails: test_time_of_a_message
"""The processor's clock, which knows nothing of the network."""

import time

import numpy as np


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
    message = np.zeros(nbytes, np.uint8)
    bounce(comm, message, 1, partner)
    start_s = time.perf_counter()
    if bounce(comm, message, repetitions, partner) is None:
        return None
    return (time.perf_counter() - start_s) / (2 * repetitions)
