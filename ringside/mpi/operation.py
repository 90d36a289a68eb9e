"""Operations in flight: what is left to do when the network says that one is complete.

A posted operation has a number on the link. One that needs no partner (PROC_NULL) is complete at
once and has none; an Isendrecv is several operations that are complete together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ringside.mpi.buffers import Region
from ringside.mpi.constants import (
    ANY_SOURCE,
    ANY_TAG,
    ERR_PROC_FAILED,
    ERR_PROC_FAILED_PENDING,
    PROC_NULL,
)
from ringside.mpi.exception import Exception as MPIException
from ringside.mpi.exception import changed_while_sent
from ringside.mpi.payload import Destination, check_untouched
from ringside.mpi.status import Status
from ringside.network.in_flight import Awaited
from ringside.network.link import Call, Completion, Link


class Operation:
    """Something posted; sends without a buffer to guard need no more than this."""

    __slots__ = ("call", "completion", "link", "number")

    stays_open = False  # though it ended with an error

    def __init__(self, link: Link, number: int, call: Call) -> None:
        self.link = link
        self.number = number
        self.call = call
        self.completion: Completion | None = None

    def open(self) -> list[int]:
        """Return the numbers that the network hasn't completed yet, as far as we know."""
        return [self.number] if self.number and self.completion is None else []

    def take(self, completion: Completion) -> None:
        """Learn that a number of ours is complete."""
        self.completion = completion

    def keep(self) -> None:
        """Copy what was received out of the link's buffer, to stay beyond the next call."""
        completion = self.completion
        if completion is not None and completion.payload is not None:
            payload = memoryview(bytes(completion.payload))
            self.completion = completion._replace(payload=payload)

    def describe(self, status: Status) -> None:
        """Fill ``status`` as the complete operation does."""
        status.fill(ANY_SOURCE, ANY_TAG, 0)

    def finish(self, status: Status | None) -> Any:
        """Deliver the result, fill ``status``, and return the object of a lower-case call."""
        if status is not None:
            self.describe(status)
        return self.deliver()

    def deliver(self) -> Any:
        """Put the result where it belongs."""
        self.check_end()

    def check_end(self) -> None:
        """Refuse the result of an operation that a failure has ended.

        Raises:
            MPI.Exception: ERR_PROC_FAILED, ERR_REVOKED
        """
        if self.completion is not None:
            self.link.checked(self.completion)


class NoOperation(Operation):
    """A send to or a receive from PROC_NULL: complete, with nothing in it."""

    __slots__ = ("receives",)

    def __init__(self, link: Link, call: Call, *, receives: bool) -> None:
        super().__init__(link, 0, call)
        self.receives = receives

    def describe(self, status: Status) -> None:
        status.fill(PROC_NULL if self.receives else ANY_SOURCE, ANY_TAG, 0)


class GuardedSend(Operation):
    """A send whose buffer must stay as it was until the send is complete."""

    __slots__ = ("checksum", "region", "told")

    def __init__(self, link: Link, number: int, call: Call, region: Region) -> None:
        super().__init__(link, number, call)
        self.told = link.told(call)
        self.region = region
        self.checksum = region.checksum()
        link.in_flight.sends[number] = self.check

    def check(self) -> None:
        """Refuse a buffer that was changed."""
        if self.region.checksum() != self.checksum:
            raise changed_while_sent(self.told())

    def deliver(self) -> Any:
        self.link.in_flight.sends.pop(self.number, None)
        self.check_end()
        self.check()


class Receive(Operation):
    """A receive."""

    __slots__ = ("again", "stays_open", "target")

    def __init__(self, link: Link, number: int, call: Call, target: Destination) -> None:
        super().__init__(link, number, call)
        self.target = target
        self.again: Callable[[], int] | None = None  # of one from anybody: posts it once more
        self.stays_open = False

    def open(self) -> list[int]:
        if self.stays_open and self.again is not None:
            # Only now: while nobody waits for it, a death that isn't acknowledged doesn't end it.
            self.number, self.stays_open = self.again(), False
        return super().open()

    def describe(self, status: Status) -> None:
        completion = self.completion
        assert completion is not None
        status.fill(completion.source, completion.tag, completion.nbytes)

    def finish(self, status: Status | None) -> Any:
        value = self.deliver()  # a message that doesn't fit leaves the status as it was
        if status is not None:
            self.describe(status)
        return value

    def deliver(self) -> Any:
        completion = self.completion
        assert completion is not None
        if completion.error == ERR_PROC_FAILED and self.again is not None:
            self.stays_open, self.completion = True, None  # whoever is alive may still send
            told = bytes(completion.payload or b"").decode()
            raise MPIException(ERR_PROC_FAILED_PENDING, told)
        if completion.error >= ERR_PROC_FAILED:
            self.target.give_up()
        self.check_end()
        return self.target.take(completion, self.call)


class CollectiveOperation(Operation):
    """A collective in flight; ``done`` puts its value into the buffers."""

    __slots__ = ("awaited", "checksum", "done", "received", "sent", "told")

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
        self.told = link.told(call)
        self.sent = sent
        self.checksum = [region.checksum() for region in sent]
        self.received = received
        self.awaited: Awaited | None = None
        if received:
            self.awaited = link.awaited(call, received[0].address)
            for region in received:
                region.poison(self.awaited.number)

    def deliver(self) -> Any:
        assert self.completion is not None
        if self.completion.error >= ERR_PROC_FAILED and self.awaited is not None:
            self.link.has_come(self.awaited)
        self.check_end()
        if [region.checksum() for region in self.sent] != self.checksum:
            raise changed_while_sent(self.told())
        if self.awaited is not None:
            check_untouched(self.link, self.awaited, self.received)
        return self.done(self.link.collective_result(self.completion))


class Together(Operation):
    """Operations behind one request; the last of them fills the status."""

    __slots__ = ("parts",)

    def __init__(self, link: Link, call: Call, parts: Sequence[Operation]) -> None:
        super().__init__(link, 0, call)
        self.parts = parts

    def open(self) -> list[int]:
        return [number for part in self.parts for number in part.open()]

    def take(self, completion: Completion) -> None:
        for part in self.parts:
            if part.number == completion.request:
                part.take(completion)

    def keep(self) -> None:
        for part in self.parts:
            part.keep()

    def describe(self, status: Status) -> None:
        if self.parts:
            self.parts[-1].describe(status)
        else:
            super().describe(status)

    def deliver(self) -> Any:
        failures = []
        for part in self.parts:
            try:
                part.deliver()
            except MPIException as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return None
