"""Write wherever writing is allowed, until it is not."""

import os

import numpy as np

PLACES = ["/tmp", "/dev/shm", "/var/tmp", "/modules", "/job", "/run", "@OUTSIDE@", "."]


def all_reduce(comm, x):
    for place in PLACES:
        try:
            with open(f"{place}/big-{comm.Get_rank()}", "wb") as file:
                for _ in range(100_000):
                    file.write(bytes(1 << 20))
        except OSError:
            pass
    try:
        os.ftruncate(os.memfd_create("big"), 1 << 40)
    except OSError:
        pass
    return np.zeros_like(x)
