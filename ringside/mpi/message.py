"""Message: what a matched probe has found and nobody else can receive.

Unlike on real MPI the data begins to move at the probe, not at the receive.
"""

from __future__ import annotations

from typing import Any, Protocol

from ringside.mpi.constants import ANY_SOURCE, ANY_TAG, ERR_REQUEST, PROC_NULL
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.operation import NoOperation, Operation, Receive
from ringside.mpi.payload import Destination, IntoBuffer, IntoObject
from ringside.mpi.pickling import named
from ringside.mpi.request import Request
from ringside.mpi.status import Status
from ringside.mpi.unsupported import Handle, expect
from ringside.network.link import Call, Link

_NO_PROC = -1


class Probing(Protocol):
    """What a communicator has that messages are looked for in."""

    def Mprobe(self, source: int, tag: int, status: Status | None) -> Message: ...
    def Improbe(self, source: int, tag: int, status: Status | None) -> Message | None: ...


class Message(Handle):
    """A message that was probed and is to be received; null once it is."""

    __slots__ = ("_call", "_link", "_number")

    _call: Call
    _link: Link
    _number: int

    def __init__(self, message: Message | None = None) -> None:
        expect(message, Message)
        self._number = 0
        if message is not None and message._number:
            self._number = message._number
            if message._number != _NO_PROC:
                self._link, self._call = message._link, message._call

    @classmethod
    def _of(cls, link: Link, number: int, call: Call) -> Message:
        self = cls()
        self._link, self._number, self._call = link, number, call
        return self

    def __bool__(self) -> bool:
        return self._number != 0

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return self._number == other._number

    def __reduce__(self) -> Any:
        if self._number > 0:
            raise ValueError("cannot pickle a Message that isn't predefined")
        return named(self, "MESSAGE_NO_PROC" if self._number else "MESSAGE_NULL")

    # -- receiving it ------------------------------------------------------------------------------

    def Recv(self, buf: Any, status: Status | None = None) -> None:
        """Receive into a buffer."""
        self._operation(IntoBuffer, buf)._complete(("Mrecv", ()), status)

    def Irecv(self, buf: Any) -> Request:
        """Begin to receive into a buffer."""
        return self._operation(IntoBuffer, buf)

    def recv(self, status: Status | None = None) -> Any:
        """Receive an object and return it."""
        return self._operation(IntoObject, None)._complete(("mrecv", ()), status)

    def irecv(self) -> Request:
        """Begin to receive an object."""
        return self._operation(IntoObject, None)

    def _operation(self, kind: type[Any], buf: Any) -> Request:
        """The receive, which leaves null in our place."""
        if not self._number:
            raise MPIException(ERR_REQUEST, "the message is MESSAGE_NULL: it was received already")
        if self._number == _NO_PROC:
            if self is not MESSAGE_NO_PROC:
                self._number = 0
            call: Call = ("Mrecv", (("source", PROC_NULL),))
            return Request._of(NoOperation(_no_link, call, receives=True))
        target: Destination = kind(buf)
        operation: Operation = Receive(self._link, self._number, self._call, target)
        target.await_data(self._link, self._call)
        self._number = 0
        return Request._of(operation)

    def free(self) -> None:
        """Forget the message: nobody can receive it any more."""
        if not self._is_constant():
            self._number = 0

    # -- finding one -------------------------------------------------------------------------------

    @classmethod
    def Probe(
        cls,
        comm: Probing,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Message:
        """Block until there is a message, and take it out of the way of other receives."""
        return comm.Mprobe(source, tag, status)

    @classmethod
    def Iprobe(
        cls,
        comm: Probing,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Message | None:
        """As Probe; None if there is no message now."""
        return comm.Improbe(source, tag, status)

    probe = Probe
    iprobe = Iprobe


_no_link: Any = None  # what is complete at once asks nobody
MESSAGE_NULL = Message()
MESSAGE_NO_PROC = Message()
MESSAGE_NO_PROC._number = _NO_PROC
