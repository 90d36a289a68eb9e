"""Coordinates by counting up, groups by looking at all pairs, orders by trying them all."""

import itertools


def coordinates(world_size, sizes, order):
    if len(order) != len(sizes) or any(axis not in order for axis in sizes):
        raise ValueError("name each axis once")
    if any(sizes[axis] <= 0 for axis in order):
        raise ValueError("sizes begin at 1")
    clock, found = {axis: 0 for axis in sizes}, []
    while True:
        found.append(dict(clock))
        for axis in order:
            clock[axis] += 1
            if clock[axis] < sizes[axis]:
                break
            clock[axis] = 0
        else:
            break
    if len(found) != world_size:
        raise ValueError(f"{len(found)} places for {world_size} ranks")
    return found


def groups(ranks, axes):
    if len(set(axes)) != len(axes):
        raise ValueError("an axis is named twice")
    for axis in axes:
        if axis not in ranks[0]:
            raise ValueError(f"no axis {axis}")
    done, found = set(), []
    for first in range(len(ranks)):
        if first in done:
            continue
        group = [
            rank
            for rank in range(len(ranks))
            if all(ranks[rank][k] == ranks[first][k] for k in ranks[0] if k not in axes)
        ]
        for axis in axes:  # stable: the last one sorted by is the slowest
            group.sort(key=lambda rank, axis=axis: ranks[rank][axis])
        done.update(group)
        found.append(tuple(group))
    return found


def neighbour(ranks, rank, axis, step, wrap):
    ring = next(group for group in groups(ranks, [axis]) if rank in group)
    at = ring.index(rank) + step
    if wrap:
        at %= len(ring)
    return ring[at] if 0 <= at < len(ring) else None


def place(world_size, sizes, inside, ranks_per_node):
    for order in itertools.permutations(sizes):
        found = groups(coordinates(world_size, sizes, order), inside)
        if all(min(g) // ranks_per_node == max(g) // ranks_per_node for g in found):
            return order
    raise ValueError(f"no order keeps {inside} inside nodes of {ranks_per_node}")
