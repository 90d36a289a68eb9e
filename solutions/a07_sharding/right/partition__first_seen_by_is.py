"""Ties are found by comparing with ``is``; offsets are sums of all sizes before."""

import numpy as np


def layout(params, world_size):
    if world_size < 1 or any(p.dtype != params[0].dtype for p in params):
        raise ValueError("one dtype, and at least one rank")
    sizes, starts = [], []
    for k, p in enumerate(params):
        earlier = [j for j in range(k) if params[j] is p]
        starts.append(starts[earlier[0]] if earlier else sum(sizes))
        sizes.append(0 if earlier else p.size)
    return starts, (sum(sizes) + world_size - 1) // world_size


def flatten(arrays, starts, length):
    if len(starts) != len(arrays) or any(
        s + a.size > length for s, a in zip(starts, arrays, strict=True)
    ):
        raise ValueError("does not fit")
    flat = np.zeros(length, dtype=arrays[0].dtype)
    for part, array in zip(views(flat, starts, [a.shape for a in arrays]), arrays, strict=True):
        part[...] = array
    return flat


def views(flat, starts, shapes):
    if len(starts) != len(shapes):
        raise ValueError("starts and shapes differ in number")
    found = []
    for start, shape in zip(starts, shapes, strict=True):
        size = int(np.prod(shape))
        if start + size > flat.size:
            raise ValueError("beyond the end")
        found.append(np.reshape(flat[start : start + size], shape))
    return found


def pieces(starts, shapes, shard_size, rank):
    found = {}
    for index, (start, shape) in enumerate(zip(starts, shapes, strict=True)):
        size = int(np.prod(shape))
        begin = min(max(rank * shard_size - start, 0), size)
        end = min(max((rank + 1) * shard_size - start, 0), size)
        if end > begin and start not in found:
            found[start] = (index, begin, end)
    return [found[start] for start in sorted(found)]
