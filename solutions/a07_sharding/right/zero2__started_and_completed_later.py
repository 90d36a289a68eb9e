"""Reductions are started, and completed after the next layer's pass."""

import numpy as np
from mpi4py import MPI


def backward(comm, layers, grad_output):
    p, rank = comm.size, comm.rank
    ends = np.cumsum([layer.size for layer in layers])
    size = int(-(-ends[-1] // p))
    padded, under_way, kept = np.zeros(size, grad_output.dtype), [], None
    for layer, end in zip(layers[::-1], ends[::-1], strict=True):
        grad_output, gradient = layer.backward(grad_output)
        MPI.Request.Waitall(under_way)
        under_way, start = [], int(end) - layer.size
        for owner in range(start // size, (int(end) - 1) // size + 1):
            lo, hi = max(start, owner * size), min(int(end), (owner + 1) * size)
            own = padded[lo - owner * size : hi - owner * size] if owner == rank else None
            under_way.append(comm.Ireduce(gradient[lo - start : hi - start], own, root=owner))
        kept = gradient  # its buffer belongs to the library until it is complete
    MPI.Request.Waitall(under_way)
    del kept
    return grad_output, padded / p
