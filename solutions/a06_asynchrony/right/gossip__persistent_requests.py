"""Two buffers, and requests that are started again in each round."""

import numpy as np
from mpi4py import MPI


def average(comm, x, neighbours, weights, num_rounds):
    rank, size = comm.Get_rank(), comm.Get_size()
    wrong = num_rounds < 0 or len(neighbours) != len(weights)
    wrong = wrong or len({*neighbours, rank}) != len(neighbours) + 1
    wrong = wrong or not all(0 <= j < size for j in neighbours)
    if wrong or min([0, *weights]) < 0 or sum(weights) > 1 + 1e-9:
        raise ValueError("this row of the matrix can't be right")
    out = np.array(x, order="C")
    boxes = [np.empty_like(out) for _ in neighbours]
    requests = [comm.Recv_init(box, source=j) for box, j in zip(boxes, neighbours, strict=True)]
    requests += [comm.Send_init(out, dest=j) for j in neighbours]
    for _ in range(num_rounds):
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        mixed = (1 - sum(weights)) * out
        for weight, box in zip(weights, boxes, strict=True):
            mixed = mixed + weight * box
        out[...] = mixed
    for request in requests:
        request.Free()
    return out
