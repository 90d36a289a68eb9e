"""As few buckets as possible, those after the first as even as that allows."""

import numpy as np
from mpi4py import MPI


def assign_buckets(sizes, bucket_bytes, first_bucket_bytes=None):
    cap = bucket_bytes if first_bucket_bytes is None else first_bucket_bytes
    if min(cap, bucket_bytes) < 1:
        raise ValueError(f"caps ({bucket_bytes}, {first_bucket_bytes}) must be at least 1")
    low, high = 1, bucket_bytes
    fewest = len(_greedy(sizes, cap, bucket_bytes))
    while low < high:  # the smallest cap that makes no more buckets
        middle = (low + high) // 2
        if len(_greedy(sizes, cap, middle)) > fewest:
            low = middle + 1
        else:
            high = middle
    return _greedy(sizes, cap, high)


def _greedy(sizes, cap, bucket_bytes):
    found, filled = [], 0
    for index in range(len(sizes) - 1, -1, -1):
        if not found or filled + sizes[index] > cap:
            cap = bucket_bytes if found else cap
            found.append([])
            filled = 0
        found[-1].append(index)
        filled += sizes[index]
    return found


def pack(arrays):
    return np.concatenate([np.ravel(array) for array in arrays])


def unpack(flat, arrays):
    if len(flat) != sum(array.size for array in arrays):
        raise ValueError(
            f"flat has {len(flat)} elements, the arrays {sum(array.size for array in arrays)}"
        )
    lo = 0
    for array in arrays:
        array[...] = flat[lo : lo + array.size].reshape(array.shape)
        lo += array.size


def average(comm, gradients, buckets):
    for bucket in buckets:
        arrays = [gradients[index] for index in bucket]
        flat = pack(arrays)
        comm.Allreduce(MPI.IN_PLACE, flat)
        flat /= comm.Get_size()
        unpack(flat, arrays)


def fusion_cycle(comm, gradients, ready, threshold_bytes):
    if not gradients:
        return []
    everywhere = np.array(ready, dtype=np.uint8)
    comm.Allreduce(MPI.IN_PLACE, everywhere, op=MPI.MIN)
    agreed = np.flatnonzero(everywhere).tolist()
    sizes = [gradients[index].nbytes for index in agreed]
    buckets = [
        [agreed[place] for place in bucket] for bucket in assign_buckets(sizes, threshold_bytes)
    ]
    average(comm, gradients, buckets)
    return agreed[::-1]
