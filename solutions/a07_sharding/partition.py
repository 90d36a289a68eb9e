"""Flat shards: all parameters as one vector, cut into equal parts, one for each rank.

    params     a (2, 3)    b (4,)    a again    c ()             elements a0 ... a5, b0 ... b3, c

    flat       a0 a1 a2 a3 a4 a5 b0 b1 b2 b3 c  .       Psi = 11, and one element of padding
    4 ranks    |- 0 --| |- 1 --| |- 2 --| |- 3 --|      each shard has ceil(11 / 4) = 3 elements

    starts     a: 0       b: 6       a again: 0       c: 10

The padding at the end is 0. A network may use a parameter twice (*tied weights*: the embedding and
the last layer of a GPT). Then the same array stands twice in the list: ``params[0] is params[2]``.
In the flat vector it stands once, at its first place. Two arrays that only hold equal numbers are
two parameters.

These are plain functions: they need no ranks.
"""

import math

import numpy as np


def layout(params: list[np.ndarray], world_size: int) -> tuple[list[int], int]:
    """Where each parameter begins in the flat vector, and how long a shard is.

    Args:
        params: a list of arrays of any shapes, also ``()`` and empty ones.
        world_size: number of ranks N.

    Returns:
        ``(starts, shard_size)``: a list of ints, one for each entry of ``params``, and
        ``ceil(Psi / N)``; Psi counts each parameter's elements once. An empty list: ``([], 0)``.

    Raises:
        ValueError: ``world_size`` is less than 1, or the arrays are not all of one dtype.
    """
    ### BEGIN SOLUTION
    if world_size < 1:
        raise ValueError(f"world_size ({world_size}) must be at least 1.")
    if len({p.dtype for p in params}) > 1:
        raise ValueError("all parameters must have one dtype.")
    first, starts, psi = {}, [], 0
    for p in params:
        if id(p) not in first:
            first[id(p)] = psi
            psi += p.size
        starts.append(first[id(p)])
    return starts, -(-psi // world_size)
    ### END SOLUTION


def flatten(arrays: list[np.ndarray], starts: list[int], length: int) -> np.ndarray:
    """The flat vector of some arrays, with zeros where there are none.

    Args:
        arrays: a list of at least one array, of one dtype. They may have gaps in memory, or be
            ordered by columns. Arrays of a tied parameter hold the same numbers.
        starts: as ``layout`` gives it, one for each array.
        length: of the result; N times the shard size.

    Returns:
        A new array of shape ``(length,)`` and the arrays' dtype, each array row by row.

    Raises:
        ValueError: an array reaches beyond ``length``.
    """
    ### BEGIN SOLUTION
    flat = np.zeros(length, arrays[0].dtype)
    for array, start in zip(arrays, starts, strict=True):
        if start + array.size > length:
            raise ValueError(f"an array ends at {start + array.size}, after length ({length}).")
        flat[start : start + array.size] = array.ravel()
    return flat
    ### END SOLUTION


def views(flat: np.ndarray, starts: list[int], shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """The inverse: arrays of these shapes that are parts of the flat vector.

    Args:
        flat: shape ``(length,)``, contiguous.
        starts: as ``layout`` gives it.
        shapes: a tuple of ints for each of ``starts``.

    Returns:
        A list of arrays that share memory with ``flat``; nothing is copied. A tied parameter's
        entries share the same memory.

    Raises:
        ValueError: a shape reaches beyond the end of ``flat``.
    """
    ### BEGIN SOLUTION
    ends = [start + math.prod(shape) for start, shape in zip(starts, shapes, strict=True)]
    if max(ends, default=0) > len(flat):
        raise ValueError(f"a shape ends at {max(ends)}, after flat's end ({len(flat)}).")
    return [flat[a:b].reshape(s) for a, b, s in zip(starts, ends, shapes, strict=True)]
    ### END SOLUTION


def pieces(
    starts: list[int], shapes: list[tuple[int, ...]], shard_size: int, rank: int
) -> list[tuple[int, int, int]]:
    """Which elements of which parameters are in a rank's shard.

    Args:
        starts, shapes: of all parameters.
        shard_size: as ``layout`` gives it.
        rank: 0 to N - 1.

    Returns:
        A list of ``(index, begin, end)``, ints, in the order of the flat vector: elements
        ``begin`` to ``end - 1`` of parameter ``index``, counted row by row. A tied parameter stands
        under its first index. A parameter without elements in the shard is left out. Above,
        rank 2 has ``[(1, 0, 3)]`` and rank 3 has ``[(1, 3, 4), (3, 0, 1)]``. An empty array begins
        where the next one does, and isn't tied to it: with starts 0, 0 and shapes ``(0,)``,
        ``(2,)`` and shards of 2 elements, rank 0 has ``[(1, 0, 2)]``.
    """
    ### BEGIN SOLUTION
    lo, hi = rank * shard_size, (rank + 1) * shard_size
    found, end = [], 0
    for index, (start, shape) in enumerate(zip(starts, shapes, strict=True)):
        if start < end:  # tied: this part of the flat vector has its parameter
            continue
        end = start + math.prod(shape)
        begin, stop = max(start, lo), min(end, hi)
        if begin < stop:
            found.append((index, begin - start, stop - start))
    return found
    ### END SOLUTION
