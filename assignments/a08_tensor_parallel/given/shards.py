"""Where the parts of n columns, rows, heads or words begin and end: supplied.

    shard_bounds(11, 4, rank):   0 1 2 | 3 4 5 | 6 7 8 | 9 10
                                 rank 0  rank 1  rank 2  rank 3

The first ``n % world_size`` parts are one longer than the others, as ``numpy.array_split`` cuts.
With fewer columns than ranks the last ranks have none.
"""


def shard_bounds(n: int, world_size: int, rank: int) -> tuple[int, int]:
    """Bounds ``(lo, hi)`` of part ``rank`` when ``n`` things are cut into ``world_size`` parts.

    >>> [shard_bounds(11, 4, rank) for rank in range(4)]
    [(0, 3), (3, 6), (6, 9), (9, 11)]
    >>> shard_bounds(2, 4, 3)
    (2, 2)
    """
    length, longer = divmod(n, world_size)
    lo = rank * length + min(rank, longer)
    return lo, lo + length + (1 if rank < longer else 0)
