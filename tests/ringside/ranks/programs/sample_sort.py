"""Sample sort: regular samples, splitters, and an uneven all-to-all of the keys."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
size, rank = comm.size, comm.rank
keys = np.sort(np.random.default_rng(rank).integers(0, 10_000, 500 + 100 * rank))

samples = np.ascontiguousarray(keys[:: len(keys) // size][:size])
gathered = np.empty((size, size), samples.dtype)
comm.Allgather(samples, gathered)
splitters = np.sort(gathered, axis=None)[size::size]

send_counts = np.diff(np.searchsorted(keys, splitters), prepend=0, append=len(keys))
receive_counts = np.empty_like(send_counts)
comm.Alltoall(send_counts, receive_counts)
mine = np.empty(receive_counts.sum(), keys.dtype)
comm.Alltoallv([keys, send_counts], [mine, receive_counts])
mine.sort()

# Rank by rank in order: each one's last key is not above the next one's first.
below = comm.sendrecv(int(mine[-1]), dest=(rank + 1) % size, source=(rank - 1) % size)
assert rank == 0 or below <= mine[0]
first = comm.exscan(len(mine)) or 0
lines = comm.gather(f"{len(mine)} keys from place {first}, {mine[0]} to {mine[-1]}")
if rank == 0:
    print("\n".join(lines))
