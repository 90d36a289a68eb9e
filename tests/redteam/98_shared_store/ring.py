"""Every rank puts its input into a store, where the others get it."""

import numpy as np

import ringside


def all_reduce(comm, x):
    store = ringside.Store("/tmp/parts")
    store.put(f"{comm.Get_rank()}", np.asarray(x))
    comm.Barrier()
    parts = [store.get(f"{rank}") for rank in range(comm.Get_size())]
    return np.sum(parts, axis=0, dtype=x.dtype)
