"""A star whose ranks all burn a core beside what they do."""

import threading
import time

import numpy as np


def burn():
    noise = np.ones(1 << 16)
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        np.sqrt(noise, out=noise)  # without the interpreter's lock


threading.Thread(target=burn, daemon=True).start()


def all_reduce(comm, x):
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
