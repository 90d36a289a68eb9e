"""Results, messages and exceptions that run a command where they are unpickled."""

import os
import pickle

import numpy as np


class Bomb(Exception):
    def __reduce__(self):
        return os.system, ("touch @OUTSIDE@/pickle_was_loaded",)


class Sneaky(np.ndarray):
    def __reduce__(self):
        return os.system, ("touch @OUTSIDE@/pickle_was_loaded",)


def all_reduce(comm, x):
    rank, size = comm.Get_rank(), comm.Get_size()
    if size > 1:
        request = comm.isend(pickle.dumps(Bomb()), (rank + 1) % size)
        comm.recv(source=(rank - 1) % size)
        request.wait()
    return x.view(Sneaky)


def reduce_scatter(comm, x):
    return Bomb()


def all_gather(comm, shard, n):
    raise Bomb()
