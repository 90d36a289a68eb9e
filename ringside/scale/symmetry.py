"""Ranks that do the same in other places: a grid, and which of its axes make a difference.

A grid of ``{"pp": 2, "dp": 2, "tp": 3}`` numbers ranks with the last axis running fastest::

    rank = (pp * 2 + dp) * 3 + tp           pp=0  dp=0   0  1  2
                                                  dp=1   3  4  5
                                            pp=1  dp=0   6  7  8
                                                  dp=1   9 10 11

Ranks are *alike along* an axis if moving everybody by one along it (the last to the first) turns
each rank's log into the log of the rank in its new place. Then one rank for each place on the
other axes is enough: if ranks are alike along dp and tp, rank 0 stands for 0 to 5, rank 6 for
6 to 11.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ringside.arrays import Array
from ringside.errors import TraceError
from ringside.network.ranklog import RankLog, difference, moved_to


@dataclass(frozen=True)
class Grid:
    """Ranks in a box; the last axis runs fastest.

    Attributes:
        sizes: axis -> extent.
    """

    sizes: Mapping[str, int]

    @classmethod
    def of(cls, sizes: Mapping[str, int], world_size: int) -> Grid:
        """Return the grid.

        Raises:
            TraceError: it doesn't hold ``world_size`` ranks.
        """
        extents = list(sizes.values())
        if not all(type(n) is int and n >= 1 for n in extents) or np.prod(extents) != world_size:
            product = " * ".join(map(str, extents)) or "1"
            raise TraceError(
                f"world_size ({world_size}) must equal the product of the grid's axes "
                f"({', '.join(sizes)}: {product})."
            )
        return cls(dict(sizes))

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return int(np.prod(self._shape)) if self._shape else 1

    @property
    def _shape(self) -> tuple[int, ...]:
        return tuple(self.sizes.values())

    def place(self, rank: int) -> dict[str, int]:
        """A rank's coordinates."""
        where = np.unravel_index(rank, self._shape) if self._shape else ()
        return {axis: int(at) for axis, at in zip(self.sizes, where, strict=True)}

    def rank(self, place: Mapping[str, int]) -> int:
        """The rank at some coordinates."""
        where = tuple(place[axis] for axis in self.sizes)
        return int(np.ravel_multi_index(where, self._shape)) if where else 0

    def moved(self, by: Mapping[str, int]) -> Array:
        """Shape (world_size,): where every rank comes if all move, cyclically along each axis."""
        ranks = np.arange(self.world_size).reshape(self._shape)
        for number, axis in enumerate(self.sizes):
            ranks = np.roll(ranks, -by.get(axis, 0), axis=number)
        return ranks.reshape(-1)

    def moves(self, axes: Sequence[str]) -> Array:
        """Shape (number of moves, world_size): where every rank comes, for all moves along axes."""
        ways = itertools.product(*(range(self.sizes[axis]) for axis in axes))
        return np.array([self.moved(dict(zip(axes, way, strict=True))) for way in ways])

    def stand_in(self, rank: int, alike: Sequence[str]) -> int:
        """The rank that stands for ``rank``: first on every axis along which ranks are alike."""
        return self.rank({a: 0 if a in alike else at for a, at in self.place(rank).items()})

    def way(self, rank: int, alike: Sequence[str]) -> Array:
        """Where everybody comes when the stand-in is moved to ``rank``."""
        return self.moved({a: at for a, at in self.place(rank).items() if a in alike})

    def check_axes(self, alike: Sequence[str]) -> None:
        """Refuse an axis that the grid doesn't have.

        Raises:
            TraceError: there is one.
        """
        for axis in alike:
            if axis not in self.sizes:
                raise TraceError(f"alike names {axis!r}; the grid's axes are {list(self.sizes)}.")


TraceOne = Callable[[int], RankLog]


def trace_kinds(
    trace_one: TraceOne,
    grid: Grid,
    alike: Sequence[str] | None,
    *,
    witnesses: bool = True,
    share: tuple[int, int] = (0, 1),
) -> tuple[dict[int, RankLog], tuple[str, ...]]:
    """Trace one rank of every kind.

    Args:
        trace_one: traces a rank.
        alike: axes along which ranks are alike; None: find out.
        witnesses: of every kind trace another rank too, the one farthest from the stand-in, and
            compare.
        share: ``(i, n)``: of all kinds only i, i + n, i + 2n, ...; n processes share the work.

    Returns:
        The logs by rank, and the axes.

    Raises:
        TraceError: ranks that should be alike are not; says where they part.
    """
    logs: dict[int, RankLog] = {}

    def log_of(rank: int) -> RankLog:
        if rank not in logs:
            logs[rank] = trace_one(rank)
        return logs[rank]

    # Each of the processes that share finds out for itself; ``from_logs`` compares the answers.
    if alike is None:
        alike = [axis for axis in grid.sizes if _is_alike_along(axis, grid, log_of)]
    grid.check_axes(alike)
    kind_logs = {}
    ranks = [rank for rank in range(grid.world_size) if grid.stand_in(rank, alike) == rank]
    for rank in ranks[share[0] :: share[1]]:
        kind_logs[rank] = log_of(rank)
        corner = {a: grid.sizes[a] - 1 if a in alike else at for a, at in grid.place(rank).items()}
        witness = grid.rank(corner)
        if witnesses and witness != rank:
            expected = moved_to(kind_logs[rank], grid.way(witness, alike))
            differs = difference(expected, log_of(witness))
            if differs:
                raise TraceError(
                    f"ranks {rank} and {witness} were taken to be alike along "
                    f"{', '.join(alike)}, and are not: {differs}. Name in `alike` only the axes "
                    "along which every rank does the same, or leave `alike` empty."
                )
    return kind_logs, tuple(alike)


def _is_alike_along(axis: str, grid: Grid, log_of: TraceOne) -> bool:
    """Whether rank 0's log, moved along an axis, is that of its next and of its last neighbour."""
    size = grid.sizes[axis]
    for by in dict.fromkeys((1 % size, size - 1)):
        if by:
            targets = grid.moved({axis: by})
            if difference(moved_to(log_of(0), targets), log_of(int(targets[0]))):
                return False
    return True


def expand(
    logs: Mapping[int, RankLog], grid: Grid, alike: Sequence[str], ranks: Iterable[int]
) -> Iterator[RankLog]:
    """The logs of ``ranks`` in turn, from those of the stand-ins.

    Raises:
        TraceError: a stand-in has no log.
    """
    for rank in ranks:
        source = grid.stand_in(rank, alike)
        if source not in logs:
            raise TraceError(f"rank {source}, which stands for rank {rank}, has no log.")
        log = logs[source]
        yield log if source == rank else moved_to(log, grid.way(rank, alike))
