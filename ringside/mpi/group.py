"""Group: an ordered set of ranks, to make communicators of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ringside.mpi.constants import (
    ERR_ARG,
    ERR_GROUP,
    ERR_RANK,
    IDENT,
    PROC_NULL,
    SIMILAR,
    UNDEFINED,
    UNEQUAL,
)
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.pickling import named
from ringside.mpi.unsupported import Handle, expect
from ringside.network.link import current

_EMPTY: tuple[int, ...] = ()


class Group(Handle):
    """An ordered set of ranks."""

    __slots__ = ("_members", "_world_rank")

    _members: tuple[int, ...] | None  # world ranks
    _world_rank: int

    def __init__(self, group: Group | None = None) -> None:
        expect(group, Group)
        self._members = group._members if group is not None else None
        self._world_rank = group._world_rank if group is not None else -1

    @classmethod
    def _make(cls, members: Sequence[int], world_rank: int) -> Group:
        self = object.__new__(cls)
        self._members = tuple(members)
        self._world_rank = world_rank
        return self

    def _like(self, members: Sequence[int]) -> Group:
        return type(self)._make(members, self._world_rank)

    def _all(self) -> tuple[int, ...]:
        if self._members is None:
            raise MPIException(ERR_GROUP, "the group is GROUP_NULL")
        return self._members

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Group):
            return NotImplemented
        if self is other or (self._members is None and other._members is None):
            return True
        return self._members == _EMPTY and other._members == _EMPTY

    def __bool__(self) -> bool:
        return self._members is not None

    def __reduce__(self) -> Any:
        if self._members:
            raise ValueError("cannot pickle a Group that isn't predefined")
        return named(self, "GROUP_NULL" if self._members is None else "GROUP_EMPTY")

    def Get_size(self) -> int:
        """Return the number of members."""
        return len(self._all())

    def Get_rank(self) -> int:
        """Return our place in the group, or UNDEFINED."""
        members = self._all()
        return members.index(self._world_rank) if self._world_rank in members else UNDEFINED

    @property
    def size(self) -> int:
        """The number of members."""
        return self.Get_size()

    @property
    def rank(self) -> int:
        """Our place in the group, or UNDEFINED."""
        return self.Get_rank()

    def Translate_ranks(
        self, ranks: Sequence[int] | None = None, group: Group | None = None
    ) -> list[int]:
        """Return the places in ``group`` (by default the world) of the members at these places."""
        members = self._all()
        others = group._all() if group is not None else current().comm_world().members
        chosen = range(len(members)) if ranks is None else ranks
        return [
            PROC_NULL
            if rank == PROC_NULL
            else others.index(self._member(rank))
            if self._member(rank) in others
            else UNDEFINED
            for rank in chosen
        ]

    def _member(self, rank: int) -> int:
        members = self._all()
        if not 0 <= rank < len(members):
            raise MPIException(ERR_RANK, f"{rank}, but the group has {len(members)} ranks")
        return members[rank]

    def Compare(self, group: Group) -> int:
        """Return IDENT, SIMILAR (another order) or UNEQUAL."""
        mine, others = self._all(), group._all()
        if mine == others:
            return IDENT
        return SIMILAR if sorted(mine) == sorted(others) else UNEQUAL

    def Dup(self) -> Group:
        """Return a copy."""
        return self._like(self._all())

    @classmethod
    def Union(cls, group1: Group, group2: Group) -> Group:
        """Return the members of the first, then those of the second that aren't in the first."""
        first = group1._all()
        return group1._like([*first, *(m for m in group2._all() if m not in first)])

    @classmethod
    def Intersection(cls, group1: Group, group2: Group) -> Group:
        """Return the members of the first that are in the second."""
        second = group2._all()
        return group1._like([m for m in group1._all() if m in second])

    Intersect = Intersection

    @classmethod
    def Difference(cls, group1: Group, group2: Group) -> Group:
        """Return the members of the first that aren't in the second."""
        second = group2._all()
        return group1._like([m for m in group1._all() if m not in second])

    def Incl(self, ranks: Sequence[int]) -> Group:
        """Return the group of the members at these places."""
        return self._like([self._member(rank) for rank in _distinct(ranks)])

    def Excl(self, ranks: Sequence[int]) -> Group:
        """Return the group without the members at these places."""
        leave = [self._member(rank) for rank in _distinct(ranks)]
        return self._like([m for m in self._all() if m not in leave])

    def Range_incl(self, ranks: Sequence[tuple[int, int, int]]) -> Group:
        """Return the group of the members at places (first, last, step)."""
        return self.Incl(_places(ranks))

    def Range_excl(self, ranks: Sequence[tuple[int, int, int]]) -> Group:
        """Return the group without the members at places (first, last, step)."""
        return self.Excl(_places(ranks))

    def Free(self) -> None:
        """Give the group back."""
        self._all()
        self._members = None

    def free(self) -> None:
        """Give the group back if there is one."""
        if not self._is_constant():
            self._members = None


GROUP_NULL = Group()
GROUP_EMPTY = Group._make((), -1)


def _distinct(ranks: Sequence[int]) -> list[int]:
    chosen = [int(rank) for rank in ranks]
    if len(set(chosen)) != len(chosen):
        raise MPIException(ERR_RANK, f"{chosen} names a rank twice")
    return chosen


def _places(ranges: Sequence[tuple[int, int, int]]) -> list[int]:
    ranks: list[int] = []
    for first, last, step in ranges:
        if step == 0:
            raise MPIException(ERR_ARG, "a range with step 0")
        ranks += range(first, last + (1 if step > 0 else -1), step)
    return ranks


def as_ranks(group: Any, members: tuple[int, ...]) -> tuple[int, ...]:
    """Return the group's members as ranks of a communicator with ``members``."""
    chosen = group._all()
    strangers = [m for m in chosen if m not in members]
    if strangers:
        raise MPIException(ERR_GROUP, "the group has members that aren't in the communicator")
    return tuple(members.index(m) for m in chosen)
