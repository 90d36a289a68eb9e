"""A grid of ranks with named axes: who has which coordinates, and who talks to whom.

    sizes = {"data": 2, "pipe": 2, "tensor": 3}, order = ["tensor", "data", "pipe"]

    pipe 0             tensor                pipe 1             tensor
                     0    1    2                              0    1    2
         data  0  [  0    1    2 ]                data  0  [  6    7    8 ]
               1  [  3    4    5 ]                      1  [  9   10   11 ]

There may be any number of axes, with any names. The **order** names them from the fastest to the
slowest: from one rank to the next the first axis of the order counts up, and when it is full, the
second one. The order of the dict ``sizes`` means nothing.

A **group** of an axis holds the ranks that differ in this axis alone. In the drawing ``[3, 4, 5]``
is a group of "tensor", and ``[1, 4]`` one of "data".

The coordinates of all ranks are a list with a dict for each rank:
``[{"data": 0, "pipe": 0, "tensor": 0}, {"data": 0, "pipe": 0, "tensor": 1}, ...]``. ``groups`` and
``neighbour`` take any such list, also one that ``coordinates`` didn't make. No function needs a
communicator.

Source: Narayanan et al., Efficient large-scale language model training on GPU clusters using
Megatron-LM, SC 2021, section 3; Shazeer et al., Mesh-TensorFlow, 2018, section 2.
"""

import math


def coordinates(world_size: int, sizes: dict[str, int], order: list[str]) -> list[dict[str, int]]:
    """The coordinates of each rank.

    Args:
        sizes: a dict from the name of an axis to its size, at least 1. Without axes there is one
            rank.
        order: the names of all axes, the fastest first.

    Returns:
        A list of ``world_size`` dicts. Example: rank 8 of the drawing is
        ``{"tensor": 2, "data": 0, "pipe": 1}``.

    Raises:
        ValueError: the product of the sizes isn't ``world_size``, ``order`` doesn't name each axis
            once, or a size is below 1.
    """
    ### BEGIN SOLUTION
    if sorted(order) != sorted(sizes):
        raise ValueError(f"order names {list(order)}; name each axis of {list(sizes)} once.")
    if min(sizes.values(), default=1) < 1:
        raise ValueError(f"the sizes are {sizes}; each must be 1 or more.")
    product = math.prod(sizes.values())
    if product != world_size:
        raise ValueError(f"world_size is {world_size}, and {sizes} make {product}: change one.")
    found = []
    for rank in range(world_size):
        own = {}
        for axis in order:
            rank, own[axis] = divmod(rank, sizes[axis])
        found.append(own)
    return found
    ### END SOLUTION


def groups(ranks: list[dict[str, int]], axes: list[str]) -> list[list[int]]:
    """The groups of one axis, or of several axes together.

    Args:
        ranks: coordinates of all ranks, rank 0 first.
        axes: names of axes. The ranks of a group differ in these alone.

    Returns:
        A list of lists of ranks. Each rank is in one group. Within a group the first axis of
        ``axes`` is the fastest. Groups stand in the order of their lowest rank.
        Example: ``["data", "tensor"]`` gives ``[[0, 3, 1, 4, 2, 5], [6, 9, 7, 10, 8, 11]]`` in the
        drawing, ``["pipe"]`` gives ``[[0, 6], [1, 7], ...]``, and ``[]`` a group for each rank.

    Raises:
        ValueError: there is no axis of such a name, or one is named twice.
    """
    ### BEGIN SOLUTION
    unknown = [axis for axis in axes if axis not in ranks[0]]
    if unknown or len(set(axes)) < len(axes):
        raise ValueError(f"axes are {list(axes)}; name some of {list(ranks[0])}, each once.")
    found = {}
    for rank, own in enumerate(ranks):
        rest = tuple(sorted((axis, k) for axis, k in own.items() if axis not in axes))
        found.setdefault(rest, []).append(rank)

    def place(rank):
        return [ranks[rank][axis] for axis in reversed(axes)]

    return [sorted(group, key=place) for group in found.values()]
    ### END SOLUTION


def neighbour(
    ranks: list[dict[str, int]], rank: int, axis: str, step: int, wrap: bool
) -> int | None:
    """The rank that stands ``step`` further along an axis.

    Args:
        ranks: coordinates of all ranks, rank 0 first.
        axis: the name of one of their axes.
        step: how far; negative: back. It may be larger than the axis.
        wrap: whether the axis is a ring, as for an all-reduce. Then coordinates count modulo its
            size. If not, it has two ends, as a pipeline has.

    Returns:
        The rank; or None beyond the ends of an axis that is no ring.
        Example: one step along "tensor" from rank 5 is rank 3 on a ring, and None otherwise.
    """
    ### BEGIN SOLUTION
    size = 1 + max(own[axis] for own in ranks)
    there = ranks[rank][axis] + step
    if not wrap and not 0 <= there < size:
        return None
    return ranks.index({**ranks[rank], axis: there % size})
    ### END SOLUTION


def place(
    world_size: int, sizes: dict[str, int], inside: list[str], ranks_per_node: int
) -> list[str]:
    """An order of the axes that keeps some of them inside nodes.

    Ranks 0 to ``ranks_per_node - 1`` are on the first node, the next ones on the second, and so on;
    the last node may be partly filled. Wires are fast inside a node, so the axes that send most
    belong there.

    Args:
        world_size, sizes: as in ``coordinates``.
        inside: names of axes. The ranks that differ in these axes alone must be on one node.

    Returns:
        A list of the names of all axes, the fastest first. Any order is right in which each group
        of ``inside`` is on one node.
        Example: ``["pipe", "tensor", "data"]`` keeps the groups of "pipe" in nodes of 4 ranks.

    Raises:
        ValueError: no order is right, or ``inside`` names no axis or names one twice. Example: a
            group of "data" and "tensor" has 6 ranks, and nodes of 8 would cut the second one.
    """
    ### BEGIN SOLUTION
    if len(set(inside)) < len(inside) or not set(inside) <= set(sizes):
        raise ValueError(f"inside is {list(inside)}; name some of {list(sizes)}, each once.")
    order = [*inside, *(axis for axis in sizes if axis not in inside)]
    for group in groups(coordinates(world_size, sizes, order), inside):
        if len({rank // ranks_per_node for rank in group}) > 1:
            raise ValueError(
                f"{' x '.join(inside)} takes {len(group)} ranks, and nodes of {ranks_per_node} "
                "would cut such a group: make these axes smaller, or ask for fewer of them."
            )
    return order
    ### END SOLUTION
