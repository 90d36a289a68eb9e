"""Making new communicators out of one, and giving them back."""

from __future__ import annotations

from typing import Any

from ringside.mpi.constants import COMM_TYPE_SHARED, ERR_ARG, ERR_COMM, UNDEFINED
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.group import Group, as_ranks
from ringside.mpi.membership import Membership, as_int
from ringside.mpi.operation import CollectiveOperation
from ringside.mpi.request import Request
from ringside.network.link import Call, CommInfo


class Making(Membership):
    """Dup, Split, Create, Free; an ``info`` is a hint without effect."""

    __slots__ = ()

    def Dup(self, info: Any = None) -> Any:
        """Return a communicator of the same ranks, whose messages stay apart."""
        return self._born(self._copy(), self._join("dup", (), ("Dup", ())))

    def Dup_with_info(self, info: Any) -> Any:
        """As Dup."""
        return self.Dup(info)

    def Clone(self) -> Any:
        """As Dup."""
        return self.Dup()

    def Idup(self, info: Any = None) -> tuple[Any, Request]:
        """Begin a Dup; the communicator may be used when the request is complete."""
        self._check_comm()
        comm, call = self._copy(), ("Idup", ())
        comm._become_null()
        number = self._link.icollective(self._id, "dup", (), call=call, begins=True)
        operation = CollectiveOperation(
            self._link, number, call, lambda value: self._born(comm, value)
        )
        return comm, Request._of(operation)

    def Idup_with_info(self, info: Any) -> tuple[Any, Request]:
        """As Idup."""
        return self.Idup(info)

    def Split(self, color: int = 0, key: int = 0) -> Any:
        """Return the communicator of the ranks that give the same color, ordered by key."""
        color, key = as_int(color), as_int(key)
        label: Any = "UNDEFINED" if color == UNDEFINED else color
        return self._split("Split", color, key, ("color", label))

    def Split_type(self, split_type: int, key: int = 0, info: Any = None) -> Any:
        """Return the communicator of the ranks on our node, for COMM_TYPE_SHARED.

        The machine says how many ranks share one; Get_processor_name names it.
        """
        split_type, key = as_int(split_type), as_int(key)
        if split_type not in (COMM_TYPE_SHARED, UNDEFINED):
            raise MPIException(ERR_ARG, f"split_type is COMM_TYPE_SHARED here, not {split_type}")
        self._check_comm()
        color = self._link.node if split_type == COMM_TYPE_SHARED else UNDEFINED
        label = "UNDEFINED" if color == UNDEFINED else "COMM_TYPE_SHARED"
        return self._split("Split_type", color, key, ("split_type", label))

    def _split(self, name: str, color: int, key: int, shown: tuple[str, Any]) -> Any:
        call: Call = (name, (shown, ("key", key)))
        return self._made(
            "Intracomm", self._join("split", (None if color == UNDEFINED else color, key), call)
        )

    def Create(self, group: Group) -> Any:
        """Return the communicator of a group; COMM_NULL on ranks outside it. All ranks call it."""
        self._check_comm()
        ranks = as_ranks(group, self._members)
        return self._made(
            "Intracomm", self._join("create", (ranks,), ("Create", (("group", ranks),)))
        )

    def Free(self) -> None:
        """Give the communicator back."""
        self._check_comm()
        if self._name in ("MPI_COMM_WORLD", "MPI_COMM_SELF"):
            raise MPIException(ERR_COMM, f"{self._name} can't be freed")
        self._release()

    def free(self) -> None:
        """Give the communicator back if it may be."""
        if self._name in ("MPI_COMM_WORLD", "MPI_COMM_SELF") and not self._is_constant():
            self._become_null()
        elif self and not self._is_constant():
            self.Free()

    # Whoever adds to Free overrides `_release`: this name stays bound to the function above.
    Disconnect = Free

    def _release(self) -> None:
        """Give the number back to the network; nothing can be sent after this."""
        self._link.free(self._id, call=("Free", ()))
        self._become_null(f"it was freed at {self._link.place}")

    def _born(self, made: Any, info: CommInfo) -> Any:
        """Make ``made``, a copy of us, the communicator that a Dup has given."""
        made._set(self._link, info, "")
        return made

    def _copy(self) -> Any:
        """A handle of our own kind, which has our topology."""
        self._check_comm()
        return type(self)(self)
