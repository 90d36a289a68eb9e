"""The requests of all ranks: opened, waited for, completed; and who goes on when.

open        a send, a receive or a collective is posted
wait_for    the rank stops until all that it named are ready
is_ready    one is, and with the last of them the rank goes on: ``complete`` answers it
ask         a call that observes time stops the rank until the engine answers
replies     what all this has led to: the network sends it
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from ringside.errors import LimitError
from ringside.network.bounds import Ledger
from ringside.network.matching import Pending
from ringside.network.peers import Peer
from ringside.network.wire import COMPLETION, Frame, How, Reply, ReplyFrame, make_reply
from ringside.timing.engine import Engine
from ringside.timing.queries import Query
from ringside.trace import CallSite, Kind, make_op
from ringside.trace import Op as TraceOp

# Plain numbers: an enumeration costs time at every comparison.
_ALL, _LAST_HOW, _DONE = int(How.ALL), int(How.SOME), int(Reply.DONE)
_WAIT_KIND = int(Kind.WAIT)
_pack_completion = COMPLETION.pack


class Fault(NamedTuple):
    """The error that a request ends with.

    Attributes:
        code: its number on the wire.
        known_ps: before which time nobody meets it.
    """

    code: int
    told: str
    known_ps: int


def fault_op(comm: str, number: int, fault: Fault, site: int, peer: int = -1) -> TraceOp:
    """A request that ends with an error, as it is recorded."""
    return TraceOp(
        Kind.FAULT, peer, comm=comm, request=number, detail=(fault.known_ps, fault.code), site=site
    )


class Requests:
    """What ranks have begun and not completed yet."""

    def __init__(self, peers: Sequence[Peer], ledger: Ledger) -> None:
        self._peers = peers
        self._ledger, self._limits = ledger, ledger.limits
        self.replies: list[tuple[Peer, ReplyFrame]] = []  # to be sent, in the order of their causes
        self.engine: Engine | None = None  # there is one once a question about time was asked
        self.num_running = 0

    def resume(self, peer: Peer) -> None:
        """A rank goes on."""
        peer.running = True
        self.num_running += 1

    def stop(self, peer: Peer) -> None:
        """A rank waits for an answer, or has come to its end."""
        peer.running = False
        self.num_running -= 1

    def open(self, peer: Peer, number: int) -> Pending:
        # A number used twice would stand for two operations; an exchange's second may be too large.
        if not peer.last_request < number < 1 << 32:
            raise LimitError(peer.rank, "numbered its requests wrongly")
        if len(peer.requests) >= self._limits.open_requests:
            raise LimitError(
                peer.rank,
                f"has more than {self._limits.open_requests} requests that it never waits for",
            )
        peer.last_request = number
        request = peer.requests[number] = Pending(peer.rank, number, len(peer.ops))
        return request

    def _release(self, request: Pending, nbytes: int) -> None:
        """A payload leaves; one that several members get counts until the last has it."""
        if request.held is not None:
            request.held[0] -= 1
            nbytes = 0 if request.held[0] else request.held[1]
        self._ledger.release(nbytes)

    def learn(self, request: Pending, op: TraceOp) -> None:
        """All is known of the operation behind a request now: record it, and tell the clock."""
        self._peers[request.rank].ops[request.op] = op
        if self.engine is not None:
            self.engine.resolve(request.rank, request.op)

    def fail(self, request: Pending, fault: Fault) -> None:
        """A request will never be complete: it ends with an error."""
        peer = self._peers[request.rank]
        op = peer.ops[request.op]
        peer.ops[request.op] = fault_op(op.comm, request.number, fault, op.site, op.peer)
        if self.engine is not None:
            self.engine.fail(request.rank, request.op, op, fault.known_ps)
        self.end_with(request, fault)
        self.is_ready(request)

    def end_with(self, request: Pending, fault: Fault) -> None:
        """Let a request's answer be an error."""
        request.error, request.payload = fault.code, fault.told.encode()
        request.gathering = request.held = None
        self._ledger.hold(request.rank, len(request.payload))

    def is_ready(self, request: Pending) -> None:
        request.ready = True
        if not request.awaited:
            return
        request.awaited = False
        peer = self._peers[request.rank]
        peer.num_awaited -= 1
        if peer.num_awaited:
            return
        waiting, peer.waiting = peer.waiting, ()
        # Before its answer is sent: if it has died meanwhile, only a running rank is found lost.
        self.resume(peer)
        self.complete(peer, waiting)

    def pending(self, peer: Peer, numbers: tuple[int, ...]) -> tuple[Pending, ...]:
        try:
            return tuple(peer.requests[number] for number in numbers)
        except KeyError:
            raise LimitError(peer.rank, "waited for a request that it doesn't have") from None

    def numbers(self, peer: Peer, frame: Frame) -> tuple[int, ...]:
        """The requests that a wait or a test names."""
        if frame.flags > _LAST_HOW:
            raise LimitError(peer.rank, f"waited in a way that doesn't exist ({frame.flags})")
        count = len(frame.body) // 4
        if count > len(peer.requests):  # before as many numbers are made
            raise LimitError(
                peer.rank, "waited for requests that it doesn't have, or for one twice"
            )
        numbers = struct.unpack(f"<{count}I", frame.body)
        if not count or len(set(numbers)) < count:
            raise LimitError(peer.rank, "waited for no request, or for one twice")
        return numbers

    def wait(self, peer: Peer, frame: Frame) -> None:
        numbers, how = self.numbers(peer, frame), frame.flags
        waiting = self.pending(peer, numbers)
        if how != _ALL and len(numbers) > 1:
            self.ask(peer, frame.site, Query(
                peer.rank, len(peer.ops), "wait", numbers, how, blocking=True
            ))  # fmt: skip
            return
        self.wait_for(peer, frame.site, numbers, waiting)

    def wait_for(
        self, peer: Peer, site: int, numbers: tuple[int, ...], waiting: tuple[Pending, ...]
    ) -> None:
        """The rank goes on when all are ready."""
        peer.ops.append(make_op((_WAIT_KIND, -1, 0, 0, "world", -1, -1, numbers, site)))
        missing = [request for request in waiting if not request.ready]
        if not missing:
            self.complete(peer, waiting)
            return
        for request in missing:
            request.awaited = True
        peer.num_awaited = len(missing)
        peer.waiting = waiting
        self.stop(peer)

    def ask(self, peer: Peer, site: int, query: Query) -> None:
        """A call that observes time: the rank waits until the engine can answer."""
        peer.query = query
        peer.ops.append(TraceOp(Kind.QUERY, detail=(query,), site=site))
        self.stop(peer)

    def complete(self, peer: Peer, requests: Sequence[Pending]) -> None:
        parts: list[bytes] = []
        size = COMPLETION.size * len(requests)
        open_requests = peer.requests
        for request in requests:
            number, payload = request.number, request.payload
            del open_requests[number]
            flags = 1 if request.overflow else 0
            if payload is None:
                parts.append(_pack_completion(
                    number, request.source, request.tag, request.nbytes, request.error, flags,
                    0, 0, 0,
                ))  # fmt: skip
                continue
            length = len(payload)
            self._release(request, length)
            parts.append(_pack_completion(
                number, request.source, request.tag, request.nbytes, request.error, flags | 2,
                0, 0, length,
            ))  # fmt: skip
            if length:
                parts.append(payload)
                size += length
        self.replies.append((peer, make_reply((_DONE, parts, size, len(requests)))))

    def site_of(self, request: Pending) -> CallSite:
        """The call that made a request."""
        return self._peers[request.rank].site_of(request.op)
