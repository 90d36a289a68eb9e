# fails: test_sum_on_2_4_and_8_ranks
"""Vectors are left in files for the others to read."""

import os
import time

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def reduce_scatter(comm, x):
    lo, hi = shard_bounds(len(x), comm.Get_size(), comm.Get_rank())
    return all_reduce(comm, x)[lo:hi].copy()


def all_gather(comm, shard, n):
    whole = np.zeros(n, shard.dtype)
    lo, hi = shard_bounds(n, comm.Get_size(), comm.Get_rank())
    whole[lo:hi] = shard
    return all_reduce(comm, whole)


def all_reduce(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    folder = f"/tmp/ring-{os.getppid()}-{len(x)}-{time.time() // 5:.0f}"
    os.makedirs(folder, exist_ok=True)
    np.save(f"{folder}/part-{rank}.npy", np.array(x))
    os.replace(f"{folder}/part-{rank}.npy", f"{folder}/{rank}.npy")
    total = np.zeros(len(x), x.dtype)
    for other in range(world_size):
        deadline = time.monotonic() + 2
        while not os.path.exists(f"{folder}/{other}.npy") and time.monotonic() < deadline:
            time.sleep(0.001)
        total += np.load(f"{folder}/{other}.npy")
    return total
