"""Values travel on a communicator of their own; receives are posted, then sends block."""

import numpy as np
from mpi4py import MPI


def average(comm, x, neighbours, weights, num_rounds):
    rank, size = comm.Get_rank(), comm.Get_size()
    wrong = num_rounds < 0 or len(neighbours) != len(weights)
    wrong = wrong or len({*neighbours, rank}) != len(neighbours) + 1
    wrong = wrong or not all(0 <= j < size for j in neighbours)
    if wrong or min([0, *weights]) < 0 or sum(weights) > 1 + 1e-9:
        raise ValueError("this row of the matrix can't be right")
    own = comm.Dup()
    now = np.array(x, order="C")
    for _ in range(num_rounds):
        boxes = np.empty((len(neighbours), *now.shape), now.dtype)
        receives = [own.Irecv(boxes[k, ...], source=j) for k, j in enumerate(neighbours)]
        for j in neighbours:
            own.Send(now, dest=j)
        MPI.Request.Waitall(receives)
        shares = np.array(weights).reshape(-1, *[1] * now.ndim)
        now = np.asarray((1 - sum(weights)) * now + (shares * boxes).sum(axis=0), now.dtype)
    own.Free()
    return now
