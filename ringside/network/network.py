"""The network: the trusted process between the ranks of one run.

It reads frames from every rank, matches messages by MPI's rules, delivers payloads, records the
trace and sees when nobody can move. Ranks run student code, so no field of a frame is believed
unchecked. Named receives are delivered at once and timed later; calls that observe time wait until
every rank is blocked, and the engine answers the one with the smallest virtual time.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import random
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ringside.errors import (
    BlockedCall,
    DeadlineError,
    Frame,
    Interrupted,
    LimitError,
    RankError,
    RunError,
)
from ringside.network import codec, failure
from ringside.network.collective import TIMED_AS, BadSpec, Gathering, group_of
from ringside.network.matching import Mailbox, Pending, Posted, Sent
from ringside.network.misfits import misfit, sentence, unlike
from ringside.network.peers import READ_BYTES, Limits, Peer, Peers
from ringside.network.rank_memory import MemoryWatch
from ringside.network.verdict import judge
from ringside.network.whereabouts import without_stacks
from ringside.network.wire import (
    ANY_SOURCE,
    BLOCKING,
    COMPLETION,
    EXCHANGE,
    OBJECT,
    How,
    Op,
    Reply,
    call_parts,
)
from ringside.timing.engine import PS, Answer, Engine, Query, uncollected
from ringside.timing.machine import Machine
from ringside.trace import Kind, Mode, Site, Trace
from ringside.trace import Op as TraceOp

_TRUNCATED = 15
# Plain numbers of the frames that come most often: an enumeration costs time at every comparison.
_ISEND, _IRECV, _WAIT = int(Op.ISEND), int(Op.IRECV), int(Op.WAIT)
_EXCHANGE = int(Op.EXCHANGE)
_SYNC, _BUFFERED, _READY = int(Mode.SYNC), int(Mode.BUFFERED), int(Mode.READY)
_ALL, _LAST_HOW, _DONE = int(How.ALL), int(How.SOME), int(Reply.DONE)
_SEND_KIND, _RECEIVE_KIND, _WAIT_KIND = int(Kind.ISEND), int(Kind.IRECV), int(Kind.WAIT)
_pack_completion = COMPLETION.pack
_NO_CALLS = frozenset({int(Op.SITE), int(Op.RESULT), int(Op.FAILURE)})
_MAX_CLOCK_PS = 2**63
_MOST_LOOKED_AT = 256  # requests or messages of a rank, by the verdict on a deadlock
_MAX_PATH = 240  # characters of a communicator's path


@dataclass(eq=False)
class Communicator:
    """A group of ranks with its own messages."""

    number: int
    path: str
    members: tuple[int, ...]
    sequence: dict[Any, int] = field(default_factory=dict)
    gatherings: dict[Any, Gathering] = field(default_factory=dict)
    places: dict[int, int] = field(init=False)  # of each member's world rank in the communicator

    def __post_init__(self) -> None:
        self.places = {rank: place for place, rank in enumerate(self.members)}


@dataclass(frozen=True)
class CollectiveRecord:
    """One use of a library collective: on which communicator, by whom, how many bytes in all.

    ``by_members``: a reduction that the network can't do (of objects, or by a user's operation):
    every member got every part, each of at most ``nbytes``.
    """

    name: str
    comm: str
    members: tuple[int, ...]
    nbytes: int
    by_members: bool = False


@dataclass(frozen=True)
class Recording:
    """A run's operations as they were recorded: sites are numbered by every rank for itself."""

    ops: list[list[TraceOp]]
    sites: list[list[Site]]
    machine: str

    def trace(self) -> Trace:
        """The trace, its sites numbered in order of first use by rank."""
        numbers: dict[Site, int] = {}
        ops = []
        for recorded, sites in zip(self.ops, self.sites, strict=True):
            place = [numbers.setdefault(site, len(numbers)) for site in sites]
            mine = []
            for op in recorded:
                if op.kind == Kind.QUERY:  # never answered: the run was cut off here
                    op = TraceOp(Kind.POLL, detail=(0,), site=op.site)
                number = place[op.site] if 0 <= op.site < len(place) else -1
                mine.append(TraceOp(*op[:8], number))
            ops.append(mine)
        return Trace(len(ops), ops, list(numbers), self.machine)


@dataclass
class Outcome:
    """What a run left behind."""

    recording: Recording
    bodies: list[codec.Part | None]
    error: RunError | None
    output: list[str]
    collectives: list[CollectiveRecord]
    comm_calls: list[str]
    unreceived: list[str]
    notes: dict[str, str]  # on messages that don't fit the buffers that took them
    cpu_s: list[float | None] = field(default_factory=list)  # of each rank, by the kernel


class Network:
    """Carries one call of a function on connected ranks, from its arguments to its results.

    Args:
        seed: permute latencies and draw wildcard choices.
        first_comm: the number of the next communicator made.
        locate: finds out at which lines ranks are that compute when time is up.
        memory: looks at what ranks hold; None: nobody does.
    """

    def __init__(
        self,
        peers: Sequence[Peer],
        machine: Machine,
        *,
        seed: int | None = None,
        limits: Limits | None = None,
        first_comm: int = 1,
        locate: Callable[[list[Peer]], dict[int, str]] | None = None,
        front_end: str = "mpi",
        memory: MemoryWatch | None = None,
    ) -> None:
        self.peers = list(peers)
        self.world_size = len(self.peers)
        self.machine = machine
        self.limits = limits or Limits()
        self._eager_threshold = machine.eager_threshold_bytes
        self.seed = seed
        self._locate = locate
        self._memory = memory
        self.front_end = front_end
        self.next_comm = first_comm
        everyone = tuple(range(self.world_size))
        self.comms = {0: Communicator(0, "world", everyone)}
        self.collectives: list[CollectiveRecord] = []
        self.comm_calls: list[str] = []
        self.error: RunError | None = None
        self._mailboxes: dict[tuple[int, int], Mailbox] = {}
        self._wildcards: dict[tuple[int, int], tuple[int, Posted]] = {}
        self._by_number: dict[int, tuple[Mailbox, Sent]] = {}
        self._engine: Engine | None = None
        self._num_running = 0
        self._timeout_s: float | None = None
        self._held_bytes = 0
        self._notes: dict[str, tuple[tuple[int, int], str]] = {}
        self._wires = Peers(self.peers, self.limits, self._handle, self._lost)

    # -- a call ----------------------------------------------------------------------------------

    def call(
        self,
        bodies: dict[int, list[codec.Part]],
        members: tuple[int, ...] | None,
        timeout_s: float | None,
        last: bool = False,
    ) -> Outcome:
        """Send every rank in ``bodies`` its call and carry messages until all are done.

        Args:
            last: ranks end by themselves when they are done, while others still work.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._wires.deadline, self._timeout_s = deadline, timeout_s
        comm = self.comms[0] if members is None else self._new_comm("group", members)
        for peer in self.peers:
            peer.reset()
        self._wires.open()
        try:
            for rank, body in bodies.items():
                peer = self.peers[rank]
                peer.called = peer.running = True
                self._num_running += 1
                place = comm.members.index(rank)
                told = (comm.number, comm.members, place, self.machine.ranks_per_node)
                self._wires.call(peer, last, call_parts(told, body))
            with uncollected():
                self._loop(deadline)
        except KeyboardInterrupt:
            raise Interrupted(self._still()) from None
        finally:
            self._wires.close()
        return self._outcome()

    def _loop(self, deadline: float | None) -> None:
        every_s = math.inf if self._memory is None else self._memory.every_s
        until = math.inf if deadline is None else deadline
        look = time.monotonic() + every_s
        while self.error is None:
            if not self._num_running:
                if not self._settle():
                    return
                continue  # one answer of several that a rank waits for frees nobody
            now = time.monotonic()
            if now >= until:
                self.error = self._late()
                return
            if now >= look and self._memory is not None:
                self.error = self._memory.look(self._line_of)
                look = time.monotonic() + every_s
                continue
            wait = min(until, look) - now
            self._wires.carry(None if wait == math.inf else wait)
            self.error = self.error or self._wires.error

    def _late(self) -> DeadlineError:
        return DeadlineError(self._timeout_s or 0.0, self._still())

    def _still(self) -> tuple[str, ...]:
        """Where each rank is, those that compute asked for their line."""
        computing = [peer for peer in self.peers if peer.running]
        places = self._locate(computing) if self._locate is not None and computing else {}
        return self._whereabouts(places)

    def _line_of(self, rank: int) -> str:
        """Where one rank is, to be said after what it does."""
        places = self._locate([self.peers[rank]]) if self._locate is not None else {}
        if rank in places:
            return f" at {places[rank]}"
        call, place = self.whereabouts(self.peers[rank])
        return f" in or after {call} at {place}" if call else ""

    def _settle(self) -> bool:
        """Everybody is blocked or done: answer one question, or end the run. True: it goes on."""
        open_queries = [p for p in self.peers if p.query is not None]
        blocked = [p for p in self.peers if p.blocked and p.body is None and p.failure is None]
        if not blocked:
            return False
        if open_queries or self._wildcards:
            engine = self._clock()
            engine.deadline = self._wires.deadline
            try:
                answer = engine.advance() or engine.release_poll()
            except TimeoutError:
                self.error = self._late()
                return False
            if answer is not None:
                self._deliver(answer)
                return True
        failed = [peer.failure for peer in self.peers if peer.failure is not None]
        if not failed:
            self.error = judge(self)
        return False

    def _clock(self) -> Engine:
        """The live engine, made when the first question about time is asked."""
        if self._engine is None:
            choose = random.Random(self.seed).randrange if self.seed is not None else None
            self._engine = Engine(
                self.machine,
                self.world_size,
                candidates=self._candidates,
                choose=choose,
                latency_seed=self.seed,
            )
            for thread, peer in zip(self._engine.threads, self.peers, strict=True):
                thread.ops = peer.ops
        return self._engine

    def _outcome(self) -> Outcome:
        error = self.error
        failures = [peer.failure for peer in self.peers if peer.failure is not None]
        if failures and not isinstance(error, LimitError):
            error = failures[0]
        unreceived = [
            f"rank {sent.world_source} sent {sent.counted} bytes with tag {sent.tag} to rank {dest}"
            for (_, dest), box in sorted(self._mailboxes.items(), key=lambda item: item[0])
            for sent in sorted(box.unexpected, key=lambda s: s.number)
        ]
        output = []
        for peer in self.peers:
            text = without_stacks(peer.text.decode("utf-8", "replace"))
            output.append(text + (f"\n[{peer.dropped} bytes more]" if peer.dropped else ""))
        bodies = [peer.body for peer in self.peers]
        ops, sites = [peer.ops for peer in self.peers], [peer.sites for peer in self.peers]
        recording = Recording(ops, sites, self.machine.name)
        notes = {what: said for what, (_, said) in sorted(self._notes.items())}
        return Outcome(
            recording, bodies, error, output, self.collectives, self.comm_calls, unreceived,
            notes, [peer.cpu_s for peer in self.peers],
        )  # fmt: skip

    def _lost(self, peer: Peer) -> None:
        """A rank's process ended."""
        if peer.running:
            where = peer.sites[peer.site] if 0 <= peer.site < len(peer.sites) else None
            frames = (Frame(where.file, where.line, where.call, ""),) if where else ()
            peer.failure = RankError(
                peer.rank,
                "ProcessEnded",
                "the process ended before its function returned (os._exit, a signal or a crash)",
                frames,
            )
            peer.running = False
            self._num_running -= 1

    # -- frames ----------------------------------------------------------------------------------

    def _handle(
        self, peer: Peer, op: int, flags: int, site: int, comm: int, to: int, tag: int,
        request: int, extra: int, body: memoryview,
    ) -> None:  # fmt: skip
        if not peer.running:
            raise LimitError(peer.rank, "spoke to the network out of turn")
        if op in _NO_CALLS:
            if op == Op.SITE:
                self._describe_site(peer, site, body)
            elif op == Op.RESULT:
                # A large body is the frame's own already.
                self._finish(peer, body if len(body) > READ_BYTES else bytes(body), None)
            else:
                self._finish(peer, None, failure.decode(peer.rank, body))
            return
        if len(peer.ops) >= self.limits.ops_per_rank:
            call, place = self.whereabouts(peer)
            last = f"; the last is {call} at {place}" if call else ""
            raise LimitError(peer.rank, f"made more than {self.limits.ops_per_rank} calls{last}")
        peer.site = site
        if op == _EXCHANGE:
            self._exchange(peer, flags, site, self._comm(peer, comm), to, tag, request, extra, body)
        elif op == _ISEND:
            self._isend(peer, flags, site, self._comm(peer, comm), to, tag, request, extra, body)
        elif op == _IRECV:
            self._irecv(peer, flags >> 4, site, self._comm(peer, comm), to, tag, request, extra)
        elif op == _WAIT:
            self._wait(peer, site, flags, self._numbers(peer, flags, body))
        elif op == Op.TEST:
            numbers = self._numbers(peer, flags, body)
            self._pending(peer, numbers)
            # The numbers' hash stands for them: a rank may poll often, for many requests.
            self._ask(peer, site, Query(
                peer.rank, len(peer.ops), "test", numbers, flags, key=("test", flags, hash(numbers))
            ))  # fmt: skip
        elif op == Op.PROBE:
            self._check_source(peer, self._comm(peer, comm), to)
            self._ask(peer, site, Query(
                peer.rank, len(peer.ops), "probe", blocking=bool(flags & BLOCKING),
                key=("probe", comm, to, tag), probe=(comm, to, tag),
            ))  # fmt: skip
        elif op == Op.WTIME:
            self._ask(peer, site, Query(peer.rank, len(peer.ops), "wtime", key=("wtime",)))
        elif op == Op.COLLECTIVE:
            self._collective(peer, flags >> 4, site, self._comm(peer, comm), request, body)
        elif op == Op.COMPUTE:
            self._compute(peer, site, body)
        elif op == Op.FREE:
            self._comm(peer, comm)
        elif op == Op.ABORT:
            self.error = RankError(
                peer.rank, "Abort", f"MPI_Abort was called with error code {extra}"
            )
        else:
            raise LimitError(peer.rank, f"sent an unknown request ({op})")

    def _describe_site(self, peer: Peer, site: int, body: memoryview) -> None:
        call, file, line = codec.decode(body)
        if site > len(peer.sites) or site >= self.limits.sites:
            raise LimitError(peer.rank, "numbered its calls wrongly")
        entry = Site(failure.text(call, 200), failure.text(file, 200), failure.line(line))
        if site == len(peer.sites):
            peer.sites.append(entry)
        else:
            peer.sites[site] = entry

    def _finish(self, peer: Peer, body: codec.Part | None, failure: RankError | None) -> None:
        self._hold(peer, len(body or b""))
        peer.body, peer.failure = body, failure
        peer.note_cpu_time()
        peer.running = False
        self._num_running -= 1

    def _comm(self, peer: Peer, number: int) -> Communicator:
        comm = self.comms.get(number)
        if comm is None or peer.rank not in comm.places:
            raise LimitError(peer.rank, "used a communicator that it is no member of")
        return comm

    def _new_request(self, peer: Peer, number: int) -> Pending:
        # A number used twice would stand for two operations; an exchange's second may be too large.
        if not peer.last_request < number < 1 << 32:
            raise LimitError(peer.rank, "numbered its requests wrongly")
        if len(peer.requests) >= self.limits.open_requests:
            raise LimitError(
                peer.rank,
                f"has more than {self.limits.open_requests} requests that it never waits for",
            )
        peer.last_request = number
        request = peer.requests[number] = Pending(peer.rank, number, len(peer.ops))
        return request

    def _isend(
        self, peer: Peer, flags: int, site: int, comm: Communicator, to: int, tag: int, number: int,
        claimed: int, body: memoryview,
    ) -> Pending:  # fmt: skip
        if not 0 <= to < len(comm.members):
            raise LimitError(
                peer.rank, f"sent to rank {to} of a communicator of {len(comm.members)}"
            )
        mode = flags & 0xF
        if mode > _READY:
            raise LimitError(peer.rank, f"sent in a mode that doesn't exist ({mode})")
        payload = bytes(body)
        counted = len(payload)
        if flags >> 4 == OBJECT:
            counted = peer.envelopes.counted(payload, claimed)
        dest = comm.members[to]
        message = peer.sent * self.world_size + peer.rank
        peer.sent += 1
        request = self._new_request(peer, number)
        eager = mode == _BUFFERED or (mode != _SYNC and counted < self._eager_threshold)
        request.ready = eager
        peer.ops.append(
            TraceOp(_SEND_KIND, dest, tag, counted, comm.path, number, message, (mode,), site)
        )
        self._hold(peer, len(payload))
        source = comm.places[peer.rank]
        sent = Sent(message, source, peer.rank, tag, payload, counted, request, eager, flags >> 4)
        box = self._mailbox(comm, dest)
        self._by_number[message] = (box, sent)
        box.send(sent)
        return request

    def _irecv(
        self,
        peer: Peer,
        kind: int,
        site: int,
        comm: Communicator,
        source: int,
        tag: int,
        number: int,
        capacity: int,
    ) -> Pending:
        self._check_source(peer, comm, source)
        request = self._new_request(peer, number)
        world_source = comm.members[source] if source != ANY_SOURCE else -1
        peer.ops.append(
            TraceOp(
                _RECEIVE_KIND,
                world_source,
                tag,
                0,
                comm.path,
                number,
                -1,
                (world_source, tag),
                site,
            )
        )
        posted = Posted(source, tag, capacity, request, kind)
        if source == ANY_SOURCE:
            self._wildcards[peer.rank, request.op] = (comm.number, posted)
        self._mailbox(comm, peer.rank).receive(posted)
        return request

    def _exchange(
        self, peer: Peer, flags: int, site: int, comm: Communicator, to: int, tag: int, number: int,
        claimed: int, body: memoryview,
    ) -> None:  # fmt: skip
        source, receive_tag, capacity = EXCHANGE.unpack_from(body)
        payload = body[EXCHANGE.size :]
        sending = self._isend(peer, flags & 0xF0, site, comm, to, tag, number, claimed, payload)
        receiving = self._irecv(
            peer, flags & 0xF, site, comm, source, receive_tag, number + 1, capacity
        )
        self._wait_for(peer, site, (number, number + 1), (sending, receiving))

    def _check_source(self, peer: Peer, comm: Communicator, source: int) -> None:
        if source != ANY_SOURCE and not 0 <= source < len(comm.members):
            raise LimitError(
                peer.rank, f"receives from rank {source} of a communicator of {len(comm.members)}"
            )

    def _mailbox(self, comm: Communicator, rank: int) -> Mailbox:
        box = self._mailboxes.get((comm.number, rank))
        if box is None:
            box = self._mailboxes[comm.number, rank] = Mailbox(self._matched)
        return box

    def _hold(self, peer: Peer, nbytes: int) -> None:
        self._held_bytes += nbytes
        if self._held_bytes > self.limits.held_bytes:
            raise LimitError(
                peer.rank, f"more than {self.limits.held_bytes} bytes wait to be received"
            )

    def _matched(self, message: Sent, receive: Posted) -> None:
        request = receive.request
        op = self.peers[request.rank].ops[request.op]
        self._learn(request, TraceOp(
            _RECEIVE_KIND, message.world_source, message.tag, message.counted, op.comm, op.request,
            message.number, op.detail, op.site,
        ))  # fmt: skip
        payload = message.payload
        if message.kind != receive.kind or len(payload) < receive.capacity:
            self._note(message, receive)
        request.source, request.tag, request.nbytes = message.source, message.tag, len(payload)
        if 0 <= receive.capacity < len(payload):
            request.error, request.overflow = _TRUNCATED, True
            payload = payload[: receive.capacity]
        request.payload = payload
        self._held_bytes -= len(message.payload) - len(payload)  # the rest waits with its request
        message.payload = b""
        self._by_number.pop(message.number, None)
        self._ready(request)
        if not message.request.ready:
            self._ready(message.request)

    def _note(self, message: Sent, receive: Posted) -> None:
        """Keep one message that doesn't fit its buffer, of each way not to fit it.

        It is the lowest rank's first one: real arrival differs from run to run.
        """
        what, place = misfit(message, receive), (receive.request.rank, receive.request.op)
        if what and (what not in self._notes or place < self._notes[what][0]):
            sites = self._site(message.request), self._site(receive.request)
            self._notes[what] = place, sentence(message, receive, *sites)

    def _site(self, request: Pending) -> Site:
        """The call that made a request."""
        peer = self.peers[request.rank]
        number = peer.ops[request.op].site
        return peer.sites[number] if 0 <= number < len(peer.sites) else Site("a call", "", 0)

    def _learn(self, request: Pending, op: TraceOp) -> None:
        """All is known of the operation behind a request now: record it, and tell the clock."""
        self.peers[request.rank].ops[request.op] = op
        if self._engine is not None:
            self._engine.resolve(request.rank, request.op)

    def _ready(self, request: Pending) -> None:
        request.ready = True
        peer = self.peers[request.rank]
        waiting = peer.waiting
        if not waiting:
            return
        for other in waiting:
            if not other.ready:
                return
        peer.waiting = ()
        peer.running = True
        self._num_running += 1
        self._answer_completions(peer, waiting)

    # -- waiting ---------------------------------------------------------------------------------

    def _pending(self, peer: Peer, numbers: tuple[int, ...]) -> tuple[Pending, ...]:
        try:
            return tuple(peer.requests[number] for number in numbers)
        except KeyError:
            raise LimitError(peer.rank, "waited for a request that it doesn't have") from None

    def _numbers(self, peer: Peer, how: int, body: memoryview) -> tuple[int, ...]:
        """The requests that a wait or a test names."""
        if how > _LAST_HOW:
            raise LimitError(peer.rank, f"waited in a way that doesn't exist ({how})")
        count = len(body) // 4
        if count > len(peer.requests):  # before as many numbers are made
            raise LimitError(
                peer.rank, "waited for requests that it doesn't have, or for one twice"
            )
        numbers = struct.unpack(f"<{count}I", body)
        if not count or len(set(numbers)) < count:
            raise LimitError(peer.rank, "waited for no request, or for one twice")
        return numbers

    def _wait(self, peer: Peer, site: int, how: int, numbers: tuple[int, ...]) -> None:
        waiting = self._pending(peer, numbers)
        if how != _ALL and len(numbers) > 1:
            self._ask(peer, site, Query(
                peer.rank, len(peer.ops), "wait", numbers, how, blocking=True
            ))  # fmt: skip
            return
        self._wait_for(peer, site, numbers, waiting)

    def _wait_for(
        self, peer: Peer, site: int, numbers: tuple[int, ...], waiting: tuple[Pending, ...]
    ) -> None:
        """The rank goes on when all are ready."""
        peer.ops.append(TraceOp(_WAIT_KIND, -1, 0, 0, "world", -1, -1, numbers, site))
        for request in waiting:
            if not request.ready:
                peer.waiting = waiting
                peer.running = False
                self._num_running -= 1
                return
        self._answer_completions(peer, waiting)

    def _answer_completions(self, peer: Peer, requests: Sequence[Pending]) -> None:
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
        self._wires.reply(peer, _DONE, len(requests), parts, size)

    def _release(self, request: Pending, nbytes: int) -> None:
        """A payload leaves; one that several members get counts until the last has it."""
        if request.held is not None:
            request.held[0] -= 1
            nbytes = 0 if request.held[0] else request.held[1]
        self._held_bytes -= nbytes

    def _ask(self, peer: Peer, site: int, query: Query) -> None:
        """A call that observes time: the rank waits until the engine can answer."""
        peer.query = query
        peer.ops.append(TraceOp(Kind.QUERY, detail=(query,), site=site))
        peer.running = False
        self._num_running -= 1

    def _candidates(self, query: Query) -> list[int]:
        if query.kind == "wildcard":
            comm, posted = self._wildcards[query.rank, query.op]
            return [m.number for m in self._mailboxes[comm, query.rank].candidates(posted)]
        comm, source, tag = query.probe
        box = self._mailbox(self.comms[comm], query.rank)
        return [m.number for m in box.visible(source, tag)]

    def _deliver(self, answer: Answer) -> None:
        query, value = answer
        if query.kind == "wildcard":
            _, posted = self._wildcards.pop((query.rank, query.op))
            box, message = self._by_number[value]
            box.choose(posted, message)
            return
        peer = self.peers[query.rank]
        peer.query = None
        peer.running = True
        self._num_running += 1
        if query.kind == "wtime":
            time_ps = struct.pack("<Q", min(value, _MAX_CLOCK_PS))
            self._wires.reply(peer, Reply.TIME, 0, (time_ps,), len(time_ps))
        elif value is None:
            self._wires.reply(peer, Reply.EMPTY, 0, (), 0)
        elif query.kind == "probe":
            message = self._by_number[value][1]
            size = len(message.payload)
            body = COMPLETION.pack(0, message.source, message.tag, size, 0, 0, 0, 0, 0)
            self._wires.reply(peer, Reply.DONE, 1, (body,), len(body))
        else:
            self._answer_completions(peer, [peer.requests[number] for number in value])

    # -- collectives and computing ---------------------------------------------------------------

    def _collective(
        self, peer: Peer, kind: int, site: int, comm: Communicator, number: int, body: memoryview
    ) -> None:
        name, spec, *told = codec.decode(body)
        request = self._new_request(peer, number)
        peer.ops.append(TraceOp(Kind.COLLECTIVE, comm=comm.path, request=number, site=site))
        me = comm.places[peer.rank]
        members = comm.members
        if name == "create_group":
            group = group_of(spec, len(members), me)
            members = tuple(comm.members[m] for m in group)
            key: Any = (group, comm.sequence.get((me, group), 0))  # a count for each group
            comm.sequence[me, group] = key[1] + 1
            me = group.index(me)
        else:
            key = comm.sequence.get(me, 0)
            comm.sequence[me] = key + 1
        gathering = comm.gatherings.get(key)
        if gathering is None:
            sequence = key if isinstance(key, int) else key[1]
            gathering = comm.gatherings[key] = Gathering(name, sequence, len(members))
        self._hold(peer, len(body))
        gathering.held_bytes += len(body)
        gathering.join(me, name, spec, request, *told)
        gathering.kinds[me] = kind
        if gathering.complete:
            del comm.gatherings[key]
            self._conclude(peer, comm, members, gathering)

    def _conclude(
        self, peer: Peer, comm: Communicator, members: tuple[int, ...], gathering: Gathering
    ) -> None:
        """Every member has come: reduce, time and hand out."""
        name = gathering.name
        if len({kind for kind in gathering.kinds.values() if kind}) > 1:
            sites = {i: self._site(request) for i, request in gathering.requests.items()}
            place = members[0], gathering.requests[0].op
            if "kind" not in self._notes or place < self._notes["kind"][0]:
                self._notes["kind"] = place, unlike(members, gathering.kinds, sites)
        sizes = gathering.sizes()
        if name in TIMED_AS:
            self.comm_calls += [name] * len(members)
            values = self._communicators(comm, members, gathering)
        else:
            total = sum(sizes)
            record = CollectiveRecord(name, comm.path, members, total, gathering.by_members)
            self.collectives.append(record)
            values = gathering.values()
        # A group's making has a count of its own, kept apart from the communicator's.
        sequence = -1 - gathering.sequence if name == "create_group" else gathering.sequence
        detail = (TIMED_AS.get(name, name), sequence, gathering.root, members, sizes)
        encoded: dict[int, bytes] = {}
        held: dict[int, list[int]] = {}
        for member, value in enumerate(values):
            request = gathering.requests[member]
            data = encoded.get(id(value))
            if data is None:
                data = encoded[id(value)] = codec.encode(value)
                held[id(value)] = [0, len(data)]
                self._hold(peer, len(data))
            request.payload, request.held = data, held[id(value)]
            request.held[0] += 1
            op = self.peers[request.rank].ops[request.op]
            self._learn(request, op._replace(nbytes=max(sizes), detail=detail))
        self._held_bytes -= gathering.held_bytes
        for member in range(len(members)):
            self._ready(gathering.requests[member])

    def _communicators(
        self, comm: Communicator, members: tuple[int, ...], gathering: Gathering
    ) -> list[Any]:
        """The new communicators of a dup, split or create; None for members left out."""
        prefix = f"{comm.path}/{gathering.sequence}"
        groups: list[tuple[str, tuple[int, ...]]] = []
        if gathering.name == "dup":
            groups = [(prefix, members)]
        elif gathering.name == "create_group":
            groups = [(f"{prefix}g{'-'.join(map(str, members))}", members)]
        elif gathering.name == "create":
            chosen = gathering.specs[0][0]
            if any(spec[0] != chosen for spec in gathering.specs.values()):
                raise BadSpec("members of Create give different groups")
            groups = [(prefix, tuple(comm.members[m] for m in chosen))]
        else:
            colors = sorted({s[0] for s in gathering.specs.values() if s[0] is not None})
            for color in colors:
                chosen = [m for m in sorted(gathering.specs) if gathering.specs[m][0] == color]
                chosen.sort(key=lambda m: (gathering.specs[m][1] or 0, m))
                groups.append((f"{prefix}.{color}", tuple(members[m] for m in chosen)))
        values: list[Any] = [None] * len(members)
        for path, ranks in groups:
            if not ranks:
                continue
            new = self._new_comm(path, ranks)
            for place, rank in enumerate(ranks):
                values[members.index(rank)] = ("comm", new.number, ranks, place)
        return values

    def _new_comm(self, path: str, members: tuple[int, ...]) -> Communicator:
        if len(self.comms) > self.limits.communicators:
            raise LimitError(
                members[0], f"made more than {self.limits.communicators} communicators"
            )
        if len(path) > _MAX_PATH:  # copies of copies; the order of the calls gives the same again
            path = f"...{hashlib.sha256(path.encode()).hexdigest()[:32]}"
        comm = Communicator(self.next_comm, path, members)
        self.comms[self.next_comm] = comm
        self.next_comm += 1
        return comm

    def _compute(self, peer: Peer, site: int, body: memoryview) -> None:
        flops, nbytes, seconds, label, *counted = codec.decode(body)
        num_kernels, moved = counted or (1, 0.0)
        if not isinstance(num_kernels, int) or not 0 <= num_kernels < 1 << 40:
            raise LimitError(peer.rank, f"declared impossible work ({num_kernels} operators)")
        for amount in (flops, nbytes, moved, 0.0 if seconds is None else seconds):
            if not isinstance(amount, float) or not 0 <= amount < 1e18:
                raise LimitError(peer.rank, f"declared impossible work ({amount})")
        if seconds is not None and seconds > 1e6:
            raise LimitError(peer.rank, f"declared {seconds} s of work")
        picoseconds = -1 if seconds is None else round(seconds * PS)
        detail: tuple[Any, ...] = (flops, nbytes, picoseconds, failure.text(label, 80))
        if counted:
            detail = (*detail, num_kernels, moved)
        peer.ops.append(TraceOp(Kind.COMPUTE, detail=detail, site=site))

    # -- who is where ----------------------------------------------------------------------------

    def whereabouts(self, peer: Peer) -> tuple[str, str]:
        """The call a rank is in, or was in last, and its place."""
        if 0 <= peer.site < len(peer.sites):
            site = peer.sites[peer.site]
            return site.call, site.where
        return "", ""

    def _whereabouts(self, places: dict[int, str]) -> tuple[str, ...]:
        lines = []
        for peer in self.peers:
            if not peer.called:
                continue
            call, place = self.whereabouts(peer)
            if peer.running:
                at = f" at {places[peer.rank]}," if peer.rank in places else ""
                after = f" after {call} at {place}" if call else " before its first call"
                lines.append(f"rank {peer.rank} is computing{at}{after}{_flood(peer)}")
            elif peer.failure is not None:
                lines.append(f"rank {peer.rank} raised {peer.failure.type_name}")
            elif peer.body is None:
                lines.append(f"rank {peer.rank} is blocked in {call} at {place}")
            else:
                lines.append(f"rank {peer.rank} has returned")
        return tuple(lines)

    def blocked_calls(self) -> tuple[BlockedCall, ...]:
        """Every called rank's state at a deadlock, for the verdict."""
        entries = []
        for peer in self.peers:
            if not peer.called:
                continue
            if peer.body is not None:
                entries.append(BlockedCall(peer.rank, "(has returned)", ""))
                continue
            call, place = self.whereabouts(peer)
            entries.append(BlockedCall(peer.rank, call, place, self.waits_for(peer)))
        return tuple(entries)

    def open_requests(self, peer: Peer) -> tuple[Pending, ...]:
        """The requests that keep a rank where it is; of very many, the first."""
        found = peer.waiting
        if not found and peer.query is not None:
            found = tuple(peer.requests[n] for n in peer.query.requests)
        return tuple(itertools.islice((r for r in found if not r.ready), _MOST_LOOKED_AT))

    def waits_for(self, peer: Peer) -> tuple[int, ...]:
        """The ranks that a blocked rank waits for."""
        found: list[int] = []
        for request in self.open_requests(peer):
            op = peer.ops[request.op]
            if op.kind == Kind.COLLECTIVE:
                for _, gathering, members in self.open_gatherings():
                    if request in gathering.requests.values():
                        found += [m for i, m in enumerate(members) if i not in gathering.specs]
            elif op.peer >= 0:
                found.append(op.peer)
        if peer.query is not None and peer.query.kind == "probe" and peer.query.probe[1] >= 0:
            comm, source, _ = peer.query.probe
            found.append(self.comms[comm].members[source])
        return tuple(dict.fromkeys(found))

    def open_gatherings(self) -> list[tuple[str, Gathering, tuple[int, ...]]]:
        """Collectives that some members haven't come to: communicator, state, members."""
        result = []
        for comm in self.comms.values():
            for key, gathering in comm.gatherings.items():
                members = (
                    comm.members if isinstance(key, int) else tuple(comm.members[m] for m in key[0])
                )
                result.append((comm.path, gathering, members))
        return result

    def unexpected(self, rank: int) -> list[tuple[Sent, str]]:
        """Messages that wait for a rank unreceived, each with its communicator's path."""
        return [
            (message, self.comms[number].path)
            for (number, owner), box in self._mailboxes.items()
            if owner == rank
            for message in box.unexpected[:_MOST_LOOKED_AT]
        ]


def _flood(peer: Peer) -> str:
    """What is said of a rank that prints more than anybody reads."""
    printed_mb = (len(peer.text) + peer.dropped) // 1_000_000
    return f", and has printed more than {printed_mb} MB" if printed_mb else ""
