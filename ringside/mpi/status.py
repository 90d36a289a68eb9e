"""Status: where a message came from, its tag and its length."""

from __future__ import annotations

from typing import Any

from ringside.mpi.constants import ANY_SOURCE, ANY_TAG, SUCCESS, UNDEFINED
from ringside.mpi.datatypes import BYTE, Datatype
from ringside.mpi.unsupported import Handle, expect


class Status(Handle):
    """What is known of a completed receive or a probed message."""

    __slots__ = ("_cancelled", "_nbytes", "error", "source", "tag")

    def __init__(self, status: Status | None = None) -> None:
        expect(status, Status)
        self.fill(ANY_SOURCE, ANY_TAG, 0)
        if status is not None:
            self._copy(status)

    def fill(self, source: int, tag: int, nbytes: int, error: int = SUCCESS) -> None:
        """Set all fields."""
        self.source = source
        self.tag = tag
        self.error = error
        self._nbytes = nbytes
        self._cancelled = False

    def _copy(self, other: Status) -> None:
        self.fill(other.source, other.tag, other._nbytes, other.error)
        self._cancelled = other._cancelled

    def _fields(self) -> tuple[Any, ...]:
        return self.source, self.tag, self.error, self._nbytes, self._cancelled

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Status):
            return NotImplemented
        return self._fields() == other._fields()

    def __reduce__(self) -> Any:
        return type(self)._restored, self._fields()

    @classmethod
    def _restored(cls, source: int, tag: int, error: int, nbytes: int, cancelled: bool) -> Status:
        self = cls()
        self.fill(source, tag, nbytes, error)
        self._cancelled = cancelled
        return self

    def Get_source(self) -> int:
        """Return the sender's rank."""
        return self.source

    def Set_source(self, source: int) -> None:
        """Set the sender's rank."""
        self.source = source

    def Get_tag(self) -> int:
        """Return the message's tag."""
        return self.tag

    def Set_tag(self, tag: int) -> None:
        """Set the message's tag."""
        self.tag = tag

    def Get_error(self) -> int:
        """Return the error code."""
        return self.error

    def Set_error(self, error: int) -> None:
        """Set the error code."""
        self.error = error

    def Get_count(self, datatype: Datatype = BYTE) -> int:
        """Return the length in entries of ``datatype``; UNDEFINED if that isn't whole."""
        size = datatype.Get_size()
        if size == 0:
            return 0 if self._nbytes == 0 else UNDEFINED
        return self._nbytes // size if self._nbytes % size == 0 else UNDEFINED

    def Get_elements(self, datatype: Datatype) -> int:
        """Return the length in basic elements of ``datatype``."""
        datatype.Get_size()  # refuses DATATYPE_NULL
        size = datatype.basic_size
        return self._nbytes // size if size and self._nbytes % size == 0 else UNDEFINED

    def Set_elements(self, datatype: Datatype, count: int) -> None:
        """Set the length in basic elements of ``datatype``."""
        datatype.Get_size()
        self._nbytes = datatype.basic_size * count

    def Is_cancelled(self) -> bool:
        """Tell whether the request was cancelled."""
        return self._cancelled

    def Set_cancelled(self, flag: bool) -> None:
        """Say whether the request was cancelled."""
        self._cancelled = bool(flag)

    @property
    def count(self) -> int:
        """The length in bytes."""
        return self.Get_count()

    @count.setter
    def count(self, value: int) -> None:
        self._nbytes = value

    @property
    def cancelled(self) -> bool:
        """Whether the request was cancelled."""
        return self._cancelled

    @cancelled.setter
    def cancelled(self, value: bool) -> None:
        self._cancelled = bool(value)
