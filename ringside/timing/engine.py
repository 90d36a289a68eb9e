"""The clock: one event-driven engine, fed by the live network or by a trace.

Every rank is a thread of operations; a collective runs as a thread of its own beside it. Between
named partners a thread runs ahead as far as it can, because the time of a match,
``max(send posted, receive posted)``, doesn't depend on who arrives first. What does depend on order
goes through one heap, keyed on ``(time, phase, post time, rank, index)``::

    phase 1  a transmission wants the sender's port     in the order of posting
    phase 2  its head arrives at the receiver's port    in the order of arrival
    phase 3  an access has landed in its window         in the order of posting
    phase 4  a call that observes time is answered,     after all else of that instant
             a receive from anybody gets its message
    phase 5  such a message wants the sender's port,    in the order of posting
             if it has waited for its receive

Times are integer picoseconds, so equal programs give equal clocks on every computer.
Where messages are only paired up (phase 0 of the design), the pairing happens in the thread itself.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Any

from ringside.timing.engine_state import Busy, Flight, Thread, TimedRequest, Wait
from ringside.timing.fold import Fold, FoldedPorts
from ringside.timing.machine import Machine
from ringside.timing.ports import PS, Ports
from ringside.timing.queries import Answer, Query, Questions
from ringside.timing.rounds import Meetings, collective_ops
from ringside.trace import Kind, Mode, Op

_MICRO = 20  # bits of an index that number the transfers inside one collective
_TRANSMIT, _ARRIVE, _LAND, _LEAVE_LATE = 1, 2, 3, 5  # 4 is that of the questions
_LOOK_AT_CLOCK = 4096  # events
(
    _COMPUTE, _ISEND, _IRECV, _WAIT, _POLL, _COLLECTIVE, _QUERY_OP, _PASS, _ACCESS, _FAULT, _DEATH,
    _STORE, _HANG,
) = map(int, Kind)  # fmt: skip
_BUFFERED, _SYNC = int(Mode.BUFFERED), int(Mode.SYNC)


class Engine:
    """Times the operations of ``world_size`` ranks on a machine.

    Args:
        candidates: live only; the unmatched messages that a probe or a wildcard receive could take,
            at most one for each source.
        choose: which of several candidates of one instant is taken; the first by default.
        grant: live only; whether a rank has the lock now that it asks for.
        ends: live only; when a probe or a receive from anybody ends with an error, -1: never.
        latency_seed: scale each pair's latency by a drawn factor between 1/2 and 2.
        fold: which ranks stand for others; only theirs are timed.
        slow: rank -> how many times as long its work takes.
    """

    def __init__(
        self,
        machine: Machine,
        world_size: int,
        *,
        candidates: Callable[[Query], list[int]] | None = None,
        choose: Callable[[int], int] | None = None,
        grant: Callable[[Query], bool] | None = None,
        ends: Callable[[Query], int] | None = None,
        latency_seed: int | None = None,
        fold: Fold | None = None,
        slow: Mapping[int, float] | None = None,
    ) -> None:
        self.machine = machine
        self._slow = slow or {}
        self.fold = fold
        self.world_size = world_size
        self.threads = [Thread(rank, [], 0, -1, None) for rank in range(world_size)]
        self.messages: dict[Any, Flight] = {}
        # -1: what takes no time at 0, before the first event, can't overtake any at a port.
        self.now = 0 if fold is None else -1
        self.deadline: float | None = None  # of the monotonic clock, for ``advance``
        # Rank and operation of each collective -> when it was called, and what will be complete;
        # None: nobody asks.
        self.calls: dict[tuple[int, int], tuple[int, TimedRequest]] | None = None
        # The five numbers differ for any two events, so that a tie never compares the items.
        self._heap: list[tuple[int, int, int, int, int, Any]] = []
        self._ready: deque[Thread] = deque()
        self._threshold = machine.eager_threshold_bytes
        self._folded = FoldedPorts(machine, fold) if fold is not None else None
        self._ports = self._folded or Ports(machine, world_size, latency_seed)
        self._live = candidates is not None
        self._questions = Questions(
            self.threads,
            self.messages,
            self._heap,
            max(1, round(machine.poll_s * PS)),
            candidates,
            choose or (lambda count: 0),
            grant,
            ends or (lambda query: -1),
        )
        self._meetings = Meetings(machine, fold)
        self._collectives: dict[tuple[int, int], tuple[int, TimedRequest]] = {}
        self._open: dict[tuple[int, int], tuple[int, TimedRequest]] = {}

    # -- feeding ---------------------------------------------------------------------------------

    def resolve(self, rank: int, op: int) -> None:
        """Take note of what became known of a live rank's operation.

        A receive has its message now, or a collective its members and their sizes.
        """
        where = rank, op
        if where in self._open:
            clock, request = self._open.pop(where)
            operation = self.threads[rank].ops[op]
            self._bind(operation.message, request, clock, _from_anybody(operation))
        elif where in self._collectives:
            clock, request = self._collectives.pop(where)
            self._start_collective(rank, op, self.threads[rank].ops[op], clock, request)

    def fail(self, rank: int, index: int, was: Op, time: int) -> None:
        """A live rank's request ends with an error at ``time``, or when it was posted.

        Its operation is a FAULT now; ``was`` is the one before.
        """
        where = rank, index
        begun = self._open.pop(where, None) or self._collectives.pop(where, None)
        if begun is None and was.kind == _ISEND:
            message = self.messages.pop(was.message, None)
            if message is not None and message.send is not None:
                begun = message.posted, message.send
        if begun is not None:  # else its rank hasn't come to it
            clock, request = begun
            self._complete(request, max(clock, time))

    def posted_ps(self, rank: int, index: int) -> int:
        """When a live rank has posted a receive, or joined a collective, that nothing completes."""
        return (self._open.get((rank, index)) or self._collectives[rank, index])[0]

    def news(self) -> None:
        """A rank has died, or a communicator was revoked: open questions look again."""
        self._questions.news(self.now)

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
            if until_look <= 0:
                if self.deadline is not None and time.monotonic() > self.deadline:
                    raise TimeoutError
                until_look = _LOOK_AT_CLOCK
            instant, phase, _, _, _, item = heappop(heap)
            until_look -= 1
            # What members of a collective send is known when the last has come, and may have been
            # sent before a question that is answered already: answers never run backwards, but
            # messages have their own times, as in a replay.
            if instant > self.now:
                self.now = instant
            if phase == _TRANSMIT:
                self._transmit(item, instant)
            elif phase == _ARRIVE:
                self._arrive(item, instant)
            elif phase == _LEAVE_LATE:
                self._transmit(item, instant)
            elif phase == _LAND:
                self._questions.landed(item.dest, instant)
                query = Query(item.source, item.index >> _MICRO, "access")
                return Answer(query, (item.access, item.posted, instant))
            else:
                until_look -= len(item.requests)  # each of them is looked at
                answer = self._questions.ask(item, self.now)
                if answer is not None:
                    return answer

    def release_poll(self) -> Answer | None:
        """Nothing can change any more: the earliest withheld poll fails, but not for ever."""
        return self._questions.release(self.now)

    # -- a thread's operations -------------------------------------------------------------------

    def _run(self, thread: Thread) -> None:
        """Run a thread's operations until it has to wait or they end."""
        ops, cursor, clock, rank = thread.ops, thread.cursor, thread.clock, thread.rank
        if thread.pending:
            return
        is_rank = thread.first_index < 0
        requests = thread.requests
        while cursor < len(ops):
            op = ops[cursor]
            kind = op[0]
            if kind == _ISEND:
                self._send(thread, cursor, op, clock)
            elif kind == _IRECV:
                request = requests[op[5]] = TimedRequest(rank, None)
                if not is_rank:
                    self._bind(op[6], request, clock)
                # A replayed receive without a message stays open: who waits for it is unfinished.
                elif op[6] >= 0:
                    self._bind(op[6], request, clock, _from_anybody(op))
                elif self._live:
                    self._open_receive(rank, cursor, op, clock, request)
            elif kind == _WAIT:
                clock = self._wait(thread, cursor, op[7], clock)
                if clock < 0:
                    return
            elif kind == _COMPUTE:
                clock = self._compute(thread, cursor, op[7], clock)
            elif kind == _POLL:
                thread.spans.append(Busy(cursor, clock, clock + op[7][0]))
                clock += op[7][0]
            elif kind == _COLLECTIVE:
                request = requests[op[5]] = TimedRequest(rank, None)
                if self.calls is not None:
                    self.calls[rank, cursor] = clock, request
                if op[7]:
                    self._start_collective(rank, cursor, op, clock, request)
                else:
                    self._collectives[rank, cursor] = (clock, request)
            elif kind == _ACCESS:
                self._access(thread, cursor, op, clock)
            elif kind == _FAULT:
                request = requests[op[5]] = TimedRequest(rank, None)
                if self.calls is not None:
                    self.calls[rank, cursor] = clock, request
                request.done = max(clock, op[7][0])
            elif kind == _DEATH:
                clock = max(clock, op[7][0])
            elif kind == _STORE:
                end = clock + self.machine.store_ps(op[3])
                thread.spans.append(Busy(cursor, clock, end))
                clock = end
            elif kind == _HANG:  # it stays here
                thread.clock, thread.cursor = max(clock, op[7][0]), cursor
                return
            elif kind == _PASS:  # takes no time, and is nothing that a poll could wait for
                cursor += 1
                continue
            else:  # a question of a live rank, which stays at this operation until it is answered
                thread.clock, thread.cursor = clock, cursor
                query = op[7][0]
                # Each ``advance`` comes by here again until it is answered.
                if not query.asked:
                    query.asked = True
                    query.posted = clock
                    self._questions.pend(query, clock)
                return
            # What a rank does may change what its polls see, so each may fail at once again.
            if is_rank and kind != _POLL and thread.failed:
                thread.failed.clear()
            cursor += 1
        thread.clock, thread.cursor = clock, cursor
        if thread.request is not None:
            thread.ops = []  # a collective has many, and of one that is over only times are asked
            self._complete(thread.request, clock)

    def _send(self, thread: Thread, cursor: int, op: Op, clock: int) -> None:
        """A send is posted: if it is eager, or its receive is there, the message wants the port."""
        messages, rank = self.messages, thread.rank
        message = messages.get(op[6])
        if message is None:
            message = messages[op[6]] = Flight()
        message.source, message.dest, message.nbytes, message.tag = rank, op[1], op[3], op[2]
        message.posted = clock
        is_rank = thread.first_index < 0
        # The messages of a collective lie between the rank's own before and behind it.
        message.index = (cursor << _MICRO) if is_rank else thread.first_index + cursor
        thread.requests[op[5]] = message.send = TimedRequest(rank, message)
        mode = op[7][0] if op[7] else 0
        if mode == _BUFFERED or (op[3] < self._threshold and mode != _SYNC):
            message.eager = True
            heappush(self._heap, (clock, _TRANSMIT, clock, rank, message.index, message))
        elif message.received >= 0:
            self._begin(message, clock if clock > message.received else message.received)
        if self._live:
            self._questions.sent(op[1], op[4], op[2], clock, self.now)

    def _access(self, thread: Thread, cursor: int, op: Op, clock: int) -> None:
        """A window is accessed: a message there, and if it fetches, one back when that is there.

        Its rank posts both, and no one at the target takes part.
        """
        rank, target, number = thread.rank, op[1], op[6]
        there = last = self.messages[number] = Flight()
        there.source, there.dest, there.nbytes = rank, target, op[3]
        there.access, there.index = number, cursor << _MICRO
        if op[7][0] >= 0:
            last = there.answer = self.messages[number, "back"] = Flight()
            last.source, last.dest, last.nbytes, last.asked_by = target, rank, op[7][0], there
            # Beyond all indices of operations: of what leaves the target at one instant, its own
            # messages go first, and then the answers, in the order of who has asked.
            last.index = (rank + 1 << 80) + there.index
            last.eager = True
        there.eager, there.posted = True, clock
        last.receive = thread.requests[op[5]] = TimedRequest(rank, last)
        heappush(self._heap, (clock, _TRANSMIT, clock, rank, there.index, there))

    def _open_receive(
        self, rank: int, cursor: int, op: Op, clock: int, request: TimedRequest
    ) -> None:
        """A live receive whose message isn't known yet; of a wildcard, the engine finds it."""
        self._open[rank, cursor] = (clock, request)
        if op.detail[0] == -1:
            key = op.comm, op.detail[1]
            self._questions.pend(Query(rank, cursor, "wildcard", place=key, posted=clock), clock)

    def _wait(self, thread: Thread, cursor: int, numbers: tuple[int, ...], clock: int) -> int:
        """Wait for requests; returns when all are complete, -1 if that isn't known yet."""
        # Taken out, so that a second wait is a LookupError: to ``replay``, an error of the trace.
        waited = tuple(map(thread.requests.pop, numbers))
        until, pending = clock, 0
        for request in waited:
            if request.done < 0:
                pending += 1
                request.waiter = thread
            elif request.done > until:
                until = request.done
        if pending or until > clock:
            span = Wait(cursor, clock, waited)
            thread.spans.append(span)
            if pending:
                thread.pending, thread.until, thread.span = pending, until, span
                thread.cursor = cursor + 1
                thread.clock = clock
                return -1
            span.end = until
        return until

    def _compute(self, thread: Thread, cursor: int, detail: tuple[Any, ...], clock: int) -> int:
        """Time work by the machine's rates, unless its time is declared; returns its end."""
        flops, nbytes, picoseconds = detail[:3]
        if picoseconds < 0:
            picoseconds = round(self.machine.compute_s(flops, nbytes, *detail[4:6]) * PS)
        if thread.rank in self._slow and thread.first_index < 0:
            picoseconds = round(picoseconds * self._slow[thread.rank])
        if picoseconds:
            thread.spans.append(Busy(cursor, clock, clock + picoseconds))
        return clock + int(picoseconds)

    def _bind(
        self, number: Any, request: TimedRequest, clock: int, from_anybody: bool = False
    ) -> None:
        """Pair a receive posted at ``clock`` with its message."""
        message = self.messages.get(number)
        if message is None:
            message = self.messages[number] = Flight()
        message.receive = request
        request.message = message
        message.received = clock
        message.from_anybody = from_anybody
        if message.eager:
            if message.done >= 0:
                self._complete(request, max(message.done, clock))
        elif message.posted >= 0:
            self._begin(message, clock if clock > message.posted else message.posted)

    def _begin(self, message: Flight, time: int) -> None:
        """Both sides of a message that waits for its receive are there at ``time``.

        Live, a receive from anybody gets its message when all else of that instant is known. So
        such messages leave last, in a replay as well; and among themselves as they were posted,
        not as the receives were answered, or all ranks would send to rank 0 first.
        """
        phase = _LEAVE_LATE if message.from_anybody else _TRANSMIT
        event = (time, phase, message.posted, message.source, message.index, message)
        heappush(self._heap, event)

    def _start_collective(
        self, rank: int, index: int, op: Op, clock: int, request: TimedRequest
    ) -> None:
        if len(op.detail) > 5:
            request.not_before = op.detail[5]
        meeting = self._meetings.join(op, clock, request)
        if meeting is not None:
            if not meeting.num_missing:
                for joined in meeting.requests:
                    joined.begun, joined.last = meeting.begun, meeting.last
                    self._complete(joined, meeting.begun + meeting.picoseconds)
            return
        micro = collective_ops(self.machine, rank, op, self.fold)
        thread = request.collective = Thread(rank, micro, clock, index << _MICRO, request)
        self._ready.append(thread)

    # -- events ----------------------------------------------------------------------------------

    def _transmit(self, message: Flight, instant: int) -> None:
        """The message wants the sender's port."""
        arrives, leaves = self._ports.leave(message, instant)
        source, index = message.source, message.index
        heappush(self._heap, (arrives, _ARRIVE, message.posted, source, index, message))
        if message.eager and message.send is not None:
            self._complete(message.send, leaves)

    def _arrive(self, message: Flight, instant: int) -> None:
        """The message's head is at the receiver's port."""
        done = self._ports.arrive(message, instant)
        if not message.eager and message.send is not None:
            self._complete(message.send, done)
        if message.receive is not None:
            self._complete(message.receive, max(done, message.received))
        source, index = message.source, message.index
        if message.access >= 0 and self._live:
            heappush(self._heap, (done, _LAND, message.posted, source, index, message))
        back = message.answer
        if back is not None:
            back.posted = done
            heappush(self._heap, (done, _TRANSMIT, done, back.source, back.index, back))

    def _complete(self, request: TimedRequest, time: int) -> None:
        if request.not_before > time:
            time = request.not_before
        request.done = time
        # What this sets off at the same instant may come before or after others: see ``fold.py``.
        if self._folded is not None and time == self.now:
            self._folded.chained = time
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
        elif self._live:
            self._questions.happened(request.rank, time, self.now)


def _from_anybody(op: Op) -> bool:
    """Whether a receive was posted for ANY_SOURCE: its operation keeps what was asked for."""
    return bool(op[7]) and op[7][0] == -1


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Run without the garbage collector: many small objects are made, and all cycles kept."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
