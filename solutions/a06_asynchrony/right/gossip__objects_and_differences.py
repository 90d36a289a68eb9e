"""Lower-case calls; a rank moves towards each neighbour by the weight of the edge."""

import numpy as np


def average(comm, x, neighbours, weights, num_rounds):
    rank, size = comm.Get_rank(), comm.Get_size()
    wrong = num_rounds < 0 or len(neighbours) != len(weights)
    wrong = wrong or len({*neighbours, rank}) != len(neighbours) + 1
    wrong = wrong or not all(0 <= j < size for j in neighbours)
    if wrong or min([0, *weights]) < 0 or sum(weights) > 1 + 1e-9:
        raise ValueError("this row of the matrix can't be right")
    now = np.array(x)
    for _ in range(num_rounds):
        sends = [comm.isend(now, dest=j) for j in neighbours]
        theirs = [comm.recv(source=j) for j in neighbours]
        moves = [w * (each - now) for w, each in zip(weights, theirs, strict=True)]
        for send in sends:
            send.wait()
        now = np.asarray(now + sum(moves), dtype=x.dtype)
    return now
