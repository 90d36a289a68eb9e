"""The first bucket is the longest end of the list that fits; then the rest."""

import numpy as np
from mpi4py import MPI


def assign_buckets(sizes, bucket_bytes, first_bucket_bytes=None):
    first = bucket_bytes if first_bucket_bytes is None else first_bucket_bytes
    if first < 1 or bucket_bytes < 1:
        raise ValueError("a cap is below 1")
    if not len(sizes):
        return []
    filled = np.cumsum(np.asarray(sizes)[::-1])
    take = max(1, int(np.searchsorted(filled, first, side="right")))
    rest = len(sizes) - take
    mine = np.arange(rest, len(sizes))[::-1]
    return [list(mine), *assign_buckets(sizes[:rest], bucket_bytes)]


def pack(arrays):
    flat = np.empty(sum(array.size for array in arrays), arrays[0].dtype)
    _slices(flat, arrays, into=True)
    return flat


def unpack(flat, arrays):
    if flat.shape != (sum(array.size for array in arrays),):
        raise ValueError("lengths differ")
    _slices(flat, arrays, into=False)


def _slices(flat, arrays, into):
    ends = np.cumsum([array.size for array in arrays])
    for array, end in zip(arrays, ends, strict=True):
        part = flat[end - array.size : end].reshape(array.shape)
        if into:
            part[...] = array
        else:
            array[...] = part


def average(comm, gradients, buckets):
    p = comm.Get_size()
    for bucket in buckets:
        arrays = [gradients[index] for index in bucket]
        contribution = pack(arrays) / p
        mean = np.empty_like(contribution)
        comm.Allreduce(contribution, mean, op=MPI.SUM)
        unpack(mean, arrays)


def fusion_cycle(comm, gradients, ready, threshold_bytes):
    n = len(gradients)
    if n == 0:
        return []
    missing = np.array([not each for each in ready], dtype=float)
    late = np.empty(n)
    comm.Iallreduce(missing, late).Wait()
    agreed = [index for index in range(n) if late[index] == 0]
    buckets = assign_buckets([gradients[index].nbytes for index in agreed], threshold_bytes)
    average(comm, gradients, [[agreed[place] for place in bucket] for bucket in buckets])
    return [index for bucket in buckets for index in np.asarray(agreed)[bucket]]
