"""The mechanics of point-to-point calls, the same for buffers and for objects."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ringside.mpi.bsend_buffer import check_attached
from ringside.mpi.constants import ANY_SOURCE, ANY_TAG, LARGEST_TAG, PROC_NULL
from ringside.mpi.membership import Membership
from ringside.mpi.message import MESSAGE_NO_PROC, Message
from ringside.mpi.operation import GuardedSend, NoOperation, Operation, Receive, Together
from ringside.mpi.payload import Destination, Pack, too_long
from ringside.mpi.request import Request
from ringside.mpi.status import Status
from ringside.network.link import Call, Completion

MakeTarget = Callable[[Any], Destination]


def send(
    comm: Membership, name: str, mode: str, pack: Pack, what: Any, dest: int, tag: int
) -> None:
    dest, tag, call = comm._sending(name, dest, tag)
    if dest == PROC_NULL:
        return
    data, claimed, _, kind = pack(what)
    if mode == "buffered":
        check_attached(len(data), call)
    link = comm._link
    site = link.site(call)
    number = link.isend(
        comm._id, dest, tag, data, mode, kind=kind, claimed=claimed, borrowed=True, call=site
    )
    link.checked(link.wait((number,), "all", call=site)[0])


def receive(comm: Membership, name: str, target: MakeTarget, where: Any, source: int, tag: int,
    status: Status | None,
) -> Any:  # fmt: skip
    source, tag, call = comm._receiving(name, source, tag)
    if source == PROC_NULL:
        return nobody(status)
    into = target(where)
    link = comm._link
    site = link.site(call)
    number = link.irecv(comm._id, source, tag, into.capacity, kind=into.kind, call=site)
    done = link.checked(link.wait((number,), "all", call=site)[0])
    return received(into, done, call, status)


def exchange(
    comm: Membership,
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
    dest, sendtag, sending = comm._sending(name, dest, sendtag)
    source, recvtag, receiving = comm._receiving(name, source, recvtag)
    into = target(where) if source != PROC_NULL else None
    sent = pack(what) if dest != PROC_NULL else None
    link = comm._link
    call = sending if into is None else receiving
    if sent is not None and into is not None:
        call = (name, (sending[1][0], receiving[1][0]))
    site = link.site(call)
    if sent is not None and into is not None:
        completion = link.exchange(
            comm._id, dest, sendtag, sent.data, source, recvtag, into.capacity,
            kinds=(sent.kind, into.kind), claimed=sent.claimed, call=site,
        )  # fmt: skip
        return received(into, completion, receiving, status)
    numbers = []
    if sent is not None:
        numbers.append(link.isend(
            comm._id, dest, sendtag, sent.data, kind=sent.kind, claimed=sent.claimed,
            borrowed=True, call=site,
        ))  # fmt: skip
    if into is not None:
        numbers.append(link.irecv(
            comm._id, source, recvtag, into.capacity, kind=into.kind, call=site
        ))  # fmt: skip
    completions = list(map(link.checked, link.wait(numbers, "all", call=site)))
    if into is None:
        return nobody(status)
    return received(into, completions[-1], receiving, status)


def exchange_bytes(comm: Membership, given: memoryview, dest: Any, sendtag: Any, place: memoryview,
    source: Any, recvtag: Any, status: Status | None, kinds: tuple[int, int],
) -> bool:  # fmt: skip
    """The way that most Sendrecvs take, without the objects that the others need.

    False: one of the numbers is out of the ordinary, and nothing was done.
    """
    if not (
        type(dest) is type(sendtag) is type(source) is type(recvtag) is int
        and 0 <= dest < (size := comm._size)
        and 0 <= source < size
        and 0 <= sendtag <= LARGEST_TAG
        and (recvtag == ANY_TAG or 0 <= recvtag <= LARGEST_TAG)
    ):
        return False
    link = comm._link
    site = link.site_of_sendrecv(sys._getframe(2), dest, source)
    done = link.exchange(
        comm._id, dest, sendtag, given, source, -1 if recvtag == ANY_TAG else recvtag,
        len(place), kinds=kinds, call=site,
    )  # fmt: skip
    if done.error or done.overflow:
        raise too_long(done, len(place), comm._receiving("Sendrecv", source, recvtag)[2])
    if done.payload:
        place[: done.nbytes] = done.payload
    return _described(done, status)


# -- posting -----------------------------------------------------------------------------------


def post_send(
    comm: Membership, name: str, mode: str, pack: Pack, what: Any, dest: int, tag: int
) -> Operation:
    dest, tag, call = comm._sending(name, dest, tag)
    if dest == PROC_NULL:
        return NoOperation(comm._link, call, receives=False)
    data, claimed, guarded, kind = pack(what)
    if mode == "buffered":
        check_attached(len(data), call)
    number = comm._link.isend(
        comm._id, dest, tag, data, mode, kind=kind, claimed=claimed, call=call
    )
    if guarded is None:
        return Operation(comm._link, number, call)
    return GuardedSend(comm._link, number, call, guarded)


def post_receive(
    comm: Membership, name: str, target: MakeTarget, where: Any, source: int, tag: int
) -> Operation:
    source, tag, call = comm._receiving(name, source, tag)
    if source == PROC_NULL:
        return NoOperation(comm._link, call, receives=True)
    into = target(where)
    number = comm._link.irecv(comm._id, source, tag, into.capacity, kind=into.kind, call=call)
    into.await_data(comm._link, call)
    operation = Receive(comm._link, number, call, into)
    if source == -1:
        operation.again = lambda: comm._link.irecv(
            comm._id, source, tag, into.capacity, kind=into.kind, call=call
        )
    return operation


def together(comm: Membership, *parts: Operation) -> Request:
    return Request._of(Together(comm._link, parts[-1].call, parts))


# -- probing -----------------------------------------------------------------------------------


def probe(
    comm: Membership, name: str, source: int, tag: int, status: Status | None, *, blocking: bool
) -> bool:
    source, tag, call = comm._receiving(name, source, tag)
    if source == PROC_NULL:
        nobody(status)
        return True
    completion = comm._link.probe(comm._id, source, tag, blocking=blocking, call=call)
    return completion is not None and _described(completion, status)


def matched_probe(
    comm: Membership, name: str, source: int, tag: int, status: Status | None, *, blocking: bool
) -> Message | None:
    """Probe, and take the message out of the way of other receives.

    The message found is the first of its source and tag, so a receive of just these gets it.
    """
    source, tag, call = comm._receiving(name, source, tag)
    if source == PROC_NULL:
        nobody(status)
        return Message(MESSAGE_NO_PROC)
    completion = comm._link.probe(comm._id, source, tag, blocking=blocking, call=call)
    if completion is None:
        if status is not None:
            status.fill(ANY_SOURCE, ANY_TAG, 0)
        return None
    _described(completion, status)
    number = comm._link.irecv(comm._id, completion.source, completion.tag, -1, call=call)
    return Message._of(comm._link, number, call)


def nobody(status: Status | None) -> None:
    """Fill the status of a receive from PROC_NULL."""
    if status is not None:
        status.fill(PROC_NULL, ANY_TAG, 0)


def received(into: Destination, completion: Completion, call: Call, status: Status | None) -> Any:
    """Deliver a message, fill ``status``, and return the object of a lower-case call."""
    value = into.take(completion, call)
    _described(completion, status)
    return value


def _described(completion: Completion, status: Status | None) -> bool:
    if status is not None:
        status.fill(completion.source, completion.tag, completion.nbytes)
    return True
