"""The clock: one event-driven engine, fed by the live network or by a trace.

Every rank is a thread of operations; a collective runs as a thread of its own beside it. Between
named partners a thread runs ahead as far as it can, because the time of a match,
``max(send posted, receive posted)``, doesn't depend on who arrives first. What does depend on order
goes through one heap, keyed on ``(time, phase, post time, rank, index)``::

    phase 1  a transmission wants the sender's port     in the order of posting
    phase 2  its head arrives at the receiver's port    in the order of arrival
    phase 3  a call that observes time is answered      after all else of that instant

Times are integer picoseconds, so equal programs give equal clocks on every computer.
Where messages are only paired up (phase 0 of the design), the pairing happens in the thread itself.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from ringside.timing.lowering import ALGORITHMS, Round
from ringside.timing.machine import Machine
from ringside.trace import Kind, Mode, Op

PS = 10**12
_MICRO = 20  # bits of an index that number the transfers inside one collective
_TRANSMIT, _ARRIVE, _QUERY = 1, 2, 3
_LOOK_AT_CLOCK = 4096  # events
_COMPUTE, _ISEND, _IRECV, _WAIT, _POLL, _COLLECTIVE, _QUERY_OP = (int(kind) for kind in Kind)


class Message:
    """One message on its way; times in picoseconds, -1 while unknown."""

    __slots__ = (
        "arrived",
        "dest",
        "done",
        "eager",
        "held_at_dest",
        "held_at_source",
        "index",
        "nbytes",
        "posted",
        "receive",
        "received",
        "send",
        "source",
        "started",
        "tag",
    )  # fmt: skip

    def __init__(self) -> None:
        self.source = self.dest = self.nbytes = self.index = -1
        self.tag = 0
        self.eager = False
        self.posted = self.received = -1  # post times of the send and of the receive
        self.started = self.arrived = self.done = -1  # leaves the port, at the other port, complete
        self.send: Request | None = None
        self.receive: Request | None = None
        self.held_at_source: Message | None = None  # whom it waited for at the sender's port
        self.held_at_dest: Message | None = None


class Request:
    """A pending operation: when it completes and who waits for it."""

    __slots__ = ("collective", "done", "message", "rank", "waiter")

    def __init__(self, rank: int, message: Message | None) -> None:
        self.rank = rank
        self.message = message
        self.collective: Thread | None = None
        self.done = -1
        self.waiter: Thread | None = None


class Thread:
    """A sequence of operations of one rank: the rank itself, or one of its collectives."""

    __slots__ = (
        "clock", "cursor", "failed", "first_index", "ops", "pending", "rank", "request",
        "requests", "span", "spans", "until",
    )  # fmt: skip

    def __init__(
        self, rank: int, ops: list[Op], clock: int, first_index: int, request: Request | None
    ):
        self.rank = rank
        self.ops = ops
        self.clock = clock
        self.cursor = 0
        self.pending = 0  # requests that a wait still needs
        self.until = 0  # the latest completion among those it has
        self.first_index = first_index  # -1 for a rank's own thread
        self.request = request  # completes when a collective's thread ends
        self.requests: dict[int, Request] = {}
        self.failed: set[Any] = set()  # polls that failed since anything last changed
        self.span: Wait | None = None  # the wait that it is in
        self.spans: list[Wait | Busy] = []


class Wait:
    """A stretch in which a rank waited: for which requests, from when to when."""

    __slots__ = ("end", "op", "requests", "start")

    def __init__(self, op: int, start: int, requests: tuple[Request, ...]) -> None:
        self.op = op
        self.start = start
        self.end = -1
        self.requests = requests


class Busy(NamedTuple):
    """A stretch in which a rank computed or polled."""

    op: int
    start: int
    end: int


@dataclass
class Query:
    """A call of a live rank that observes time: it waits for the engine's answer."""

    rank: int
    op: int
    kind: str  # "wtime" | "test" | "wait" | "probe" | "wildcard"
    requests: tuple[int, ...] = ()
    how: int = 0
    blocking: bool = False
    key: Any = None  # which poll this is, among the rank's failed ones
    probe: tuple[int, int, int] = (0, -1, -1)  # communicator, source, tag
    posted: int = 0
    withheld: bool = False
    asked: bool = False


class Answer(NamedTuple):
    """What the engine found out: for a query its value, for a wildcard the message it takes."""

    query: Query
    value: Any  # wtime: picoseconds; test and wait: request numbers or None; else message or None


class Engine:
    """Times the operations of ``world_size`` ranks on a machine.

    Args:
        candidates: live only; the unmatched messages that a probe or a wildcard receive could take,
            at most one for each source.
        choose: which of several candidates of one instant is taken; the first by default.
        latency_seed: scale each pair's latency by a drawn factor between 1/2 and 2.
    """

    MAX_RELEASED_POLLS = 50

    def __init__(
        self,
        machine: Machine,
        world_size: int,
        *,
        candidates: Callable[[Query], list[int]] | None = None,
        choose: Callable[[int], int] | None = None,
        latency_seed: int | None = None,
    ) -> None:
        self.machine = machine
        self.world_size = world_size
        self.threads = [Thread(rank, [], 0, -1, None) for rank in range(world_size)]
        self.messages: dict[Any, Message] = {}
        self.now = 0
        self.deadline: float | None = None  # of the monotonic clock, for ``advance``
        self._heap: list[tuple[int, int, int, int, int, Any]] = []
        self._ready: deque[Thread] = deque()
        self._routes: dict[int, tuple[int, int, int, int]] = {}
        self._port_free: dict[int, int] = {}
        self._port_last: dict[int, Message] = {}
        self._poll_ps = max(1, round(machine.poll_s * PS))
        self._threshold = machine.eager_threshold_bytes
        self._candidates = candidates
        self._choose = choose or (lambda count: 0)
        self._factors = _latency_factors(world_size, latency_seed)
        self._collectives: dict[tuple[int, int], tuple[int, Request]] = {}
        self._open: dict[tuple[int, int], tuple[int, Request]] = {}
        self._watching: list[dict[int, Query]] = [{} for _ in range(world_size)]
        self._released = 0
        self._num_due = 0

    # -- feeding ---------------------------------------------------------------------------------

    def resolve(self, rank: int, op: int) -> None:
        """Take note of what became known of a live rank's operation.

        A receive has its message now, or a collective its members and their sizes.
        """
        where = rank, op
        if where in self._open:
            clock, request = self._open.pop(where)
            self._bind(self.threads[rank].ops[op].message, request, clock)
        elif where in self._collectives:
            clock, request = self._collectives.pop(where)
            self._start_collective(rank, op, self.threads[rank].ops[op], clock, request)

    # -- running ---------------------------------------------------------------------------------

    def run(self) -> int:
        """Time everything there is (a replay) and return the makespan in picoseconds."""
        with uncollected():
            answer = self.advance()
        assert answer is None, "a replayed trace asks no questions"
        return max((thread.clock for thread in self.threads), default=0)

    def unfinished(self) -> list[int]:
        """Ranks that have operations left which nothing will complete."""
        return [t.rank for t in self.threads if t.cursor < len(t.ops) or t.pending]

    def advance(self) -> Answer | None:
        """Process events until a live rank's question has its answer, or nothing is left to do.

        Raises:
            TimeoutError: the deadline has passed; the engine can't go on.
        """
        for thread in self.threads:
            if thread.cursor < len(thread.ops) and not thread.pending:
                self._ready.append(thread)
        heap, ready, run = self._heap, self._ready, self._run
        until_look = _LOOK_AT_CLOCK
        while True:
            while ready:
                run(ready.popleft())
            if not heap:
                return None
            until_look -= 1
            if not until_look:
                if self.deadline is not None and time.monotonic() > self.deadline:
                    raise TimeoutError
                until_look = _LOOK_AT_CLOCK
            instant, phase, _, _, _, item = heappop(heap)
            if instant > self.now:  # a live rank may be told late; the clock never runs backwards
                self.now = instant
            if phase == _TRANSMIT:
                self._transmit(item)
            elif phase == _ARRIVE:
                self._arrive(item)
            else:
                answer = self._ask(item)
                if answer is not None:
                    self._released = 0
                    return answer

    def release_poll(self) -> Answer | None:
        """Nothing can change any more: the earliest withheld poll fails, but not for ever."""
        polls = [q for watched in self._watching for q in watched.values() if q.withheld]
        if not polls or self._released >= self.MAX_RELEASED_POLLS:
            return None
        query = min(polls, key=lambda q: (self.threads[q.rank].clock, q.rank))
        self._released += 1
        return self._fail(query, self.threads[query.rank].clock + self._poll_ps)

    def _run(self, thread: Thread) -> None:
        """Run a thread's operations until it has to wait or they end."""
        ops, cursor, clock, rank = thread.ops, thread.cursor, thread.clock, thread.rank
        if thread.pending:
            return
        own = thread.first_index < 0
        messages, requests, spans = self.messages, thread.requests, thread.spans
        while cursor < len(ops):
            op = ops[cursor]
            kind = op[0]
            if kind == _ISEND:
                message = messages.get(op[6])
                if message is None:
                    message = messages[op[6]] = Message()
                message.source, message.dest, message.nbytes, message.tag = (
                    rank,
                    op[1],
                    op[3],
                    op[2],
                )
                message.posted = clock
                message.index = (cursor << _MICRO) if own else thread.first_index + cursor
                requests[op[5]] = message.send = Request(rank, message)
                mode = op[7][0] if op[7] else 0
                if mode == Mode.BUFFERED or (op[3] < self._threshold and mode != Mode.SYNC):
                    message.eager = True
                    heappush(self._heap, (clock, _TRANSMIT, clock, rank, message.index, message))
                elif message.received >= 0:
                    begin = clock if clock > message.received else message.received
                    heappush(self._heap, (begin, _TRANSMIT, clock, rank, message.index, message))
                if self._candidates is not None and self._watching[op[1]]:
                    self._wake(op[1], clock)
            elif kind == _IRECV:
                request = requests[op[5]] = Request(rank, None)
                if not own or op[6] >= 0:
                    self._bind(op[6], request, clock)
                elif self._candidates is not None:
                    self._open[rank, cursor] = (clock, request)
                    if op.detail[0] == -1:
                        self._pend(Query(rank, cursor, "wildcard", posted=clock), clock)
            elif kind == _WAIT:
                waited = tuple(requests.pop(number) for number in op[7])
                until, pending = clock, 0
                for request in waited:
                    if request.done < 0:
                        pending += 1
                        request.waiter = thread
                    elif request.done > until:
                        until = request.done
                if pending or until > clock:
                    span = Wait(cursor, clock, waited)
                    spans.append(span)
                    if pending:
                        thread.pending, thread.until, thread.span = pending, until, span
                        thread.cursor = cursor + 1
                        thread.clock = clock
                        return
                    span.end = clock = until
            elif kind == _COMPUTE:
                flops, nbytes, picoseconds = op[7][:3]
                if picoseconds < 0:
                    picoseconds = round(self.machine.compute_s(flops, nbytes, *op[7][4:6]) * PS)
                if picoseconds:
                    spans.append(Busy(cursor, clock, clock + picoseconds))
                    clock += picoseconds
            elif kind == _POLL:
                spans.append(Busy(cursor, clock, clock + op[7][0]))
                clock += op[7][0]
            elif kind == _COLLECTIVE:
                request = requests[op[5]] = Request(rank, None)
                if op[7]:
                    self._start_collective(rank, cursor, op, clock, request)
                else:
                    self._collectives[rank, cursor] = (clock, request)
            else:  # a question of a live rank, which stays at this operation until it is answered
                thread.clock, thread.cursor = clock, cursor
                query = op[7][0]
                if not query.asked:
                    query.asked = True
                    query.posted = clock
                    self._pend(query, clock)
                return
            if own and kind != _POLL and thread.failed:
                thread.failed.clear()
            cursor += 1
        thread.clock, thread.cursor = clock, cursor
        if thread.request is not None:
            self._complete(thread.request, clock)

    def _bind(self, number: Any, request: Request, clock: int) -> None:
        """Pair a receive posted at ``clock`` with its message."""
        message = self.messages.get(number)
        if message is None:
            message = self.messages[number] = Message()
        message.receive = request
        request.message = message
        message.received = clock
        if message.eager:
            if message.done >= 0:
                self._complete(request, max(message.done, clock))
        elif message.posted >= 0:
            begin = max(clock, message.posted)
            event = (begin, _TRANSMIT, message.posted, message.source, message.index, message)
            heappush(self._heap, event)

    def _transmit(self, message: Message) -> None:
        """The message takes the sender's port, as soon as that is free."""
        now = self.now
        source, dest = message.source, message.dest
        route = self._routes.get(source * self.world_size + dest)
        if route is None:
            route = self._route(source, dest)
        alpha, beta, port, _ = route
        start = self._port_free.get(port, 0)
        if start > now:
            message.held_at_source = self._port_last.get(port)
        else:
            start = now
        duration = (message.nbytes * beta + 500_000) // 1_000_000
        self._port_free[port] = start + duration
        self._port_last[port] = message
        message.started = start
        event = (start + alpha, _ARRIVE, message.posted, source, message.index, message)
        heappush(self._heap, event)
        if message.eager and message.send is not None:
            self._complete(message.send, start + duration)

    def _arrive(self, message: Message) -> None:
        """The message's head is at the receiver's port and takes it as soon as it is free."""
        _, beta, _, port = self._routes[message.source * self.world_size + message.dest]
        begin = self._port_free.get(port, 0)
        if begin > self.now:
            message.held_at_dest = self._port_last.get(port)
        else:
            begin = self.now
        done = begin + (message.nbytes * beta + 500_000) // 1_000_000
        self._port_free[port] = done
        self._port_last[port] = message
        message.arrived, message.done = begin, done
        if not message.eager and message.send is not None:
            self._complete(message.send, done)
        if message.receive is not None:
            self._complete(message.receive, max(done, message.received))

    def _route(self, source: int, dest: int) -> tuple[int, int, int, int]:
        """A pair's latency (ps), inverse bandwidth (1e-18 s per byte), and two ports."""
        machine, size = self.machine, self.world_size
        link = machine.link(source, dest)
        alpha = round(link.alpha_s * PS)
        if self._factors is not None and source != dest:
            alpha = round(alpha * self._factors[source, dest])
        if source == dest:
            ports = (4 * size * size + source, 4 * size * size + size + source)
        elif machine.ports == "peer":
            ports = (source * size + dest, (size + dest) * size + source)
        elif machine.shared_nic and machine.node(source) != machine.node(dest):
            ports = (-2 * machine.node(source) - 1, -2 * machine.node(dest) - 2)
        else:
            ports = (2 * source, 2 * dest + 1)
        route = (alpha, round(link.beta_s_per_byte * 10**18), *ports)
        self._routes[source * size + dest] = route
        return route

    def _complete(self, request: Request, time: int) -> None:
        request.done = time
        thread = request.waiter
        if thread is not None:
            if time > thread.until:
                thread.until = time
            thread.pending -= 1
            if not thread.pending:
                thread.clock = thread.until
                if thread.span is not None:
                    thread.span.end = thread.until
                    thread.span = None
                self._ready.append(thread)
        elif self._candidates is not None and self._watching[request.rank]:
            self._wake(request.rank, time)

    # -- collectives -----------------------------------------------------------------------------

    def _start_collective(
        self, rank: int, index: int, op: Op, clock: int, request: Request
    ) -> None:
        micro = collective_ops(self.machine, rank, op)
        thread = request.collective = Thread(rank, micro, clock, index << _MICRO, request)
        self._ready.append(thread)

    # -- calls that observe time (live only) -----------------------------------------------------

    def _pend(self, query: Query, time: int) -> None:
        """Put a question on the heap; it replaces the event that the question had before."""
        self._watching[query.rank][query.op] = query
        self._due(query, time)

    def _due(self, query: Query, time: int) -> None:
        self._num_due += 1
        heappush(self._heap, (time, _QUERY, query.rank, query.op, self._num_due, query))

    def _wake(self, rank: int, time: int) -> None:
        """Something happens at ``rank`` at ``time``: its open questions look again then."""
        for query in self._watching[rank].values():
            self._due(query, max(time, query.posted, self.now))

    def _ask(self, query: Query) -> Answer | None:
        if self._watching[query.rank].get(query.op) is not query:
            return None
        if query.kind in ("wildcard", "probe"):
            return self._ask_for_message(query)
        thread = self.threads[query.rank]
        if (
            query.kind == "wtime"
        ):  # asked again with nothing between, time must pass or loops never end
            repeated = query.key in thread.failed
            answer = self._answer(query, self.now, self.now + (self._poll_ps if repeated else 0))
            thread.failed.add(query.key)
            return answer
        done = [n for n in query.requests if 0 <= thread.requests[n].done <= self.now]
        enough = len(done) == len(query.requests) if query.how == 0 else bool(done)
        if enough or not query.requests:
            if query.how == 1 and done:
                first = min(done, key=lambda n: (thread.requests[n].done, query.requests.index(n)))
                done = [first]
            return self._answer(query, done, self.now)
        later = [
            thread.requests[n].done for n in query.requests if thread.requests[n].done > self.now
        ]
        return self._not_yet(query, min(later, default=None))

    def _ask_for_message(self, query: Query) -> Answer | None:
        assert self._candidates is not None
        found, later = [], []
        for number in self._candidates(query):
            message = self.messages.get(number)
            if message is None or message.posted < 0:
                continue
            if message.posted <= self.now:
                found.append((message.posted, message.source, message.index, number))
            else:
                later.append(message.posted)
        if found:
            found.sort()
            number = found[self._choose(len(found))][3]
            return self._answer(query, number, self.now)
        return self._not_yet(query, min(later, default=None))

    def _not_yet(self, query: Query, later: int | None) -> Answer | None:
        """No answer at this instant: wait for one, or let a poll fail."""
        blocking = query.blocking or query.kind == "wildcard"
        if not blocking:
            thread = self.threads[query.rank]
            if query.withheld:
                return self._fail(query, self.now)
            if query.key not in thread.failed:
                return self._fail(query, self.now + self._poll_ps)
            query.withheld = True
            later = min(
                (r.done for r in thread.requests.values() if r.done > self.now), default=later
            )
        if later is not None:
            self._due(query, later)
        return None

    def _fail(self, query: Query, time: int) -> Answer:
        thread = self.threads[query.rank]
        thread.failed.add(query.key)
        elapsed = time - thread.clock
        thread.ops[query.op] = Op(Kind.POLL, detail=(elapsed,), site=thread.ops[query.op].site)
        return self._close(query, None)

    def _answer(self, query: Query, value: Any, time: int) -> Answer:
        thread = self.threads[query.rank]
        if query.kind != "wildcard":
            thread.failed.clear()
            old = thread.ops[query.op]
            requests = tuple(value) if query.kind in ("test", "wait") else ()
            if requests:  # a request set free by this call: as if the rank had waited for it
                thread.ops[query.op] = Op(Kind.WAIT, detail=requests, site=old.site)
            else:
                thread.ops[query.op] = Op(Kind.POLL, detail=(time - thread.clock,), site=old.site)
        return self._close(query, value)

    def _close(self, query: Query, value: Any) -> Answer:
        watching = self._watching[query.rank]
        del watching[query.op]
        if query.kind == "wildcard":  # later wildcards could not take what this one might have
            for other in watching.values():
                if other.kind == "wildcard":
                    self._due(other, max(self.now, other.posted))
        return Answer(query, value)


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Run without the garbage collector: many small objects are made here, and no cycles."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def collective_ops(machine: Machine, rank: int, op: Op) -> list[Op]:
    """The messages by which a machine times one rank's part in a library collective."""
    name, sequence, root, members, sizes = op.detail
    me = members.index(rank)
    rounds = ALGORITHMS[name][machine.algorithm(name)](me, len(members), root, sizes)
    # The making of a group is counted for its members alone.
    key = (op.comm, sequence) if sequence >= 0 else (op.comm, sequence, members)
    return _as_ops(rounds, rank, members, key)


def _as_ops(
    rounds: Iterable[Round], rank: int, members: tuple[int, ...], key: tuple[Any, ...]
) -> list[Op]:
    """A lowered collective's rounds as operations; messages are numbered by pair and order.

    Args:
        key: communicator and number of the collective, alike for all its members and nobody else.
    """
    ops: list[Op] = []
    counts: dict[tuple[int, int], int] = {}
    request = 0
    for transfers in rounds:
        first = request
        for peer, sent, received in transfers:
            other = members[peer]
            for source, dest, nbytes in ((rank, other, sent), (other, rank, received)):
                if nbytes < 0:
                    continue
                count = counts[source, dest] = counts.get((source, dest), 0) + 1
                number: Any = (key, source, dest, count)
                kind = Kind.ISEND if source == rank else Kind.IRECV
                detail = (int(Mode.STANDARD),) if source == rank else (other, 0)
                ops.append(Op(kind, other, 0, nbytes, key[0], request, number, detail))
                request += 1
        ops.append(Op(Kind.WAIT, detail=tuple(range(first, request))))
    return ops


def _latency_factors(world_size: int, seed: int | None) -> Any:
    if seed is None:
        return None
    rng = np.random.default_rng(seed)
    return 2.0 ** rng.uniform(-1, 1, size=(world_size, world_size))
