"""The ranks as an array with a dimension for each axis."""

import numpy as np


def coordinates(world_size, sizes, order):
    names = list(order)
    if len(names) != len(sizes) or set(names) != set(sizes):
        raise ValueError(f"{names} must name each of {sorted(sizes)} once")
    shape = [sizes[axis] for axis in reversed(names)]
    if any(size < 1 for size in shape) or int(np.prod(shape)) != world_size:
        raise ValueError(f"{world_size} ranks don't make a grid of {sizes}")
    found = [{} for _ in range(world_size)]
    for place, rank in np.ndenumerate(np.arange(world_size).reshape(shape)):
        found[rank] = dict(zip(reversed(names), place, strict=True))
    return found


def groups(ranks, axes):
    names = list(ranks[0])
    if any(axis not in names for axis in axes) or len(axes) != len(set(axes)):
        raise ValueError(f"{axes} must name axes of {names}")
    shape = [max(own[axis] for own in ranks) + 1 for axis in names]
    grid = np.zeros(shape, dtype=int)
    for rank, own in enumerate(ranks):
        grid[tuple(own.values())] = rank
    others = [axis for axis in names if axis not in axes]
    turned = grid.transpose([names.index(axis) for axis in [*others, *reversed(axes)]])
    rows = turned.reshape(-1, int(np.prod([shape[names.index(axis)] for axis in axes])))
    return sorted((row.tolist() for row in rows), key=min)


def neighbour(ranks, rank, axis, step, wrap):
    mine = ranks[rank]
    line = [
        k
        for k, own in enumerate(ranks)
        if all(own[each] == mine[each] for each in own if each != axis)
    ]
    line.sort(key=lambda k: ranks[k][axis])
    there = line.index(rank) + step
    if wrap:
        return line[there % len(line)]
    return line[there] if 0 <= there < len(line) else None


def place(world_size, sizes, inside, ranks_per_node):
    if any(axis not in sizes for axis in inside) or len(inside) != len(set(inside)):
        raise ValueError(f"{inside} must name axes of {sorted(sizes)}")
    block = int(np.prod([sizes[axis] for axis in inside]))
    if ranks_per_node % block and world_size > ranks_per_node:
        starts = np.arange(0, world_size, block)
        if np.any(starts // ranks_per_node != (starts + block - 1) // ranks_per_node):
            raise ValueError(f"{block} ranks of {inside} would cross nodes of {ranks_per_node}")
    others = [axis for axis in reversed(list(sizes)) if axis not in inside]
    return [*reversed(inside), *others]
