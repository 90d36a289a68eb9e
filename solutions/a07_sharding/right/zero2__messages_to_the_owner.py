"""Point-to-point: everybody sends its part to the owner, who adds in the order of ranks."""

import numpy as np


def backward(comm, layers, grad_output):
    p, rank = comm.Get_size(), comm.Get_rank()
    size = -(-sum(layer.size for layer in layers) // p)
    flat_end = sum(layer.size for layer in layers)
    shard = np.zeros(size, grad_output.dtype)
    for layer in reversed(layers):
        grad_output, gradient = layer.backward(grad_output)
        flat_start = flat_end - layer.size
        for owner in range(p):
            lo, hi = max(flat_start, owner * size), min(flat_end, owner * size + size)
            if lo >= hi:
                continue
            piece = gradient[lo - flat_start : hi - flat_start] / p
            if rank != owner:
                comm.Send(piece, dest=owner, tag=layer.number)
                continue
            part = np.empty_like(piece)
            for source in range(p):
                if source != owner:
                    comm.Recv(part, source=source, tag=layer.number)
                    piece += part
            shard[lo - owner * size : hi - owner * size] = piece
        flat_end = flat_start
    return grad_output, shard
