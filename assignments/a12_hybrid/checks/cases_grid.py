"""The calls of grid.py that the tests make, and what must come of them."""

import itertools
import math
from dataclasses import dataclass, field

from ringside.checking import Verdict, assert_ran
from ringside.checking.cases import Case, Formula, brief

SIZES = {"data": 2, "pipe": 2, "tensor": 3}  # the docstring's grid
ORDER = ("tensor", "data", "pipe")
DRAWN = {"data": "000111000111", "pipe": "000000111111", "tensor": "012012012012"}


@dataclass(frozen=True)
class Coordinates(Formula):
    """The coordinates of all ranks.

    Attributes:
        gives: per axis one digit for each rank, as in ``DRAWN``.
    """

    target = "grid:coordinates"
    num_ranks: int = 12
    sizes: dict = field(default_factory=lambda: dict(SIZES))
    order: tuple = ORDER

    def arguments(self):
        return self.num_ranks, dict(self.sizes), list(self.order)

    def check_value(self, value):
        right = self.gives
        if right is None:
            return
        if not isinstance(value, list) or not all(isinstance(own, dict) for own in value):
            raise Verdict(f"{self} is {brief(value)}; it must be a list of dicts.")
        if len(value) != self.num_ranks:
            raise Verdict(f"{self} has {len(value)} elements; it must have {self.num_ranks}.")
        for rank, own in enumerate(value):
            wanted = {axis: int(digits[rank]) for axis, digits in right.items()}
            if own != wanted:
                raise Verdict(f"{self} has {brief(own)} for rank {rank}; it must be {wanted}.")


@dataclass(frozen=True)
class OfRanks(Formula):
    """A question about ranks whose coordinates are given.

    Attributes:
        at: per axis one digit for each rank, as in ``DRAWN``.
    """

    at: dict = field(default_factory=lambda: dict(DRAWN))

    def asked(self):
        """The arguments behind the coordinates."""
        raise NotImplementedError

    def arguments(self):
        of_ranks = zip(*self.at.values(), strict=True)
        return [dict(zip(self.at, map(int, digits), strict=True)) for digits in of_ranks], *(
            self.asked()
        )

    def __str__(self):
        where = ", ".join(f"{axis} {digits}" for axis, digits in self.at.items())
        words = ", ".join(map(brief, self.asked()))
        return f"{self.function}(ranks, {words}) of ranks at {where}"


@dataclass(frozen=True)
class Groups(OfRanks):
    """The groups of some axes."""

    target = "grid:groups"
    axes: tuple = ("tensor",)

    def asked(self):
        return (list(self.axes),)


@dataclass(frozen=True)
class Neighbour(OfRanks):
    """The rank some steps along an axis.

    Attributes:
        gives: a rank; "None" where there is none.
    """

    target = "grid:neighbour"
    rank: int = 0
    axis: str = "tensor"
    step: int = 1
    wrap: bool = True

    def asked(self):
        return self.rank, self.axis, self.step, self.wrap

    def check_value(self, value):
        right = None if self.gives == "None" else self.gives
        if self.gives is not None and (type(value) is not type(right) or value != right):
            raise Verdict(f"{self} is {brief(value)}; it must be {right}.")


@dataclass(frozen=True)
class Place(Formula):
    """An order of the axes that keeps some of them inside nodes; any such order is right."""

    target = "grid:place"
    num_ranks: int = 12
    sizes: dict = field(default_factory=lambda: dict(SIZES))
    inside: tuple = ()
    ranks_per_node: int = 4

    def arguments(self):
        return self.num_ranks, dict(self.sizes), list(self.inside), self.ranks_per_node

    def check_value(self, value):
        if not isinstance(value, list | tuple) or sorted(map(str, value)) != sorted(self.sizes):
            raise Verdict(f"{self} is {brief(value)}; it must name each axis once.")
        strides = {
            axis: math.prod(self.sizes[a] for a in value[:k]) for k, axis in enumerate(value)
        }

        def steps(axes):
            """How far ranks are apart that differ along these axes."""
            along = (range(0, strides[a] * self.sizes[a], strides[a]) for a in axes)
            return [sum(each) for each in itertools.product(*along)]

        for first in steps([axis for axis in self.sizes if axis not in self.inside]):
            group = sorted(first + step for step in steps(self.inside))
            if group[0] // self.ranks_per_node != group[-1] // self.ranks_per_node:
                raise Verdict(f"{self} is {list(value)}; it must keep group {group} on one node.")


@dataclass(frozen=True)
class Summed(Case):
    """Every rank sums ``10 ** rank`` over its group, which became a communicator.

    Attributes:
        groups: the right ones.
    """

    target = "grid:groups"
    through = "checks/inside.py:grid_summed"
    p: int = 4
    sizes: dict = field(default_factory=lambda: {"data": 2, "tensor": 2})
    order: tuple = ("tensor", "data")
    axes: tuple = ("tensor",)
    groups: tuple = ((0, 1), (2, 3))

    def inputs(self, rank):
        return dict(self.sizes), list(self.order), list(self.axes)

    def right(self):
        return [
            (sum(10**k for k in group), group.index(rank))
            for rank in range(self.p)
            for group in self.groups
            if rank in group
        ]

    def check(self, run):
        assert_ran(run, self)
        pairs = zip(run.values, self.right(), strict=True)
        for rank, ((total, place), (right, at)) in enumerate(pairs):
            if (total, place) != (right, at):
                raise self.fail(
                    f"rank {rank} summed {total:.0f} at place {place} of its communicator; it must "
                    f"be {right} at place {at}."
                )
