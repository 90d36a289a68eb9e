"""Comm and Intracomm: the ranks that exchange messages, and the ways to make new such sets."""

from __future__ import annotations

from typing import Any, NoReturn

from ringside.mpi.collectives import BufferCollectives
from ringside.mpi.comm_creation import Making
from ringside.mpi.constants import (
    APPNUM,
    CONGRUENT,
    ERROR_STRINGS,
    IDENT,
    IO,
    LARGEST_TAG,
    LASTUSEDCODE,
    SIMILAR,
    TAG_UB,
    UNDEFINED,
    UNEQUAL,
    UNIVERSE_SIZE,
    WTIME_IS_GLOBAL,
)
from ringside.mpi.group import Group, as_ranks
from ringside.mpi.membership import NO_COMM, as_int
from ringside.mpi.objects import Objects
from ringside.mpi.pickling import named
from ringside.mpi.point_to_point import PointToPoint
from ringside.mpi.rare import attributes
from ringside.mpi.rare.arranging import Arranging
from ringside.mpi.rare.attributes import Attributed
from ringside.mpi.rare.persistent import PersistentCollectives
from ringside.mpi.rare.settings import Settings
from ringside.mpi.rare.typed_blocks import TypedCollectives
from ringside.mpi.rare.ulfm import FaultTolerance
from ringside.mpi.unsupported import expect
from ringside.network.link import Call, CommInfo, Link


class Comm(
    PointToPoint,  # Send, Recv
    Objects,  # send, recv, bcast
    BufferCollectives,  # Bcast, Allreduce
    Making,  # Dup, Split
    # Rare from here on: the siblings above know nothing of these.
    TypedCollectives,  # Alltoallw
    PersistentCollectives,  # Bcast_init
    Attributed,  # Set_attr
    Settings,  # Set_info
    FaultTolerance,  # Shrink
):
    """A communicator: siblings that know only what `Membership` holds, listed here."""

    __slots__ = ()

    def __init__(self, comm: Comm | None = None) -> None:
        expect(comm, Comm)
        if comm is None or comm._id == NO_COMM:
            self._become_null()
        else:
            self._set(comm._link, CommInfo(comm._id, comm._members, comm._rank), comm._name)
            self._attributes = comm._attributes

    @classmethod
    def _of(cls, link: Link, info: CommInfo, name: str = "") -> Any:
        self = object.__new__(cls)
        self._set(link, info, name)
        return self

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Comm):
            return NotImplemented
        return self._id == other._id

    def __bool__(self) -> bool:
        return self._id != NO_COMM

    def __reduce__(self) -> Any:
        names = {"MPI_COMM_WORLD": "COMM_WORLD", "MPI_COMM_SELF": "COMM_SELF"}
        if self._id == NO_COMM:
            return named(self, "COMM_NULL")
        if self._name in names:
            return named(self, names[self._name])
        raise ValueError("cannot pickle a communicator that isn't predefined")

    # -- what it is --------------------------------------------------------------------------------

    def Get_rank(self) -> int:
        """Return our rank in it."""
        self._check_comm()
        return self._rank

    def Get_size(self) -> int:
        """Return the number of its ranks."""
        self._check_comm()
        return self._size

    @property
    def rank(self) -> int:
        """Our rank in it."""
        return self.Get_rank()

    @property
    def size(self) -> int:
        """The number of its ranks."""
        return self.Get_size()

    def Get_group(self) -> Group:
        """Return the group of its ranks."""
        self._check_comm()
        return Group._make(self._members, self._members[self._rank])

    @property
    def group(self) -> Group:
        """The group of its ranks."""
        return self.Get_group()

    def Compare(self, comm: Comm) -> int:
        """Return IDENT, CONGRUENT (same ranks), SIMILAR (another order) or UNEQUAL."""
        self._check_comm()
        comm._check_comm()
        if self._id == comm._id:
            return IDENT
        if self._members == comm._members:
            return CONGRUENT
        return SIMILAR if sorted(self._members) == sorted(comm._members) else UNEQUAL

    def Get_name(self) -> str:
        """Return the name."""
        return self._name

    def Set_name(self, name: str) -> None:
        """Set the name."""
        self._check_comm()
        self._name = name

    @property
    def name(self) -> str:
        """The name."""
        return self.Get_name()

    @name.setter
    def name(self, value: str) -> None:
        self.Set_name(value)

    def Is_inter(self) -> bool:
        """Tell whether it joins two groups; here none does."""
        self._check_comm()
        return False

    def Is_intra(self) -> bool:
        """Tell whether it has one group."""
        self._check_comm()
        return True

    @property
    def is_inter(self) -> bool:
        """Whether it joins two groups."""
        return self.Is_inter()

    @property
    def is_intra(self) -> bool:
        """Whether it has one group."""
        return self.Is_intra()

    def Get_topology(self) -> int:
        """Return CART for a grid of ranks, UNDEFINED otherwise."""
        self._check_comm()
        return UNDEFINED

    @property
    def topology(self) -> int:
        """CART for a grid of ranks, UNDEFINED otherwise."""
        return self.Get_topology()

    @property
    def is_topo(self) -> bool:
        """Whether its ranks form a grid."""
        return self.Get_topology() != UNDEFINED

    def Get_attr(self, keyval: int) -> Any:
        """Return a predefined attribute, such as TAG_UB, or one of the program's own."""
        self._check_comm()
        predefined = {
            TAG_UB: LARGEST_TAG,
            WTIME_IS_GLOBAL: False,
            UNIVERSE_SIZE: None,
            APPNUM: 0,
            IO: 0,
            LASTUSEDCODE: max(ERROR_STRINGS),
        }
        return predefined[keyval] if keyval in predefined else super().Get_attr(keyval)

    def _born(self, made: Any, info: CommInfo) -> Any:
        made = super()._born(made, info)
        # After `_set`, which leaves the copy without attributes.
        attributes.copy(self, made)
        return made

    def _release(self) -> None:
        # First: a key's function may still send on the communicator.
        attributes.delete_all(self)
        super()._release()

    def _check_there(self) -> None:
        self._check_comm()

    def Abort(self, errorcode: int = 0) -> NoReturn:
        """End the run for all ranks."""
        self._check_comm()
        self._link.abort(as_int(errorcode))


class Intracomm(Comm, Arranging):
    """A communicator of one group of ranks."""

    __slots__ = ()

    def Create_group(self, group: Group, tag: int = 0) -> Any:
        """Return the communicator of a group; only its members call it."""
        self._check_comm()
        ranks = as_ranks(group, self._members)
        if self._rank not in ranks:
            return Intracomm()
        call: Call = ("Create_group", (("group", ranks), ("tag", tag)))
        return self._made("Intracomm", self._join("create_group", (ranks, as_int(tag)), call))
