"""A star, and on one rank an hour of work."""

import time

import numpy as np

import ringside


def all_reduce(comm, x):
    if comm.Get_size() == 1:
        ringside.compute(seconds=3600.0, phase="serial")
        time.sleep(0.01)
        return np.array(x)
    return star(comm, x)


def star(comm, x):
    """Everything to the first rank and back."""
    total = np.empty(len(x), x.dtype)
    if comm.Get_rank():
        comm.Send(np.ascontiguousarray(x), 0)
        comm.Recv(total, 0)
        return total
    total[:] = x
    part = np.empty_like(total)
    for source in range(1, comm.Get_size()):
        comm.Recv(part, source)
        total += part
    for dest in range(1, comm.Get_size()):
        comm.Send(total, dest)
    return total
