"""Layouts: which rank has which block of a matrix.

    grid((8, 6), [0, 1, 2, 3], rows=2, columns=1)

    rank 0  rows 0-3    copy: rank 2        {0: ((0, 4), (0, 6)), 1: ((4, 8), (0, 6)),
    rank 1  rows 4-7    copy: rank 3         2: ((0, 4), (0, 6)), 3: ((4, 8), (0, 6))}

A block is ``(rows, columns)``, each ``(start, stop)`` as in a slice.
"""

Block = tuple[tuple[int, int], tuple[int, int]]
Layout = dict[int, Block]


def grid(shape: tuple[int, int], ranks: list[int], rows: int, columns: int) -> Layout:
    """Cut a matrix into ``rows x columns`` blocks, and deal them out to ranks, row by row.

    Ranks beyond the first ``rows * columns`` get copies. The last blocks may be smaller or empty.
    """
    blocks = [
        (_part(shape[0], rows, row), _part(shape[1], columns, column))
        for row in range(rows)
        for column in range(columns)
    ]
    return {rank: blocks[k % len(blocks)] for k, rank in enumerate(ranks)}


def _part(length, parts, k):
    size = -(-length // parts)
    return min(k * size, length), min((k + 1) * size, length)
