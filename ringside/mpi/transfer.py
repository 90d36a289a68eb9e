"""The mechanics of point-to-point calls, the same for buffers and for objects."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ringside.mpi.attached import check_attached
from ringside.mpi.constants import ANY_SOURCE, ANY_TAG, LARGEST_TAG, PROC_NULL
from ringside.mpi.membership import Membership
from ringside.mpi.message import MESSAGE_NO_PROC, Message
from ringside.mpi.operation import GuardedSend, NoOperation, Operation, Receive, Together
from ringside.mpi.payload import Pack, Target, too_long
from ringside.mpi.request import Request
from ringside.mpi.status import Status
from ringside.network.link import Call, Completion

MakeTarget = Callable[[Any], Target]


class Transfer(Membership):
    """Sending, receiving, both at once, and probing."""

    __slots__ = ()

    def _send(self, name: str, mode: str, pack: Pack, what: Any, dest: int, tag: int) -> None:
        dest, tag, call = self._sending(name, dest, tag)
        if dest == PROC_NULL:
            return
        data, claimed, _, kind = pack(what)
        if mode == "buffered":
            check_attached(len(data), call)
        link = self._link
        site = link.site(call)
        number = link.isend(
            self._id, dest, tag, data, mode, kind=kind, claimed=claimed, borrowed=True, call=site
        )
        link.wait((number,), "all", call=site)

    def _receive(
        self, name: str, target: MakeTarget, where: Any, source: int, tag: int,
        status: Status | None,
    ) -> Any:  # fmt: skip
        source, tag, call = self._receiving(name, source, tag)
        if source == PROC_NULL:
            return nobody(status)
        into = target(where)
        link = self._link
        site = link.site(call)
        number = link.irecv(self._id, source, tag, into.capacity, kind=into.kind, call=site)
        return received(into, link.wait((number,), "all", call=site)[0], call, status)

    def _exchange(
        self,
        name: str,
        pack: Pack,
        what: Any,
        dest: int,
        sendtag: int,
        target: MakeTarget,
        where: Any,
        source: int,
        recvtag: int,
        status: Status | None,
    ) -> Any:
        """Send and receive in one round trip; either partner may be PROC_NULL."""
        dest, sendtag, sending = self._sending(name, dest, sendtag)
        source, recvtag, receiving = self._receiving(name, source, recvtag)
        into = target(where) if source != PROC_NULL else None
        sent = pack(what) if dest != PROC_NULL else None
        link = self._link
        call = sending if into is None else receiving
        if sent is not None and into is not None:
            call = (name, (sending[1][0], receiving[1][0]))
        site = link.site(call)
        if sent is not None and into is not None:
            completion = link.exchange(
                self._id, dest, sendtag, sent.data, source, recvtag, into.capacity,
                kinds=(sent.kind, into.kind), claimed=sent.claimed, call=site,
            )  # fmt: skip
            return received(into, completion, receiving, status)
        numbers = []
        if sent is not None:
            numbers.append(link.isend(
                self._id, dest, sendtag, sent.data, kind=sent.kind, claimed=sent.claimed,
                borrowed=True, call=site,
            ))  # fmt: skip
        if into is not None:
            numbers.append(link.irecv(
                self._id, source, recvtag, into.capacity, kind=into.kind, call=site
            ))  # fmt: skip
        completions = link.wait(numbers, "all", call=site)
        if into is None:
            return nobody(status)
        return received(into, completions[-1], receiving, status)

    def _exchange_bytes(
        self, given: memoryview, dest: Any, sendtag: Any, place: memoryview,
        source: Any, recvtag: Any, status: Status | None, kinds: tuple[int, int],
    ) -> bool:  # fmt: skip
        """The way that most Sendrecvs take, without the objects that the others need.

        False: one of the numbers is out of the ordinary, and nothing was done.
        """
        if not (
            type(dest) is type(sendtag) is type(source) is type(recvtag) is int
            and 0 <= dest < (size := self._size)
            and 0 <= source < size
            and 0 <= sendtag <= LARGEST_TAG
            and (recvtag == ANY_TAG or 0 <= recvtag <= LARGEST_TAG)
        ):
            return False
        link = self._link
        site = link.site_of_sendrecv(sys._getframe(2), dest, source)
        done = link.exchange(
            self._id, dest, sendtag, given, source, -1 if recvtag == ANY_TAG else recvtag,
            len(place), kinds=kinds, call=site,
        )  # fmt: skip
        if done.error or done.overflow:
            raise too_long(done, len(place), self._receiving("Sendrecv", source, recvtag)[2])
        if done.payload:
            place[: done.nbytes] = done.payload
        return _described(done, status)

    # -- posting -----------------------------------------------------------------------------------

    def _post_send(
        self, name: str, mode: str, pack: Pack, what: Any, dest: int, tag: int
    ) -> Operation:
        dest, tag, call = self._sending(name, dest, tag)
        if dest == PROC_NULL:
            return NoOperation(self._link, call, receives=False)
        data, claimed, guarded, kind = pack(what)
        if mode == "buffered":
            check_attached(len(data), call)
        number = self._link.isend(
            self._id, dest, tag, data, mode, kind=kind, claimed=claimed, call=call
        )
        if guarded is None:
            return Operation(self._link, number, call)
        return GuardedSend(self._link, number, call, guarded)

    def _post_receive(
        self, name: str, target: MakeTarget, where: Any, source: int, tag: int
    ) -> Operation:
        source, tag, call = self._receiving(name, source, tag)
        if source == PROC_NULL:
            return NoOperation(self._link, call, receives=True)
        into = target(where)
        number = self._link.irecv(self._id, source, tag, into.capacity, kind=into.kind, call=call)
        into.poison()
        return Receive(self._link, number, call, into)

    def _together(self, *parts: Operation) -> Request:
        return Request._of(Together(self._link, parts[-1].call, parts))

    # -- probing -----------------------------------------------------------------------------------

    def _probe(
        self, name: str, source: int, tag: int, status: Status | None, *, blocking: bool
    ) -> bool:
        source, tag, call = self._receiving(name, source, tag)
        if source == PROC_NULL:
            nobody(status)
            return True
        found = self._link.probe(self._id, source, tag, blocking=blocking, call=call)
        return found is not None and _described(found, status)

    def _matched_probe(
        self, name: str, source: int, tag: int, status: Status | None, *, blocking: bool
    ) -> Message | None:
        """Probe, and take the message out of the way of other receives.

        The message found is the first of its source and tag, so a receive of just these gets it.
        """
        source, tag, call = self._receiving(name, source, tag)
        if source == PROC_NULL:
            nobody(status)
            return Message(MESSAGE_NO_PROC)
        found = self._link.probe(self._id, source, tag, blocking=blocking, call=call)
        if found is None:
            if status is not None:
                status.fill(ANY_SOURCE, ANY_TAG, 0)
            return None
        _described(found, status)
        number = self._link.irecv(self._id, found.source, found.tag, -1, call=call)
        return Message._of(self._link, number, call)


def nobody(status: Status | None) -> None:
    """Fill the status of a receive from PROC_NULL."""
    if status is not None:
        status.fill(PROC_NULL, ANY_TAG, 0)


def received(into: Target, completion: Completion, call: Call, status: Status | None) -> Any:
    """Deliver a message, fill ``status``, and return the object of a lower-case call."""
    value = into.take(completion, call)
    _described(completion, status)
    return value


def _described(completion: Completion, status: Status | None) -> bool:
    if status is not None:
        status.fill(completion.source, completion.tag, completion.nbytes)
    return True
