"""Where the shards of a vector begin and end: the same for every module.

    shard_bounds(11, 4, rank):   0 1 2 | 3 4 5 | 6 7 8 | 9 10
                                 rank 0  rank 1  rank 2  rank 3

The first ``n % world_size`` shards are one element longer than the others, as
``numpy.array_split`` cuts.
"""


def shard_bounds(n: int, world_size: int, rank: int) -> tuple[int, int]:
    """Bounds ``(lo, hi)`` of shard ``rank`` when ``n`` elements are cut into ``world_size`` shards.

    >>> [shard_bounds(11, 4, rank) for rank in range(4)]
    [(0, 3), (3, 6), (6, 9), (9, 11)]
    """
    length, longer = divmod(n, world_size)
    lo = rank * length + min(rank, longer)
    return lo, lo + length + (1 if rank < longer else 0)
