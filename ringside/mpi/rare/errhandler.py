"""Errhandler: errors are exceptions here; the handlers that end the program aren't offered."""

from __future__ import annotations

from typing import Any

from ringside.mpi.constants import ERR_ARG
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.pickling import named
from ringside.mpi.unsupported import Handle, NotOfferedError, expect


class Errhandler(Handle):
    """What happens on an error."""

    __slots__ = ("_name",)
    _name: str

    def __init__(self, errhandler: Errhandler | None = None) -> None:
        expect(errhandler, Errhandler)
        self._name = errhandler._name if errhandler is not None else "ERRHANDLER_NULL"

    @classmethod
    def _make(cls, name: str) -> Errhandler:
        self = cls()
        self._name = name
        return self

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Errhandler):
            return NotImplemented
        return self._name == other._name

    def __bool__(self) -> bool:
        return self._name != "ERRHANDLER_NULL"

    def __reduce__(self) -> Any:
        return named(self, self._name)

    def Free(self) -> None:
        """Give the handler back."""
        if not self:
            raise MPIException(ERR_ARG, "the handler is ERRHANDLER_NULL")
        self._name = "ERRHANDLER_NULL"

    def free(self) -> None:
        """Give the handler back if there is one."""
        if not self._is_constant():
            self._name = "ERRHANDLER_NULL"


PREDEFINED = {
    name: Errhandler._make(name)
    for name in ("ERRHANDLER_NULL", "ERRORS_RETURN", "ERRORS_ARE_FATAL", "ERRORS_ABORT")
}


def current() -> Errhandler:
    """Return the handler in force, the only one that there is."""
    return Errhandler(PREDEFINED["ERRORS_RETURN"])


def check(errhandler: Errhandler) -> None:
    """Refuse a handler that would need another behaviour on errors."""
    expect(errhandler, Errhandler)
    if not errhandler:
        raise MPIException(ERR_ARG, "the handler is ERRHANDLER_NULL")
    if errhandler._name != "ERRORS_RETURN":
        raise NotOfferedError(
            f"MPI.{errhandler._name} is not offered on Ringside's network; errors are exceptions, "
            "as with ERRORS_RETURN."
        )
