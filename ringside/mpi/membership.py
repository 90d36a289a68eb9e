"""What every communicator is made of: its number on the network, its members, and our rank."""

from __future__ import annotations

from typing import Any

from ringside.mpi.constants import (
    ANY_SOURCE,
    ANY_TAG,
    ERR_COMM,
    ERR_RANK,
    ERR_ROOT,
    ERR_TAG,
    LARGEST_TAG,
    PROC_NULL,
)
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.unsupported import Handle
from ringside.network.link import Call, CommInfo, Link, format_call

NO_COMM = -1

_kinds: dict[str, type[Membership]] = {}


class Membership(Handle):
    """The ranks that belong together, and the checks that all calls share."""

    __slots__ = ("_attributes", "_gone", "_id", "_link", "_members", "_name", "_rank", "_size")

    # For the methods of rare/: only one of a class's bases can have slots.
    _attributes: dict[int, Any]
    _gone: str  # of COMM_NULL: why it is no communicator
    _id: int
    _link: Link
    _members: tuple[int, ...]  # world ranks
    _name: str
    _rank: int
    _size: int

    def __init_subclass__(cls) -> None:
        """Note the class by its name: ``Intracomm.Create_cart`` makes one of its own subclasses."""
        super().__init_subclass__()
        _kinds[cls.__name__] = cls

    def _made(self, kind: str, made: CommInfo | None) -> Any:
        """The communicator of a kind that a call has given; null on ranks outside of it."""
        cls: Any = _kinds[kind]
        if made is not None:
            return cls._of(self._link, made)
        null = cls()
        null._gone = (
            f"the call at {self._link.place} left this rank out. Test `if comm != MPI.COMM_NULL:` "
            "before you use what it returned"
        )
        return null

    def _join(self, name: str, spec: tuple[Any, ...], call: Call) -> Any:
        """Take part in a collective."""
        self._check_comm()
        return self._link.collective(self._id, name, spec, call=call)

    def _set(self, link: Link, info: CommInfo, name: str) -> None:
        """Become the communicator ``info``."""
        self._link = link
        self._id, self._members, self._rank = info
        self._size = len(info.members)
        self._name = name
        self._attributes = {}

    def _become_null(self, gone: str = "it stands for no ranks") -> None:
        self._gone = gone
        self._id = NO_COMM
        self._members = ()
        self._rank = -1
        self._size = 0
        self._name = "MPI_COMM_NULL"
        self._attributes = {}

    def _check_comm(self) -> None:
        if self._id == NO_COMM:
            raise MPIException(ERR_COMM, f"the communicator is COMM_NULL: {self._gone}.")

    def _check_root(self, given: Any, name: str) -> int:
        self._check_comm()
        root = as_int(given)
        if not 0 <= root < self._size:
            raise MPIException(
                ERR_ROOT,
                f"{name}(root={root}), but {self._who()} has the ranks {self._ranks()}."
                f"{self._counted_anew()}",
            )
        return root

    def _sending(self, name: str, dest: Any, tag: Any) -> tuple[int, int, Call]:
        """The peer and tag on the wire (PROC_NULL: nothing to do), and the call as it reads."""
        if type(dest) is not int or type(tag) is not int:
            dest, tag = as_int(dest), as_int(tag)
        call = (name, (("dest", dest), ("tag", tag)))
        if 0 <= dest < self._size and 0 <= tag <= LARGEST_TAG:
            return dest, tag, call
        self._check_comm()
        self._check_tag(tag, call)
        if dest != PROC_NULL:
            raise self._bad_rank(dest, call)
        return dest, tag, call

    def _receiving(self, name: str, source: Any, tag: Any) -> tuple[int, int, Call]:
        """As ``_sending``; wildcards are -1 on the wire."""
        if type(source) is not int or type(tag) is not int:
            source, tag = as_int(source), as_int(tag)
        call: Call = (name, (("source", source), ("tag", tag)))
        if 0 <= source < self._size:
            if 0 <= tag <= LARGEST_TAG:
                return source, tag, call
            if tag == ANY_TAG:  # as most receives are
                return source, -1, (name, (("source", source), ("tag", "ANY_TAG")))
        self._check_comm()
        shown_source: Any = source
        shown_tag: Any = tag
        if tag == ANY_TAG:
            tag, shown_tag = -1, "ANY_TAG"
        if source == ANY_SOURCE:
            source, shown_source = -1, "ANY_SOURCE"
        call = (name, (("source", shown_source), ("tag", shown_tag)))
        if tag != -1 or shown_tag == -1:
            self._check_tag(tag, call)
        if not 0 <= source < self._size and source != PROC_NULL and shown_source != "ANY_SOURCE":
            raise self._bad_rank(source, call)
        return source, tag, call

    def _check_tag(self, tag: int, call: Call) -> None:
        if not 0 <= tag <= LARGEST_TAG:
            any_tag = (
                " For any tag a receive has MPI.ANY_TAG." if tag in (ANY_SOURCE, ANY_TAG) else ""
            )
            raise MPIException(
                ERR_TAG,
                f"{format_call(call)}: a tag is a number from 0 to {LARGEST_TAG}.{any_tag}",
            )

    def _bad_rank(self, rank: int, call: Call) -> MPIException:
        hint = ""
        if self._size == 1 and rank > 0:
            hint = " Start the program on more ranks."
        elif rank in (-1, self._size):
            hint = (
                " For no partner write MPI.PROC_NULL; on a ring, count modulo the number of ranks."
            )
        return MPIException(
            ERR_RANK,
            f"{format_call(call)}, but {self._who()} has the ranks {self._ranks()}."
            f"{self._counted_anew() or hint}",
        )

    def _counted_anew(self) -> str:
        """What is said beside a rank that a communicator doesn't have but the world has."""
        if self._size == self._link.world_size:
            return ""
        return " Its ranks are counted anew, from 0: they are not those of COMM_WORLD."

    def _who(self) -> str:
        return self._name or "the communicator"

    def _ranks(self) -> str:
        return f"0 to {self._size - 1}" if self._size > 1 else "0 alone"


def as_int(value: Any) -> int:
    """Return a number as mpi4py takes it.

    Raises:
        TypeError: it is no number.
    """
    if isinstance(value, int):
        return int(value)
    if hasattr(value, "__index__"):
        return int(value.__index__())
    if isinstance(value, float):
        return int(value)
    raise TypeError(
        f"an integer is required, got {type(value).__name__}. Name the arguments: dest=, source=, "
        "root=, tag=, op="
    )
