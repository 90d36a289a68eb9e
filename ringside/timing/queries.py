"""Calls that observe time, live only: Wtime, Test, Waitany, Probe, and receives from anybody.

pend      the question stands on the engine's heap, where its rank has come to it
happened  something happens at a rank: its question looks again then
sent      a message is posted: the receives from anybody that could take it look again, too
ask       the heap has come to it: it is answered, or waits on, or (a poll) fails
release   nothing can change any more: a poll that was withheld fails

A rank has at most one question of its own, since it waits for the answer, but any number of
receives from anybody. Those of one communicator and tag could take the same messages, and the first
of them comes first: so only that one is on the heap, and the others wait in a row behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, NamedTuple

from ringside.timing.engine_state import Flight, Thread
from ringside.trace import Kind, Op

# In a row, with no other answer between: after them ranks that only poll are a deadlock.
MAX_RELEASED_POLLS = 50
FAILED = -1  # for the message of a probe or of a receive from anybody: it ends with an error
ANY_TAG = -1
QUESTION = 4  # phase of the engine's heap


@dataclass
class Query:
    """A call of a live rank that observes time: it waits for the engine's answer."""

    rank: int
    op: int
    # "wtime" | "test" | "wait" | "probe" | "wildcard" | "lock" | "unlock" | "sync" | "access" |
    # "failures", what is known of them | "store"
    kind: str
    requests: tuple[int, ...] = ()
    how: int = 0  # of requests, as ``wire.How``: 0 all, 1 any one, 2 some
    blocking: bool = False
    key: Any = None  # which poll this is, among the rank's failed ones
    probe: tuple[int, int, int] = (0, -1, -1)  # communicator, source, tag
    lock: tuple[int, int, bool] = (0, -1, False)  # window, target (-1: all), exclusive
    place: tuple[str, int] = ("", 0)  # of a wildcard: communicator and tag
    failures: tuple[int, int, int] = (0, 0, 0)  # communicator, what is asked, a number
    store: Any = None  # what is asked of a store
    delay: int = 0  # picoseconds that a store takes until it is asked
    posted: int = 0
    due: int = -1  # of a wildcard: its next event on the heap; -1: there is none
    withheld: bool = False
    asked: bool = False


class Answer(NamedTuple):
    """What the engine found out: for a query its value, for a wildcard the message it takes.

    An access that lands comes as such an answer too, which nobody has asked for.
    """

    query: Query
    # wtime and failures: picoseconds; test and wait: request numbers or None; locks, sync, store:
    # None; access: its number, when it was posted, when it landed; else message, FAILED or None
    value: Any


class Questions:
    """The open questions of all ranks.

    Args:
        threads, messages, heap: the engine's own, which it goes on changing.
        poll_ps: what a poll that fails takes.
        candidates: see the engine.
        choose: which of several candidates of one instant is taken.
        grant: see the engine.
        ends: see the engine.
    """

    def __init__(
        self,
        threads: list[Thread],
        messages: dict[Any, Flight],
        heap: list[tuple[int, int, int, int, int, Any]],
        poll_ps: int,
        candidates: Callable[[Query], list[int]] | None,
        choose: Callable[[int], int],
        grant: Callable[[Query], bool] | None,
        ends: Callable[[Query], int],
    ) -> None:
        self._threads = threads
        self._messages = messages
        self._heap = heap
        self._poll_ps = poll_ps
        self._candidates = candidates
        self._choose = choose
        self._grant = grant
        self._ends = ends
        self._own: list[Query | None] = [None] * len(threads)
        self._wildcards: list[dict[tuple[str, int], deque[Query]]] = [{} for _ in threads]
        self._posted: list[list[int]] = [[] for _ in threads]  # when messages for a rank were sent
        self._released = 0
        self._num_due = 0

    def pend(self, query: Query, time: int) -> None:
        """Put a question on the heap, or a receive behind others for the same."""
        if query.kind != "wildcard":
            self._own[query.rank] = query
            self._due(query, time + query.delay)
            return
        row = self._wildcards[query.rank].setdefault(query.place, deque())
        row.append(query)
        if row[0] is query:
            self._due(query, time)

    def happened(self, rank: int, time: int, now: int) -> None:
        """Something happens at ``rank`` at ``time``: its own question looks again then."""
        query = self._own[rank]
        if query is not None:
            self._due(query, max(time, query.posted, now))

    def sent(self, rank: int, comm: str, tag: int, time: int, now: int) -> None:
        """A message for ``rank`` is posted at ``time``."""
        self.happened(rank, time, now)
        heappush(self._posted[rank], time)
        rows = self._wildcards[rank]
        if rows:
            for key in ((comm, tag), (comm, ANY_TAG)):
                if key in rows:
                    first = rows[key][0]
                    self._due(first, max(time, first.posted, now))

    def landed(self, rank: int, now: int) -> None:
        """An access has changed a window of ``rank``."""
        self._released = 0
        self.happened(rank, now, now)

    def news(self, now: int) -> None:
        """What calls end by has changed: all look again."""
        for rank, rows in enumerate(self._wildcards):
            self.happened(rank, now, now)
            for row in rows.values():
                self._due(row[0], max(now, row[0].posted))

    def _due(self, query: Query, time: int) -> None:
        # A wildcard that looks sees when it should look next, so its earliest event is enough. A
        # poll's look may end it: all that happens to it has an event.
        if query.kind == "wildcard":
            if 0 <= query.due <= time:
                return
            query.due = time
        self._num_due += 1
        heappush(self._heap, (time, QUESTION, query.rank, query.op, self._num_due, query))

    def ask(self, query: Query, now: int) -> Answer | None:
        """Answer a question whose time has come, or let it wait on."""
        query.due = -1
        answer = self._look(query, now)
        if answer is not None:
            self._released = 0
        return answer

    def release(self, now: int) -> Answer | None:
        """Nothing can change any more: the earliest withheld poll fails, but not for ever."""
        polls = [query for query in self._own if query is not None and query.withheld]
        if not polls or self._released >= MAX_RELEASED_POLLS:
            return None
        query = min(polls, key=lambda q: (self._threads[q.rank].clock, q.rank))
        self._released += 1
        return self._fail(query, self._threads[query.rank].clock + self._poll_ps, now)

    def _look(self, query: Query, now: int) -> Answer | None:
        if not self._is_open(query):
            return None
        if query.kind in ("wildcard", "probe"):
            return self._look_for_message(query, now)
        if query.kind in ("lock", "unlock"):
            return self._look_for_lock(query, now)
        if query.kind == "sync":
            return self._not_yet(query, None, now)
        if query.kind == "store":  # whoever answers records what it was, and so what it took
            return None if now < query.posted + query.delay else self._close(query, None, now)
        thread = self._threads[query.rank]
        # Asked again with nothing between, time must pass or loops never end.
        if query.kind in ("wtime", "failures"):
            repeated = query.key in thread.failed
            answer = self._answer(query, now, now + (self._poll_ps if repeated else 0), now)
            thread.failed.add(query.key)
            return answer
        done = [n for n in query.requests if 0 <= thread.requests[n].done <= now]
        enough = len(done) == len(query.requests) if query.how == 0 else bool(done)
        if enough or not query.requests:
            if query.how == 1 and done:
                first = min(done, key=lambda n: (thread.requests[n].done, query.requests.index(n)))
                done = [first]
            return self._answer(query, done, now, now)
        later = [thread.requests[n].done for n in query.requests if thread.requests[n].done > now]
        return self._not_yet(query, min(later, default=None), now)

    def _is_open(self, query: Query) -> bool:
        """Whether a question still waits, and is the first of its row."""
        if query.kind != "wildcard":
            return self._own[query.rank] is query
        row = self._wildcards[query.rank].get(query.place)
        return bool(row) and row[0] is query  # type: ignore[index]

    def _look_for_lock(self, query: Query, now: int) -> Answer | None:
        assert self._grant is not None
        if not self._grant(query):
            return None
        answer = self._answer(query, None, now, now)
        if query.kind == "unlock":
            for other in self._own:
                if other is not None and other.kind == "lock":
                    self._due(other, max(now, other.posted))
        return answer

    def _look_for_message(self, query: Query, now: int) -> Answer | None:
        assert self._candidates is not None
        matches, later = [], []
        for number in self._candidates(query):
            message = self._messages.get(number)
            if message is None or message.posted < 0:
                continue
            if message.posted <= now:
                matches.append((message.posted, message.source, message.index, number))
            else:
                later.append(message.posted)
        if matches:
            matches.sort()
            number = matches[self._choose(len(matches))][3]
            return self._answer(query, number, now, now)
        end = self._ends(query)
        if 0 <= end <= now:
            return self._answer(query, FAILED, now, now)
        if end > now:
            later.append(end)
        return self._not_yet(query, min(later, default=None), now)

    def _not_yet(self, query: Query, later: int | None, now: int) -> Answer | None:
        """No answer at this instant: wait for one, or let a poll fail."""
        blocking = query.blocking or query.kind == "wildcard"
        if not blocking:
            thread = self._threads[query.rank]
            # Something has happened at the rank: the poll fails, and its clock jumps to here.
            if query.withheld:
                return self._fail(query, now, now)
            if query.key not in thread.failed:
                return self._fail(query, now + self._poll_ps, now)
            query.withheld = True
            events = [r.done for r in thread.requests.values() if r.done > now]
            # A sender that is ahead may have posted before this poll: it looks again then, too.
            posted = self._posted[query.rank]
            while posted and posted[0] <= now:
                heappop(posted)
            later = min([*events, *posted[:1]], default=later)
        if later is not None:
            self._due(query, later)
        return None

    def _fail(self, query: Query, time: int, now: int) -> Answer:
        thread = self._threads[query.rank]
        thread.failed.add(query.key)
        # The list is the run's record too: a replay has the poll's time and asks nothing.
        elapsed = time - thread.clock
        thread.ops[query.op] = Op(Kind.POLL, detail=(elapsed,), site=thread.ops[query.op].site)
        return self._close(query, None, now)

    def _answer(self, query: Query, value: Any, time: int, now: int) -> Answer:
        thread = self._threads[query.rank]
        if query.kind != "wildcard":
            thread.failed.clear()
            old = thread.ops[query.op]
            requests = tuple(value) if query.kind in ("test", "wait") else ()
            if requests:  # a request set free by this call: as if the rank had waited for it
                thread.ops[query.op] = Op(Kind.WAIT, detail=requests, site=old.site)
            else:
                thread.ops[query.op] = Op(Kind.POLL, detail=(time - thread.clock,), site=old.site)
        return self._close(query, value, now)

    def _close(self, query: Query, value: Any, now: int) -> Answer:
        if query.kind != "wildcard":
            self._own[query.rank] = None
            return Answer(query, value)
        rows = self._wildcards[query.rank]
        rows[query.place].popleft()
        if not rows[query.place]:
            del rows[query.place]
        for row in rows.values():  # later wildcards could not take what this one might have
            self._due(row[0], max(now, row[0].posted))
        return Answer(query, value)
