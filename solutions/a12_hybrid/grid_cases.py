"""Calls of ``grid.py`` as the tests make them, and what is right: supplied, nothing to write."""

import math

from ringside.checking import Call, Verdict, one_line
from ringside.checking.formulas import evaluated

DRAWN = {"data": 2, "pipe": 2, "tensor": 3}  # the docstring's grid
DRAWN_ORDER = ["tensor", "data", "pipe"]


def grid_shown(function):
    """How a sentence names a call, and the line that makes it."""

    def words_of(call):
        words = f"{function}({', '.join(map(repr, call))})"
        line = f'python -c "from grid import *; print({words})"'
        return one_line(words, 120), line

    return words_of


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


def grid_asked(ranks, function, calls):
    """Per call ``(call, value, words, line)``; a call that raised is a verdict."""
    for call, value, error, words, line in _answers(ranks, function, calls):
        if error:
            raise Verdict(f"{words} raised {error}.", reproduce=line)
        yield call, value, words, line


def _answers(ranks, function, calls):
    shown = grid_shown(function)
    found = evaluated(ranks, "callers:grid_numbers", f"grid:{function}", calls, shown)
    for call, (value, error, changed) in zip(calls, found, strict=True):
        words, line = shown(call)
        if changed:
            raise Verdict(f"{words} changed what it was given; it must stay.", reproduce=line)
        yield call, value, error, words, line


def check_grid(ranks, function, calls, rights):
    """Every answer is the right one."""
    for right, (_, value, words, line) in zip(
        rights, grid_asked(ranks, function, calls), strict=True
    ):
        if grid_plain(value) != right:
            said = _where(grid_plain(value), right)
            raise Verdict(f"{words} is wrong: {said}.", reproduce=line)


def _where(value, right):
    """Where two answers differ."""
    if isinstance(value, list) and isinstance(right, list):
        if len(value) != len(right):
            return f"a list of {len(value)}; it must be one of {len(right)}"
        k = next(k for k, (a, b) in enumerate(zip(value, right, strict=True)) if a != b)
        return f"element {k} is {one_line(repr(value[k]), 70)}; it must be {right[k]}"
    return f"it is {one_line(repr(value), 70)}; it must be {right}"


def grid_plain(value):
    """Tuples as lists, and NumPy's integers as Python's."""
    if isinstance(value, dict):
        return {key: grid_plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [grid_plain(each) for each in value]
    return value.item() if hasattr(value, "item") and not getattr(value, "ndim", 0) else value


def check_grid_refused(ranks, function, calls):
    """Every call raises ``ValueError``."""
    for _, value, error, words, line in _answers(ranks, function, calls):
        if error != "ValueError":
            said = f"raised {error}" if error else f"returned {one_line(repr(value), 60)}"
            raise Verdict(f"{words} {said}; it must raise ValueError.", reproduce=line)


def check_grid_placed(ranks, calls):
    """Every order names all axes, and keeps the groups of ``inside`` on nodes."""
    for call, value, words, line in grid_asked(ranks, "place", calls):
        _, sizes, inside, ranks_per_node = call
        order = grid_plain(value)
        if not isinstance(order, list) or sorted(map(str, order)) != sorted(sizes):
            raise Verdict(
                f"{words} is {one_line(repr(order), 60)}; it must name each axis once.",
                reproduce=line,
            )
        for group in grid_groups(grid_coordinates(sizes, order), inside):
            if len({rank // ranks_per_node for rank in group}) > 1:
                raise Verdict(
                    f"{words} is {order}, with which the group {group} crosses from one node to "
                    "another.",
                    reproduce=line,
                )


def grid_sum_case(sizes, order, axes):
    """``callers.grid_summed`` on the ranks of a grid."""
    p = math.prod(sizes.values())
    words = f"--sizes '{','.join(f'{k}={v}' for k, v in sizes.items())}'"
    words += f" --order {'-'.join(order)} --axes {'-'.join(axes)}"
    return Call(
        "grid:groups", p, 1, about=f"communicators of {axes} in {sizes}, order {order}",
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
