"""What messages carry: buffers or pickled objects, on the way out and on the way in.

Calls on buffers (Send) and on objects (send) are the same but for this: a ``Pack`` turns what is
given into bytes, a ``Target`` says what happens to the bytes that come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ringside.mpi.buffers import Region, byte_view, region
from ringside.mpi.constants import ERR_TRUNCATE
from ringside.mpi.datatypes import BYTE
from ringside.mpi.exception import BufferRaceError
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.pickling import loads, packed
from ringside.network.in_flight import Awaited
from ringside.network.link import Call, Completion, Link, current, format_call
from ringside.network.wire import OBJECT


class Payload(NamedTuple):
    """The bytes to send, how many of them are said to count, and the buffer that they lie in."""

    data: memoryview | bytes
    claimed: int | None
    guarded: Region | None
    kind: int  # of wire.KINDS


Pack = Callable[[Any], Payload]


def of_buffer(buf: Any) -> Payload:
    """Pack the argument of an upper-case call."""
    data = region(buf, False)
    return Payload(data.read(), None, data, data.datatype.kind)


def of_object(obj: Any) -> Payload:
    """Pack the argument of a lower-case call."""
    data, claimed = packed(obj)
    return Payload(data, claimed, None, OBJECT)


def too_long(completion: Completion, capacity: int, call: Call) -> MPIException:
    """What is raised for a message that its receive has no room for."""
    cure = (
        "Either the buffer is too short, or this message is meant for another receive: compare the "
        "order and the tags of the calls on both ranks."
    )
    if call[0] in ("recv", "irecv") and capacity < current().world_size:
        cure = f"The first argument of {call[0]} is a buffer: write {call[0]}(source={capacity})."
    return MPIException(
        ERR_TRUNCATE,
        f"the message from rank {completion.source} (tag {completion.tag}) has "
        f"{completion.nbytes} bytes, and the buffer of {format_call(call)} has {capacity}. {cure}",
    )


def check_untouched(link: Link, awaited: Awaited, regions: Sequence[Region]) -> None:
    """What comes first when a call's data are there.

    Raises:
        BufferRaceError: somebody has written into a buffer since the call was posted.
    """
    link.has_come(awaited)
    if not awaited.shared and not all(region.is_poison(awaited.number) for region in regions):
        raise BufferRaceError(
            f"{awaited.call()} was written into before its data had come, at {link.place}. "
            "Write into it behind that line, or receive into another buffer."
        )


class Destination:
    """Where a message of a kind goes; it may have ``capacity`` bytes, -1: any number."""

    __slots__ = ("capacity", "kind")

    def __init__(self, capacity: int, kind: int) -> None:
        self.capacity = capacity
        self.kind = kind

    def await_data(self, link: Link, call: Call) -> None:
        """Make the place unusable until the message is there, and know it when it is used."""

    def give_up(self) -> None:
        """No message comes: whoever is given the place next may use it."""

    def take(self, completion: Completion, call: Call) -> Any:
        """Deliver a message; returns the object of a lower-case call.

        Raises:
            MPI.Exception: ERR_TRUNCATE, the message is too long.
        """
        if completion.error or completion.overflow or -1 < self.capacity < completion.nbytes:
            raise too_long(completion, self.capacity, call)
        return self._put(completion)

    def _put(self, completion: Completion) -> Any:
        raise NotImplementedError


class IntoRegion(Destination):
    """A message into some entries of a buffer."""

    __slots__ = ("awaited", "before", "link", "region")

    def __init__(self, place: Region) -> None:
        super().__init__(place.nbytes, place.datatype.kind)
        self.region = place
        self.before: bytes | None = None
        self.awaited: Awaited | None = None

    def await_data(self, link: Link, call: Call) -> None:
        # Kept because a shorter message leaves the rest of the buffer as it was.
        self.before = bytes(self.region.read())
        self.link, self.awaited = link, link.awaited(call, self.region.address)
        self.region.poison(self.awaited.number)

    def give_up(self) -> None:
        if self.awaited is not None:
            self.link.has_come(self.awaited)

    def _put(self, completion: Completion) -> Any:
        if self.awaited is not None:
            check_untouched(self.link, self.awaited, [self.region])
        self.region.write(completion.payload)
        if self.before is not None and completion.nbytes < len(self.before):
            self.region.write(self.before[completion.nbytes :], completion.nbytes)
        return None


class IntoBuffer(IntoRegion):
    """A message into a buffer."""

    __slots__ = ()

    def __init__(self, buf: Any) -> None:
        super().__init__(region(buf, True))


class IntoObject(Destination):
    """A message into a new object; ``buf`` says how long it may be."""

    __slots__ = ()

    def __init__(self, buf: Any, default: int = -1) -> None:
        if buf is None:
            super().__init__(default, OBJECT)
        elif hasattr(buf, "__index__"):
            super().__init__(int(buf), OBJECT)
        else:
            super().__init__(len(byte_view(buf, True, BYTE)[0]), OBJECT)

    def _put(self, completion: Completion) -> Any:
        return loads(completion.payload)
