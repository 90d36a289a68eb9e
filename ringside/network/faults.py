"""Failures as the survivors meet them: by ULFM's names, and in virtual time.

kill        a rank dies instead of its next operation, or hangs
strike      nobody can move: requests that only a dead rank could end get ERR_PROC_FAILED
ends        a receive from anybody, or a probe, that a death or a revocation ends
interrupt   nobody can move, and no death is the reason: on revoked communicators requests end
time_out    nobody can move, since ranks hang: the wait whose time is up first ends
ask         what a rank asks or tells about failures; the engine says when it does

A request that can be complete is completed: who dies, or revokes, ends only what would wait for
ever. So neither the order in which frames come nor what a rank computes meanwhile decides which
requests fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ringside.errors import LimitError, RankError
from ringside.network import codec
from ringside.network.collectives import Collectives
from ringside.network.communicator import Communicator
from ringside.network.deaths import Death, Deaths
from ringside.network.gathering import AMONG_SURVIVORS
from ringside.network.messages import Messages
from ringside.network.peers import Peer
from ringside.network.requests import Fault, Requests, fault_op
from ringside.network.wire import (
    COMPLETION,
    PROC_FAILED,
    REVOKED,
    TIMED_OUT,
    About,
    Frame,
    Op,
    Reply,
    ReplyFrame,
)
from ringside.timing.ports import PS
from ringside.timing.queries import Query
from ringside.trace import Kind
from ringside.trace import Op as TraceOp

_TIMED_OUT = "Timed out waiting"  # how torch's error begins
_MOST_REFUSED = 100  # calls of a rank on one revoked communicator


class Faults:
    """Deaths and revoked communicators of a run, and what follows from them.

    Args:
        alpha_ps: how long the news of a revocation takes.
    """

    def __init__(
        self,
        peers: Sequence[Peer],
        deaths: Deaths,
        requests: Requests,
        messages: Messages,
        collectives: Collectives,
        alpha_ps: int,
    ) -> None:
        self._peers = peers
        self._deaths = deaths
        self._requests = requests
        self._messages = messages
        self._collectives = collectives
        self._alpha_ps = alpha_ps
        self.revoked: dict[int, Fault] = {}  # by communicator; known to others at ``known_ps``
        self.foreseen = deaths.foreseen
        self._knows: set[tuple[int, int]] = set()  # communicator, rank: calls on it fail at once
        self._refused: Counter[tuple[int, int]] = Counter()
        # By a communicator's path and a rank, the milliseconds that it waits there.
        self._most_ms: dict[tuple[str, int], int] = {}

    # -- dying -----------------------------------------------------------------------------------

    def kills(self, peer: Peer) -> bool:
        """Let a rank die, or hang, if its time has come.

        Raises:
            LimitError: somebody could access its window afterwards.
        """
        if not self._deaths.due(peer.rank, len(peer.ops)):
            return False
        if any(comm.sizes for comm in self._collectives.comms.values()):
            raise LimitError(peer.rank, "can't be killed while there are windows: use messages")
        death = self._deaths.happen(peer.rank)
        kind = Kind.HANG if death.hangs else Kind.DEATH
        peer.ops.append(TraceOp(kind, detail=(death.time_ps,), site=peer.site))
        peer.dead, peer.hangs = True, death.hangs
        self._requests.stop(peer)
        self._requests.replies.append((peer, ReplyFrame(Reply.DIE, (), 0)))
        if self._requests.engine is not None:
            self._requests.engine.news()
        return True

    def kills_inside(self, peer: Peer, comm: Communicator, frame: Frame) -> bool:
        """Let a rank die in an exchange: between its send, its receive and its wait."""
        if not self._deaths.due(peer.rank, len(peer.ops) + 2):
            return False
        send, receive = frame.halves()
        self._messages.isend(peer, comm, send)
        if not self.kills(peer):
            self._messages.irecv(peer, comm, receive)
            self.kills(peer)
        return True

    def told(self) -> str:
        """The deaths so far as the beginning of a sentence; empty if there are none."""
        if not self._deaths.dead:
            return ""
        text = self._deaths.told(sorted(self._deaths.dead))
        return text[0].upper() + text[1:]

    def hanging(self) -> list[Death]:
        """The ranks that hang by now."""
        return self._deaths.hanging()

    def with_cure(self, error: RankError) -> RankError:
        """An error that ended a rank, with what to do if it is another one's death."""
        if self._deaths.hung and _TIMED_OUT in error.message:
            told = ", ".join(hang.told for hang in self._deaths.hanging())
            cure = f"{told[0].upper()}{told[1:]}."
            for comm in self._collectives.comms.values():
                for gathering in comm.gatherings.values():
                    absent = sorted(self._deaths.hung & {*gathering.missing()})
                    if error.rank in gathering.members and absent:
                        cure += f" It never came to {gathering.told}."
            return RankError(error.rank, error.type_name, error.message, error.frames, cure)
        deaths = self._deaths.happened() if error.type_name == "Exception" else []  # MPI's
        if not any(death.told in error.message for death in deaths):
            return error
        cure = (
            "To go on without a dead rank, catch MPI.Exception, and let all survivors call "
            "comm.Revoke() and comm.Shrink()."
        )
        return RankError(error.rank, error.type_name, error.message, error.frames, cure)

    # -- what survivors see ----------------------------------------------------------------------

    def strike(self) -> bool:
        """End what only dead ranks could complete; returns whether there was any."""
        if not self._deaths.dead:
            return False
        before, num_ended = self._requests.num_running, 0
        for comm in list(self._collectives.comms.values()):
            if self._deaths.dead.isdisjoint(comm.members):
                continue
            ended = [(request, [rank]) for request, rank in self._messages.left_behind(
                comm, self._deaths.dead
            )]  # fmt: skip
            ended += self._collectives.broken(comm)
            for request, ranks in ended:
                known_ps = self._deaths.known_ps(ranks)
                self._requests.fail(request, Fault(PROC_FAILED, self._deaths.told(ranks), known_ps))
            num_ended += len(ended)
        return num_ended > 0 or self._requests.num_running > before

    def interrupt(self) -> bool:
        """End what waits on revoked communicators; returns whether there was any."""
        num_ended = 0
        for number, fault in self.revoked.items():
            comm = self._collectives.comms[number]
            ended = list(self._messages.abandoned(comm))
            for gathering in comm.gatherings.values():
                if gathering.name not in AMONG_SURVIVORS and not gathering.failed:
                    ended += self._collectives.given_up(gathering)
            for request in ended:
                self._knows.add((number, request.rank))
                self._requests.fail(request, fault)
            num_ended += len(ended)
        return num_ended > 0

    @property
    def time_runs(self) -> bool:
        """Whether waits may end because ranks hang."""
        return bool(self._deaths.hung and self._most_ms)

    def time_out(self) -> bool:
        """End the wait whose time is up first, if ranks hang; returns whether there was one.

        Only when nobody can move: so a time-out never ends what would have come late.
        """
        engine = self._requests.engine
        if not self.time_runs or engine is None:
            return False
        waits = [
            (engine.posted_ps(peer.rank, request.op) + most_ms * PS // 1000, peer.rank, request)
            for peer in self._peers
            for request in peer.waiting
            if not request.ready and peer.ops[request.op].kind in (Kind.COLLECTIVE, Kind.IRECV)
            for most_ms in [self._most_ms.get((peer.ops[request.op].comm, peer.rank))]
            if most_ms is not None
        ]
        if not waits:
            return False
        until, rank, first = min(waits, key=lambda wait: (*wait[:2], wait[2].op))
        op, site = self._peers[rank].ops[first.op], self._requests.site_of(first)
        comm = next(c for c in self._collectives.comms.values() if c.path == op.comm)
        if op.kind == Kind.COLLECTIVE:
            assert first.gathering is not None, "it has not ended"
            first.gathering.failed = True
            ended = [first]
        else:
            ended = self._messages.withdrawn(comm, rank, op.detail[0])
        told = f"{_TIMED_OUT} {self._most_ms[op.comm, rank]}ms for {site.call} to complete"
        for request in ended:
            self._requests.fail(request, Fault(TIMED_OUT, told, until))
        return True

    def ends(self, query: Query) -> int:
        """When a receive from anybody, or a probe, ends with an error; -1: never."""
        fault = self._ending(query)
        return fault.known_ps if fault is not None else -1

    def _ending(self, query: Query) -> Fault | None:
        if not self._deaths.dead and not self.revoked:
            return None
        number = self._messages.comm_of(query)
        members = self._collectives.comms[number].members
        source = query.probe[1] if query.kind == "probe" else -1
        acked = self._deaths.acked.get((number, query.rank), frozenset())
        fatal = self._deaths.dead & set(members if source < 0 else [members[source]])
        faults = [
            Fault(PROC_FAILED, self._deaths.told([rank]), self._deaths.known_ps([rank]))
            for rank in sorted(fatal)
            if source >= 0 or rank not in acked
        ]
        faults += [self.revoked[number]] if number in self.revoked else []
        return min(faults, key=lambda fault: fault.known_ps, default=None)

    def end_receive(self, query: Query) -> None:
        """A receive from anybody has come to its end."""
        fault = self._ending(query)
        assert fault is not None, "ends has said so"
        self._learn(query, fault)
        self._requests.fail(self._messages.give_up(query), fault)

    def end_probe(self, query: Query) -> ReplyFrame:
        """The answer to a probe that has come to its end."""
        fault = self._ending(query)
        assert fault is not None, "ends has said so"
        self._learn(query, fault)
        return _error(fault)

    def _learn(self, query: Query, fault: Fault) -> None:
        if fault.code == REVOKED:
            self._knows.add((self._messages.comm_of(query), query.rank))

    # -- revoked communicators -------------------------------------------------------------------

    def refuses(self, peer: Peer, comm: Communicator, frame: Frame) -> bool:
        """Let a message's call fail at once on a communicator that its rank knows to be revoked."""
        if (comm.number, peer.rank) not in self._knows:
            return False
        fault = self._refusal(peer, comm)
        if frame.op == Op.PROBE:
            self._requests.replies.append((peer, _error(fault)))
            return True
        numbers = (
            (frame.request, frame.request + 1) if frame.op == Op.EXCHANGE else (frame.request,)
        )
        requests = []
        for number in numbers:
            request = self._requests.open(peer, number)
            peer.ops.append(fault_op(comm.path, number, fault._replace(known_ps=0), frame.site))
            self._requests.end_with(request, fault)
            request.ready = True
            requests.append(request)
        if frame.op == Op.EXCHANGE:
            self._requests.wait_for(peer, frame.site, numbers, tuple(requests))
        return True

    def joined(self, peer: Peer, comm: Communicator, frame: Frame) -> None:
        """A rank has joined a collective, on a communicator that it may know to be revoked."""
        request = peer.requests.get(frame.request)
        if (comm.number, peer.rank) not in self._knows or request is None or request.ready:
            return
        gathering = request.gathering
        if gathering is not None and gathering.name not in AMONG_SURVIVORS:
            gathering.failed = True
            self._requests.fail(request, self._refusal(peer, comm)._replace(known_ps=0))

    def _refusal(self, peer: Peer, comm: Communicator) -> Fault:
        """What a rank gets that calls on, on a communicator that it knows to be revoked.

        Raises:
            LimitError: it does so for ever.
        """
        here = comm.number, peer.rank
        self._refused[here] += 1
        if self._refused[here] > _MOST_REFUSED:
            raise LimitError(
                peer.rank,
                f"has made {_MOST_REFUSED} calls on a communicator that it knows to be revoked. "
                "Shrink returns another one: use that.",
            )
        return self.revoked[comm.number]

    # -- what ranks ask --------------------------------------------------------------------------

    def ask(self, peer: Peer, comm: Communicator, frame: Frame) -> None:
        """A rank asks about failures, or revokes: the engine finds out when."""
        about = About(frame.flags)
        if about == About.TIME_OUT:
            self._most_ms[comm.path, peer.rank] = min(max(frame.extra, 0), 1 << 40)
            return
        self._requests.ask(peer, frame.site, Query(
            peer.rank, len(peer.ops), "failures", key=("failures", about, comm.number),
            failures=(comm.number, about, frame.extra),
        ))  # fmt: skip

    def answer(self, query: Query, time_ps: int) -> ReplyFrame:
        """What is known of a communicator's failures at that time."""
        number, about, most = query.failures
        known = [
            death.rank
            for death in self._deaths.happened()
            if death.rank in self._collectives.comms[number].rank_of
            and self._deaths.known_ps([death.rank]) <= time_ps
        ]
        here = number, query.rank
        value: object = tuple(known)
        if about == About.ACK_FAILED:
            acked = self._deaths.acked.get(here, frozenset())
            fresh = [rank for rank in known if rank not in acked]
            self._deaths.acked[here] = acked | set(fresh if most < 0 else fresh[:most])
            value = len(self._deaths.acked[here])
        elif about == About.IS_REVOKED:
            fault = self.revoked.get(number)
            value = fault is not None and (here in self._knows or fault.known_ps <= time_ps)
        elif about == About.REVOKE:
            if number not in self.revoked:
                peer = self._peers[query.rank]
                where = peer.sites[peer.site].where if 0 <= peer.site < len(peer.sites) else ""
                told = f"rank {query.rank} revoked the communicator{where and f' at {where}'}"
                self.revoked[number] = Fault(REVOKED, told, time_ps + self._alpha_ps)
            self._knows.add(here)
            assert self._requests.engine is not None, "it has answered"
            self._requests.engine.news()
        body = codec.encode(value)
        return ReplyFrame(Reply.KNOWN, (body,), len(body))


def _error(fault: Fault) -> ReplyFrame:
    """The answer to a probe that ends with an error."""
    told = fault.told.encode()
    head = COMPLETION.pack(0, -1, -1, 0, fault.code, 2, 0, 0, len(told))
    return ReplyFrame(Reply.DONE, (head, told), len(head) + len(told), 1)
