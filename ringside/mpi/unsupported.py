"""What of mpi4py isn't here: using such a name raises an error that says so."""

from __future__ import annotations

from typing import Any, Self

from ringside.mpi.unsupported_names import ABSENT

_CURES = {
    "cancel": "end a wait by a message, with a tag of its own for the last one.",
    "allocate_shared": "ranks share no memory here: use Allocate, and Put and Get.",
    "create_dynamic": "give Create all the memory at once.",
    "file": "let each rank write a file of its own, or gather the parts and let one rank write.",
    "shared_query": "ranks share no memory here: use Put and Get.",
    **dict.fromkeys(
        ("spawn", "spawn_multiple"),
        "all ranks are started together: ask for more of them, and let some be the workers, in a "
        "communicator that Split makes.",
    ),
}


class NotOfferedError(AttributeError, NotImplementedError):
    """A name of mpi4py that Ringside's network doesn't offer."""


def missing(owner: str, name: str) -> AttributeError:
    """Return the error for ``owner.name``, a name that is not defined here."""
    if name in ABSENT.get(owner, frozenset()):
        what = f"MPI.{name}" if owner == "MPI" else f"MPI.{owner}.{name}"
        cure = _CURES.get(name.lower(), "it works under mpiexec.")
        return NotOfferedError(f"{what} is not offered on Ringside's network; {cure}")
    where = "module 'mpi4py.MPI'" if owner == "MPI" else f"'{owner}' object"
    return AttributeError(f"{where} has no attribute {name!r}")


def _owner(cls: type[Any], name: str) -> str:
    """The class of mpi4py under whose name ``name`` is listed as absent."""
    for base in cls.__mro__:
        if name in ABSENT.get(base.__name__, frozenset()):
            return base.__name__
    return cls.__name__


constants: set[int] = set()  # by identity: MPI's own objects, which ``free`` leaves as they are


class HandleType(type):
    """The type of handle classes: a missing class attribute is named, offered or not."""

    def __getattr__(cls, name: str) -> Any:
        raise missing(_owner(cls, name), name)


class Handle(metaclass=HandleType):
    """Root of Comm, Request and the others."""

    __slots__ = ("__weakref__",)
    __hash__ = None  # type: ignore[assignment]  # as in mpi4py

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Take what ``__init__`` takes: a subclass calls ``super().__new__(cls, comm)``."""
        return object.__new__(cls)

    def __getattr__(self, name: str) -> Any:
        raise missing(_owner(type(self), name), name)

    def _is_constant(self) -> bool:
        """Whether this is one of MPI's own objects, and not a copy of it."""
        return id(self) in constants

    def toint(self) -> int:
        """Return -1: there is no handle of C behind it."""
        return -1

    def py2f(self) -> int:
        """Return -1: there is no handle of Fortran behind it."""
        return -1


def expect(value: Any, kind: type[Any]) -> None:
    """Refuse to copy what isn't of the right kind.

    Raises:
        TypeError: ``value`` is neither None nor a ``kind``.
    """
    if value is not None and not isinstance(value, kind):
        raise TypeError(
            f"Argument has incorrect type (expected mpi4py.MPI.{kind.__name__}, "
            f"got {type(value).__name__})"
        )
