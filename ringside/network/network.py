"""The network: the trusted process between the ranks of one run.

It reads frames from every rank, matches messages by MPI's rules, delivers payloads, records the
trace and sees when nobody can move. Named receives are delivered at once and timed later; calls
that observe time wait until every rank is blocked, and the engine answers the one with the smallest
virtual time. The parts, in the order in which a message meets them::

    peers         bytes of the ranks' sockets, cut into frames; replies
    dispatch      what a frame asks for, and whom it concerns
    messages      point to point: mailboxes and matching
    collectives   gatherings of members, communicators
    windows       memory that others read and write; its locks
    faults        ranks that are killed, and what survivors see of it
    storage       stores of arrays, which outlive the ranks
    requests      what was begun, who waits for it, who goes on
    network       here: a call from its start to its end, and questions about time; takes frames
                  from peers, hands them to dispatch, and sends the answers that requests has
    standing      who is where, when the run can't go on; verdict says why
"""

from __future__ import annotations

import math
import random
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ringside.errors import DeadlineError, Frame, Interrupted, LimitError, RankError, RunError
from ringside.factors import Factors
from ringside.network import codec
from ringside.network.bounds import Ledger, Limits
from ringside.network.collectives import Collectives
from ringside.network.deadlines import Patience, ends
from ringside.network.deaths import Deaths
from ringside.network.dispatch import Dispatch
from ringside.network.faults import Faults
from ringside.network.messages import Messages
from ringside.network.mismatches import Notes
from ringside.network.passes import Passes
from ringside.network.peers import Peer, Peers
from ringside.network.rank_memory import MemoryWatch
from ringside.network.recording import Recording, RunEnd
from ringside.network.requests import Requests
from ringside.network.stacks import without_stacks
from ringside.network.storage import Storage, Stores
from ringside.network.verdict import judge
from ringside.network.wait_graph import Standing
from ringside.network.windows import Windows
from ringside.network.wire import COMPLETION, LAST, OBSERVED, Reply, ReplyFrame, call_parts
from ringside.timing.engine import Engine, uncollected
from ringside.timing.machine import Machine
from ringside.timing.ports import PS
from ringside.timing.queries import FAILED, Answer, Query

_MAX_CLOCK_PS = 2**63


class Network:
    """Carries one call of a function on connected ranks, from its arguments to its results.

    Args:
        seed: permute latencies and draw wildcard choices.
        first_comm: the number of the next communicator made.
        locate: finds out at which lines ranks are that compute when time is up.
        memory: looks at what ranks hold; None: nobody does.
        factors: of the passes that supplied layers announce; None: they announce nothing.
        patience: looks at how long ranks take; None: nobody does but the deadline of a call.
        deaths: of ranks that are killed, or hang.
        flips: bits of messages that are flipped, see ``Messages``.
        slow: rank -> how many times as long its work takes.
        stores: that the ranks may use; None: none.
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
        factors: Factors | None = None,
        patience: Patience | None = None,
        deaths: Deaths | None = None,
        flips: Mapping[tuple[int, int], int] | None = None,
        slow: Mapping[int, float] | None = None,
        stores: Stores | None = None,
    ) -> None:
        self.peers = list(peers)
        self.machine = machine
        self.seed = seed
        self.error: RunError | None = None
        self._locate = locate
        self._memory = memory
        self._observed = factors is not None
        self._patience = patience
        self._timeout_s: float | None = None
        self._notes: Notes = {}
        self._deaths = deaths or Deaths()
        self._slow = dict(slow or {})
        limits = limits or Limits()
        self.ledger = ledger = Ledger(limits)
        self._wires = Peers(self.peers, limits)
        self._requests = requests = Requests(self.peers, ledger)
        self._messages = Messages(
            self.peers, requests, ledger, machine.eager_threshold_bytes, self._notes, self._deaths,
            flips or {},
        )  # fmt: skip
        self._collectives = Collectives(
            self.peers, requests, ledger, self._notes, first_comm, self._deaths
        )
        self._faults = Faults(
            self.peers, self._deaths, requests, self._messages, self._collectives,
            round(machine.alpha_s * PS),
        )  # fmt: skip
        self._windows = Windows(self.peers, requests, ledger)
        self._storage = Storage(self.peers, requests, ledger, machine, stores)
        self._standing = Standing(
            self.peers, self._messages, self._collectives, self._windows, self._faults, front_end
        )
        self._dispatch = Dispatch(
            ledger, requests, self._messages, self._collectives, self._standing,
            Passes(limits, factors), self._windows, self._faults, self._storage,
        )  # fmt: skip

    @property
    def next_comm(self) -> int:
        """The number that the next communicator of these ranks gets."""
        return self._collectives.next_comm

    def call(
        self,
        bodies: dict[int, list[codec.Part]],
        members: tuple[int, ...] | None,
        timeout_s: float | None,
        last: bool = False,
    ) -> RunEnd:
        """Send every rank in ``bodies`` its call and carry messages until all are done.

        Args:
            last: ranks end by themselves when they are done, while others still work.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._wires.deadline, self._timeout_s = deadline, timeout_s
        comm = (
            self._collectives.comms[0]
            if members is None
            else self._collectives.new_comm("group", members)
        )
        for peer in self.peers:
            peer.reset()
        flags = (LAST if last else 0) | (OBSERVED if self._observed else 0)
        self._wires.open()
        try:
            for rank, body in bodies.items():
                peer = self.peers[rank]
                peer.called = True
                self._requests.resume(peer)
                member = comm.members.index(rank)
                info = (comm.number, comm.members, member, self.machine.ranks_per_node)
                if error := self._wires.call(peer, flags, call_parts(info, body)):
                    self.error = error
                if peer.gone:
                    self._lost(peer)
            with uncollected():
                self._loop(deadline)
        except KeyboardInterrupt:
            raise Interrupted(self._still()) from None
        finally:
            self._wires.close()
        return self._outcome()

    def _loop(self, deadline: float | None) -> None:
        every_s = min((watch.every_s for watch in self._watches()), default=math.inf)
        until = math.inf if deadline is None else deadline
        look = time.monotonic() + every_s
        while self.error is None:
            now = time.monotonic()
            if now >= until:
                self.error = self._late()
                return
            if now >= look:
                self.error = self._looked()
                look = time.monotonic() + every_s
                continue
            if not self._requests.num_running:
                if not self._settled():
                    return
                continue  # one answer of several that a rank waits for frees nobody
            wait = min(until, look) - now
            self._carry(None if wait == math.inf else wait)

    def _carry(self, timeout_s: float | None) -> None:
        """Wait for ranks, at most so long, and do what their frames ask for."""
        handle, replies = self._dispatch.handle, self._requests.replies
        # After an error the others that are ready still have their turn: what they have written is
        # read, so that the run ends alike however the ranks' frames fell into this step.
        for peer in self._wires.ready(timeout_s):
            try:
                for frame in self._wires.frames(peer):
                    handle(peer, frame)
                    if replies:
                        self._reply()
            except LimitError as error:
                self.error = error
            except Exception as error:  # whatever a hostile frame leads to ends the run, never us
                reason = f"{type(error).__name__}: {error}"
                self.error = LimitError(
                    peer.rank, f"sent a frame that the network can't read ({reason})"
                )
            if peer.gone:
                self._lost(peer)
            elif peer.dead:
                self._wires.cut(peer)
        self.error = self._dispatch.aborted or self.error

    def _reply(self) -> None:
        """Send the answers that the last step has led to."""
        replies = self._requests.replies  # the loop in ``_carry`` holds the same list
        for peer, reply in replies:
            if error := self._wires.reply(peer, reply):
                self.error = error
            if peer.gone:
                self._lost(peer)
        replies.clear()

    def _watches(self) -> list[MemoryWatch | Patience]:
        return [watch for watch in (self._memory, self._patience) if watch is not None]

    def _looked(self) -> RunError | None:
        """Why the run can't go on, where somebody looks at what ranks hold, or take."""
        if self._memory is not None and (error := self._memory.look(self._line_of)):
            return error
        if self._patience is not None and (allowed := ends(self._patience, self.peers)):
            return DeadlineError(allowed, self._still())
        return None

    def _late(self) -> DeadlineError:
        return DeadlineError(f"within {self._timeout_s or 0.0:g} s", self._still())

    def _still(self) -> tuple[str, ...]:
        """Where each rank is, those that compute asked for their line."""
        computing = [peer for peer in self.peers if peer.running]
        lines = self._locate(computing) if self._locate is not None and computing else {}
        return self._standing.of_all(lines)

    def _line_of(self, rank: int) -> str:
        """Where one rank is, to be said after what it does."""
        lines = self._locate([self.peers[rank]]) if self._locate is not None else {}
        if rank in lines:
            return f" at {lines[rank]}"
        call, line = self._standing.of_one(self.peers[rank])
        return f" in or after {call} at {line}" if call else ""

    def _settled(self) -> bool:
        """As ``_settle``; what calls lead to that contradict each other ends the run, never us."""
        try:
            return self._settle()
        except Exception as error:
            self.error = RunError(
                "the calls of these ranks contradict each other, so that the network can't put "
                f"them in an order ({type(error).__name__}: {error})."
            )
            return False

    def _settle(self) -> bool:
        """Everybody is blocked or done: answer one question, or end the run. True: it goes on."""
        # A rank that computes may still send what a question is about, and before anything is
        # called a deadlock every question has its answer.
        if self._faults.strike():
            self._reply()
            return True
        open_queries = [p for p in self.peers if p.query is not None and not p.dead]
        blocked = [p for p in self.peers if p.blocked and p.body is None and p.failure is None]
        if not blocked and not self._deaths.hung:
            return False
        timed = self._messages.wait_for_the_clock or self._windows.wait_for_the_clock
        engine, answer = None, None
        if open_queries or timed or self._faults.time_runs:
            engine = self._clock()
            engine.deadline = self._wires.deadline
            try:
                answer = engine.advance()
            except TimeoutError:
                self.error = self._late()
                return False
        if answer is None and self._faults.interrupt():
            self._reply()
            return True
        if engine is not None and (answer := answer or engine.release_poll()) is not None:
            self._deliver(answer)
            return True
        if self._faults.time_out():
            self._reply()
            return True
        # Ranks that wait for one that has failed are no deadlock: its failure is the run's.
        failed = [peer.failure for peer in self.peers if peer.failure is not None]
        if not failed:
            self.error = judge(self._standing)
        return False

    def _clock(self) -> Engine:
        """The live engine, made when the first question about time is asked."""
        if self._requests.engine is None:
            choose = random.Random(self.seed).randrange if self.seed is not None else None
            self._requests.engine = Engine(
                self.machine,
                len(self.peers),
                candidates=self._messages.candidates,
                grant=self._windows.grant,
                ends=self._faults.ends,
                choose=choose,
                latency_seed=self.seed,
                slow=self._slow,
            )
            for thread, peer in zip(self._requests.engine.threads, self.peers, strict=True):
                thread.ops = peer.ops
        return self._requests.engine

    def _outcome(self) -> RunEnd:
        error = self.error
        failures = [peer.failure for peer in self.peers if peer.failure is not None]
        if failures and not isinstance(error, LimitError):
            error = self._faults.with_cure(failures[0])
        if error is None and (sentence := self._collectives.own_groups()):
            error = RunError(sentence)  # no rank has noticed, and another library would have hung
        output = []
        for peer in self.peers:
            text = without_stacks(peer.text.decode("utf-8", "replace"))
            output.append(text + (f"\n[{peer.dropped} bytes more]" if peer.dropped else ""))
        bodies = [peer.body for peer in self.peers]
        ops, sites = [peer.ops for peer in self.peers], [peer.sites for peer in self.peers]
        recording = Recording(
            ops, sites, self.machine.name, self._slow,
            self._collectives.joined, self._collectives.groups(),
        )  # fmt: skip
        notes = {what: sentence for what, (_, sentence) in sorted(self._notes.items())}
        return RunEnd(
            recording=recording,
            bodies=bodies,
            error=error,
            output=output,
            collectives=self._collectives.records,
            comm_calls=self._collectives.comm_calls,
            unreceived=self._messages.unreceived(),
            notes=notes,
            num_operations=self.ledger.operations,
            deaths=self._deaths.happened(),
            hangs=self._deaths.hanging(),
        )

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
            self._requests.stop(peer)

    def _deliver(self, answer: Answer) -> None:
        """Do what the engine has found out, and answer who asked."""
        query, value = answer
        if query.kind == "wildcard" and value == FAILED:
            self._faults.end_receive(query)
        elif query.kind == "wildcard":
            self._messages.choose(query, value)
        elif query.kind == "access":
            self.error = self._windows.land(*value) or self.error
        else:
            self._answer(query, value)
        self._reply()

    def _answer(self, query: Query, value: Any) -> None:
        peer, requests = self.peers[query.rank], self._requests
        peer.query = None
        requests.resume(peer)
        if query.kind == "wtime":
            time_ps = struct.pack("<Q", min(value, _MAX_CLOCK_PS))
            requests.replies.append((peer, ReplyFrame(Reply.TIME, (time_ps,), len(time_ps))))
        elif query.kind == "store":
            requests.replies.append((peer, self._storage.serve(query)))
        elif query.kind == "failures":
            requests.replies.append((peer, self._faults.answer(query, value)))
        elif value is None:
            requests.replies.append((peer, ReplyFrame(Reply.EMPTY, (), 0)))
        elif query.kind == "probe" and value == FAILED:
            requests.replies.append((peer, self._faults.end_probe(query)))
        elif query.kind == "probe":
            message = self._messages.probed(value)
            size = len(message.payload)
            body = COMPLETION.pack(0, message.source, message.tag, size, 0, 0, 0, 0, 0)
            requests.replies.append((peer, ReplyFrame(Reply.DONE, (body,), len(body), 1)))
        else:
            requests.complete(peer, [peer.requests[number] for number in value])
