"""Calls of ``grid.py`` as the tests make them, and what is right: supplied, nothing to write."""

import importlib
import math
from typing import NamedTuple

import numpy as np

from ringside.checking import Call, Verdict, one_line
from ringside.checking.formulas import evaluated

DRAWN = {"data": 2, "pipe": 2, "tensor": 3}  # the docstring's grid
DRAWN_ORDER = ["tensor", "data", "pipe"]


class Laid(NamedTuple):
    """A grid that ``groups`` and ``neighbour`` are asked about: laid in an order, perhaps shuffled.

    A call holds it in place of its coordinates, which would fill a page.
    """

    sizes: dict
    order: list
    shuffled: int | None = None  # the seed

    def ranks(self):
        """The coordinates."""
        found = grid_coordinates(self.sizes, self.order)
        if self.shuffled is None:
            return found
        return [found[k] for k in np.random.default_rng(self.shuffled).permutation(len(found))]

    def __str__(self):
        order = "in the order of a shuffle" if self.shuffled is not None else f"order {self.order}"
        return f"the grid {_listed(self.sizes)}, {order}"


def _listed(sizes):
    return ", ".join(f"{axis} {size}" for axis, size in sizes.items()) or "without axes"


def grid_words(function, call):
    """How a sentence names a call."""
    if isinstance(call[0], Laid):
        return f"{function}(ranks, {', '.join(map(repr, call[1:]))}) of {call[0]}"
    world_size, sizes, *others = call
    return f"{function} of {world_size} ranks, {_listed(sizes)}, {', '.join(map(repr, others))}"


def grid_shown(function):
    """How a sentence names a call, and the line that makes and compares it."""

    def words_of(call):
        given = ", ".join([repr(function), *map(repr, call)])
        return grid_words(function, call), (
            f'python -c "from grid_cases import *; grid_try({given})"'
        )

    return words_of


def grid_try(function, *call):
    """Make a call here, and say whether its result is right: what a line of a test types."""
    arguments = grid_given(call)
    early = repr(arguments)
    try:
        value, error = getattr(importlib.import_module("grid"), function)(*arguments), ""
    except Exception as raised:
        value, error = None, type(raised).__name__
    said = grid_fault(function, call, value, error, repr(arguments) != early)
    if said:
        raise SystemExit(said)
    print(f"{grid_words(function, call)}: {error or grid_plain(value)}; right.")


def grid_given(call):
    """The arguments of a call: coordinates instead of a ``Laid``."""
    return [each.ranks() if isinstance(each, Laid) else each for each in call]


def grid_fault(function, call, value, error, changed):
    """What is wrong with what a call gave, as a sentence; empty if nothing is."""
    words, right = grid_words(function, call), grid_right(function, call)
    if changed:
        return f"{words} changed what it was given; it must stay as it was."
    if right is ValueError:
        if error == "ValueError":
            return ""
        said = f"raised {error}" if error else f"is {one_line(repr(grid_plain(value)), 60)}"
        return f"{words} {said}; it must raise ValueError."
    if error:
        return f"{words} raised {error}; it must not."
    value = grid_plain(value)
    if function == "place":
        return _misplaced(words, call, value)
    return "" if value == right else f"{words} {_where(value, right)}."


def grid_right(function, call):
    """What a call must give; ``ValueError`` where it must raise it, None for an order of axes."""
    try:
        return _RIGHT[function](*call)
    except (KeyError, ValueError):
        return ValueError


def _coordinates(world_size, sizes, order):
    fits = math.prod(sizes.values()) == world_size and min(sizes.values(), default=1) > 0
    if sorted(order) != sorted(sizes) or not fits:
        raise ValueError
    return grid_coordinates(sizes, order)


def _groups(laid, axes):
    if not set(axes) <= set(laid.sizes) or len(set(axes)) < len(axes):
        raise ValueError
    return grid_groups(laid.ranks(), axes)


def _neighbour(laid, rank, axis, step, wrap):
    ring = grid_group(laid.ranks(), rank, [axis])
    there = ring.index(rank) + step
    return ring[there % len(ring)] if wrap or 0 <= there < len(ring) else None


def _place(world_size, sizes, inside, ranks_per_node):
    fastest = [*inside, *(axis for axis in sizes if axis not in inside)]
    if _crossing(_coordinates(world_size, sizes, fastest), inside, ranks_per_node):
        raise ValueError


_RIGHT = {
    "coordinates": _coordinates, "groups": _groups, "neighbour": _neighbour, "place": _place,
}  # fmt: skip


def _crossing(ranks, inside, ranks_per_node):
    """The first group that isn't on one node."""
    for group in grid_groups(ranks, inside):
        if len({rank // ranks_per_node for rank in group}) > 1:
            return group
    return None


def _misplaced(words, call, order):
    _, sizes, inside, ranks_per_node = call
    if not isinstance(order, list) or sorted(map(str, order)) != sorted(sizes):
        return f"{words} is {one_line(repr(order), 60)}; it must name each axis once."
    group = _crossing(grid_coordinates(sizes, order), inside, ranks_per_node)
    return "" if group is None else f"{words} is {order}; it must keep group {group} on one node."


def grid_coordinates(sizes, order):
    """The right coordinates, from the number of ranks that one step along an axis takes."""
    strides = {axis: math.prod(sizes[each] for each in order[:k]) for k, axis in enumerate(order)}
    return [
        {axis: rank // strides[axis] % sizes[axis] for axis in sizes}
        for rank in range(math.prod(sizes.values()))
    ]


def grid_group(ranks, rank, axes):
    """The right group of a rank: who has the same coordinates but for ``axes``."""
    mine = ranks[rank]
    found = [
        k
        for k, own in enumerate(ranks)
        if all(own[axis] == mine[axis] for axis in own if axis not in axes)
    ]
    return sorted(found, key=lambda k: tuple(ranks[k][axis] for axis in reversed(axes)))


def grid_groups(ranks, axes):
    """All right groups, in the order of their lowest ranks."""
    found = {tuple(grid_group(ranks, rank, axes)) for rank in range(len(ranks))}
    return [list(group) for group in sorted(found, key=min)]


def check_grid(ranks, function, calls):
    """Every call of a function of ``grid.py`` gives what it must, or raises ``ValueError``."""
    given = [grid_given(call) for call in calls]
    told = {id(own): call for own, call in zip(given, calls, strict=True)}
    shown = grid_shown(function)
    found = evaluated(
        ranks, "callers:grid_numbers", f"grid:{function}", given, lambda own: shown(told[id(own)])
    )
    for call, answer in zip(calls, found, strict=True):
        said = grid_fault(function, call, *answer)
        if said:
            raise Verdict(said, reproduce=shown(call)[1])


def _where(value, right):
    """Where two answers differ."""
    if isinstance(value, list) and isinstance(right, list):
        if len(value) != len(right):
            return f"has {len(value)} elements; it must have {len(right)}"
        k = next(k for k, (a, b) in enumerate(zip(value, right, strict=True)) if a != b)
        return f"has {one_line(repr(value[k]), 70)} as element {k}; it must be {right[k]}"
    return f"is {one_line(repr(value), 70)}; it must be {right}"


def grid_plain(value):
    """Tuples as lists, and NumPy's integers as Python's."""
    if isinstance(value, dict):
        return {key: grid_plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [grid_plain(each) for each in value]
    return value.item() if hasattr(value, "item") and not getattr(value, "ndim", 0) else value


def grid_sum_case(sizes, order, axes):
    """``callers.grid_summed`` on the ranks of a grid."""
    p = math.prod(sizes.values())
    words = f"--sizes '{','.join(f'{k}={v}' for k, v in sizes.items())}'"
    words += f" --order {'-'.join(order)} --axes {'-'.join(axes)}"
    return Call(
        "grid:groups", p, 1,
        about=f"communicators of {axes} in the grid {_listed(sizes)}, order {order}",
        line=f"ringside run callers.py:grid_summed --ranks {p} -- {words}",
    )  # fmt: skip


def check_grid_sums(values, sizes, order, axes, case):
    """Each rank's sum and place, where a group became a communicator."""
    ranks = grid_coordinates(sizes, order)
    for rank, value in enumerate(values):
        check_grid_sum(value, ranks, rank, axes, case)


def check_grid_sum(value, ranks, rank, axes, case):
    """One rank's sum and place."""
    group = grid_group(ranks, rank, axes)
    right = sum(10.0**k for k in group), group.index(rank)
    if tuple(value) != right:
        raise case.fail(
            f"rank {rank} summed {value[0]:.0f} at place {value[1]} of its communicator; with the "
            f"group {group} it is {right[0]:.0f} at place {right[1]}."
        )
