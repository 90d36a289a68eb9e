"""Buckets: many small gradients travel as few long vectors.

An all-reduce costs its latency however short the vector is. So gradients that become ready one
after another are put together, in a flat buffer, until it is worth the latency:

    parameter      0      1     2      3     4        backward passes make gradients
    bytes          400    40    4000   40    80       ready in the order 4, 3, 2, 1, 0
    cap 1000       [1, 0]       [2]    [4, 3]         buckets, launched from right to left

For the functions that take ``comm``:

- Only ``comm``'s own all-reduces may be called (``Allreduce`` or ``Iallreduce``, with any
  operation): no other collective, no point-to-point call, and no communicator is made.
- ``gradients`` is a list of arrays, all float32 or all float64, of any shape (``()`` and no
  elements included), contiguous or not. Shapes and dtype are the same on all ranks. The arrays
  themselves are written to, unlike in other modules; the list stays as it was.
- Beside the gradients there is at any time one flat buffer of the longest bucket, or two.
- Time: at most 1.05 times that of the all-reduces, one after another, each of
  ``2 (p - 1) (alpha + ceil(n / p) * itemsize * beta)`` seconds for n elements. Half the points up
  to 1.5 times.
"""

import numpy as np
from mpi4py import MPI


def assign_buckets(
    sizes: list[int], bucket_bytes: int, first_bucket_bytes: int | None = None
) -> list[list[int]]:
    """Divide parameters into buckets, in the order in which their gradients become ready.

    Args:
        sizes: bytes of each parameter, in the order of the forward pass; zeros are allowed.
        bucket_bytes: a bucket has at most so many bytes, unless it holds one parameter only.
        first_bucket_bytes: the cap of the first bucket; None: ``bucket_bytes`` too. A small first
            bucket is launched early.

    Returns:
        A list of lists of indices of ``sizes``. Read one after another they are n - 1, n - 2,
        ..., 0; no list is empty. There are as few buckets as the caps allow. The order of the
        list is the order of launches.

    Raises:
        ValueError: a cap is below 1.

    Source: Li et al., PyTorch Distributed, VLDB 2020, section 3.2.3.
    """
    ### BEGIN SOLUTION
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
    ### END SOLUTION


def pack(arrays: list[np.ndarray]) -> np.ndarray:
    """Copy arrays one behind another into one flat buffer.

    Args:
        arrays: at least one; of one dtype and any shapes, contiguous or not.

    Returns:
        A new one-dimensional array: the elements of the first array in row-major order, then
        those of the second, and so on.
    """
    ### BEGIN SOLUTION
    return np.concatenate([np.ravel(array) for array in arrays])
    ### END SOLUTION


def unpack(flat: np.ndarray, arrays: list[np.ndarray]) -> None:
    """Copy a flat buffer back into arrays, in place: the opposite of ``pack``.

    Args:
        flat: shape ``(n,)``, n elements in all arrays together.
        arrays: are written to; contiguous or not.

    Raises:
        ValueError: ``flat`` has more or fewer elements than the arrays; nothing is written then.
    """
    ### BEGIN SOLUTION
    if len(flat) != sum(array.size for array in arrays):
        raise ValueError(
            f"flat has {len(flat)} elements, the arrays {sum(array.size for array in arrays)}"
        )
    lo = 0
    for array in arrays:
        array[...] = flat[lo : lo + array.size].reshape(array.shape)
        lo += array.size
    ### END SOLUTION


def average(comm: MPI.Comm, gradients: list[np.ndarray], buckets: list[list[int]]) -> None:
    """Replace gradients by their mean over all ranks, bucket by bucket.

    Args:
        comm: the ranks that take part; p of them.
        gradients: a list of arrays, written to in place.
        buckets: lists of indices of ``gradients``, none empty, the same on all ranks; a gradient
            that is in no bucket stays as it was.

    Communication: exactly one all-reduce a bucket, of its elements, in the order of ``buckets``.
    """
    ### BEGIN SOLUTION
    for bucket in buckets:
        arrays = [gradients[index] for index in bucket]
        flat = pack(arrays)
        comm.Allreduce(MPI.IN_PLACE, flat)
        flat /= comm.Get_size()
        unpack(flat, arrays)
    ### END SOLUTION


def fusion_cycle(
    comm: MPI.Comm, gradients: list[np.ndarray], ready: np.ndarray, threshold_bytes: int
) -> list[int]:
    """One cycle of tensor fusion: average what is ready everywhere, in few all-reduces.

    Where hooks fire in another order on every rank, nobody may launch what is ready here alone.
    Horovod's answer is a cycle every few milliseconds: first the ranks agree which tensors are
    ready on all of them, then they fuse these into buffers of at most ``threshold_bytes``.

    Args:
        comm: the ranks that take part; p of them.
        gradients: a list of n arrays; those that are ready on all ranks are written to in place.
        ready: a boolean array of length n, this rank's own: which gradients are ready and not
            yet averaged.
        threshold_bytes: cap of a fused buffer; a longer gradient travels alone.

    Returns:
        The indices of the averaged gradients, from high to low, the same on all ranks.

    Communication: one all-reduce of at most 8 n bytes to agree, none if n is 0. Then exactly one
    for each bucket of what is ready everywhere. These buckets are filled from the highest index
    down: a gradient opens a new one only if it doesn't fit into the current one.

    Source: Sergeev, Del Balso, Horovod, 2018, section 4 (tensor fusion).
    """
    ### BEGIN SOLUTION
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
    ### END SOLUTION
