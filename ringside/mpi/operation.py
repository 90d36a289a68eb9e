"""Operations in flight: what is left to do when the network says that one is complete.

A posted operation has a number on the link. One that needs no partner (PROC_NULL) is complete at
once and has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ringside.link import Call, Completion, Link, format_call
from ringside.mpi.buffers import Region
from ringside.mpi.constants import ANY_SOURCE, ANY_TAG, ERR_TRUNCATE, PROC_NULL
from ringside.mpi.exception import BufferRaceError
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.pickling import loads
from ringside.mpi.status import Status


class Operation:
    """Something posted; sends without a buffer to guard need no more than this."""

    __slots__ = ("call", "completion", "link", "number")

    def __init__(self, link: Link, number: int, call: Call) -> None:
        self.link = link
        self.number = number
        self.call = call
        self.completion: Completion | None = None

    def finish(self, completion: Completion | None, status: Status | None) -> Any:
        """Deliver the result, fill ``status``, and return the object of a lower-case call."""
        if status is not None:
            status.fill(ANY_SOURCE, ANY_TAG, 0)
        return None


class NoOperation(Operation):
    """A send to or a receive from PROC_NULL: complete, with nothing in it."""

    __slots__ = ("receives",)

    def __init__(self, link: Link, call: Call, *, receives: bool) -> None:
        super().__init__(link, 0, call)
        self.receives = receives

    def finish(self, completion: Completion | None, status: Status | None) -> Any:
        if status is not None:
            status.fill(PROC_NULL if self.receives else ANY_SOURCE, ANY_TAG, 0)
        return None


class GuardedSend(Operation):
    """A send whose buffer must stay as it was until the send is complete."""

    __slots__ = ("checksum", "region")

    def __init__(self, link: Link, number: int, call: Call, region: Region) -> None:
        super().__init__(link, number, call)
        self.region = region
        self.checksum = region.checksum()

    def finish(self, completion: Completion | None, status: Status | None) -> Any:
        if status is not None:
            status.fill(ANY_SOURCE, ANY_TAG, 0)
        if self.region.checksum() != self.checksum:
            raise BufferRaceError(format_call(self.call))
        return None


class Receive(Operation):
    """A receive into a buffer."""

    __slots__ = ("before", "region")

    def __init__(
        self, link: Link, number: int, call: Call, region: Region, *, poison: bool
    ) -> None:
        super().__init__(link, number, call)
        self.region = region
        self.before: bytes | None = None
        if poison:
            # Kept because a shorter message leaves the rest of the buffer as it was.
            self.before = bytes(region.read())
            region.poison()

    def finish(self, completion: Completion | None, status: Status | None) -> Any:
        assert completion is not None
        deliver(self.region, completion, self.call, self.before)
        if status is not None:
            status.fill(completion.source, completion.tag, completion.nbytes)
        return None


class ObjectReceive(Operation):
    """A lower-case receive."""

    __slots__ = ("capacity",)

    def __init__(self, link: Link, number: int, call: Call, capacity: int) -> None:
        super().__init__(link, number, call)
        self.capacity = capacity

    def finish(self, completion: Completion | None, status: Status | None) -> Any:
        assert completion is not None
        check_length(completion, self.capacity, self.call)
        if status is not None:
            status.fill(completion.source, completion.tag, completion.nbytes)
        return loads(completion.payload)


class CollectiveOperation(Operation):
    """A collective in flight; ``done`` puts its value into the buffers."""

    __slots__ = ("checksum", "done", "sent")

    def __init__(
        self,
        link: Link,
        number: int,
        call: Call,
        done: Callable[[Any], Any],
        sent: Sequence[Region] = (),
        received: Sequence[Region] = (),
    ) -> None:
        super().__init__(link, number, call)
        self.done = done
        self.sent = sent
        self.checksum = [region.checksum() for region in sent]
        for region in received:
            region.poison()

    def finish(self, completion: Completion | None, status: Status | None) -> Any:
        assert completion is not None
        if status is not None:
            status.fill(ANY_SOURCE, ANY_TAG, 0)
        if [region.checksum() for region in self.sent] != self.checksum:
            raise BufferRaceError(format_call(self.call))
        return self.done(self.link.collective_result(completion))


def check_length(completion: Completion, capacity: int, call: Call) -> None:
    """Refuse a message longer than the buffer that it was to go into."""
    if completion.error or completion.overflow or -1 < capacity < completion.nbytes:
        raise MPIException(
            ERR_TRUNCATE,
            f"the message from rank {completion.source} (tag {completion.tag}) has "
            f"{completion.nbytes} bytes, the buffer of {format_call(call)} has {capacity}. "
            "Give the receive a buffer that is at least as long.",
        )


def deliver(
    region: Region, completion: Completion, call: Call, before: bytes | None = None
) -> None:
    """Put a received message into its buffer."""
    payload = completion.payload
    if completion.error or completion.overflow or completion.nbytes > region.nbytes:
        check_length(completion, region.nbytes, call)
    if payload:
        region.write(payload)
    if before is not None and completion.nbytes < len(before):
        region.write(before[completion.nbytes :], completion.nbytes)
