"""What the engine keeps: messages in flight, requests, threads of operations, their stretches."""

from __future__ import annotations

from typing import Any, NamedTuple

from ringside.trace import Op


class Flight:
    """One message on its way; times in picoseconds, -1 while unknown."""

    __slots__ = (
        "access",
        "answer",
        "arrived",
        "asked_by",
        "dest",
        "done",
        "eager",
        "from_anybody",
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
        self.access = -1  # of an access to a window: its number
        self.answer: Flight | None = None  # what an access that fetches sends back
        self.asked_by: Flight | None = None  # of such an answer: the access
        self.from_anybody = False  # its receive named no source
        self.posted = self.received = -1  # post times of the send and of the receive
        self.started = self.arrived = self.done = -1  # leaves the port, at the other port, complete
        self.send: TimedRequest | None = None
        self.receive: TimedRequest | None = None
        self.held_at_source: Flight | None = None  # whom it waited for at the sender's port
        self.held_at_dest: Flight | None = None


class TimedRequest:
    """A pending operation: when it completes and who waits for it."""

    __slots__ = ("begun", "collective", "done", "last", "message", "not_before", "rank", "waiter")

    def __init__(self, rank: int, message: Flight | None) -> None:
        self.rank = rank
        self.message = message
        self.collective: Thread | None = None
        self.begun = -1  # of a collective that is timed by a formula: when its last member began
        self.last = -1  # and which that was
        self.not_before = -1  # of a collective that ends with an error: when that is known
        self.done = -1
        self.waiter: Thread | None = None


class Thread:
    """A sequence of operations of one rank: the rank itself, or one of its collectives."""

    __slots__ = (
        "clock", "cursor", "failed", "first_index", "ops", "pending", "rank", "request",
        "requests", "span", "spans", "until",
    )  # fmt: skip

    def __init__(
        self, rank: int, ops: list[Op], clock: int, first_index: int, request: TimedRequest | None
    ):
        self.rank = rank
        self.ops = ops
        self.clock = clock
        self.cursor = 0
        self.pending = 0  # requests that a wait still needs
        self.until = 0  # the latest completion among those it has
        self.first_index = first_index  # -1 for a rank's own thread
        self.request = request  # completes when a collective's thread ends
        self.requests: dict[int, TimedRequest] = {}
        self.failed: set[Any] = set()  # polls that failed since anything last changed
        self.span: Wait | None = None  # the wait that it is in
        self.spans: list[Wait | Busy] = []


class Wait:
    """A stretch in which a rank waited: for which requests, from when to when."""

    __slots__ = ("end", "op", "requests", "start")

    def __init__(self, op: int, start: int, requests: tuple[TimedRequest, ...]) -> None:
        self.op = op
        self.start = start
        self.end = -1
        self.requests = requests


class Busy(NamedTuple):
    """A stretch in which a rank computed, polled or used a store."""

    op: int
    start: int
    end: int
