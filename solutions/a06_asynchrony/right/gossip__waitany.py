"""Values are added in the order in which they arrive."""

import numpy as np
from mpi4py import MPI


def average(comm, x, neighbours, weights, num_rounds):
    rank, size = comm.Get_rank(), comm.Get_size()
    wrong = num_rounds < 0 or len(neighbours) != len(weights)
    wrong = wrong or len({*neighbours, rank}) != len(neighbours) + 1
    wrong = wrong or not all(0 <= j < size for j in neighbours)
    if wrong or min([0, *weights]) < 0 or sum(weights) > 1 + 1e-9:
        raise ValueError("this row of the matrix can't be right")
    now = np.array(x)
    for _ in range(num_rounds):
        boxes = [np.empty_like(now) for _ in neighbours]
        receives = [comm.Irecv(box, source=j) for box, j in zip(boxes, neighbours, strict=True)]
        sends = [comm.Isend(now, dest=j) for j in neighbours]
        mixed = now * (1 - sum(weights))
        for _ in neighbours:
            k = MPI.Request.Waitany(receives)
            mixed = mixed + weights[k] * boxes[k]
        MPI.Request.Waitall(sends)
        now = np.asarray(mixed, now.dtype)
    return now
