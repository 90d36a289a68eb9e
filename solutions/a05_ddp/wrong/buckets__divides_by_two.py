# fails: test_mean_on_2_4_and_8_ranks
"""The mean is taken for two ranks."""

import numpy as np
from mpi4py import MPI


def assign_buckets(sizes, bucket_bytes, first_bucket_bytes=None):
    cap = bucket_bytes if first_bucket_bytes is None else first_bucket_bytes
    if min(cap, bucket_bytes) < 1:
        raise ValueError(f"caps ({bucket_bytes}, {first_bucket_bytes}) must be at least 1")
    found = []
    filled = 0
    for index in reversed(range(len(sizes))):
        if found and filled + sizes[index] <= cap:
            found[-1].append(index)
            filled += sizes[index]
            continue
        if found:
            cap = bucket_bytes
        found.append([index])
        filled = sizes[index]
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
        flat /= 2 if comm.Get_size() > 1 else 1
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
