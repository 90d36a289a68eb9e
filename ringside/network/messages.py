"""Point to point: sends and receives are checked, recorded, and matched in mailboxes.

isend, irecv    a side is posted: into its receiver's mailbox, one a communicator
_conclude       both sides are there: the receive learns its message, both are ready
candidates      what a wildcard or a probe could take; the engine chooses among them
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator, Mapping, Sequence

from ringside.errors import LimitError
from ringside.network.bounds import MOST_LOOKED_AT, Ledger
from ringside.network.communicator import Communicator
from ringside.network.deaths import Deaths
from ringside.network.matching import Mailbox, Pending, Posted, Sent
from ringside.network.mismatches import Notes, misfit, sentence
from ringside.network.peers import Peer
from ringside.network.requests import Requests
from ringside.network.wire import (
    ANY_SOURCE,
    OBJECT,
    TRUNCATED,
    Frame,
    counted_of_object,
    shown_tag,
)
from ringside.timing.queries import Query
from ringside.trace import Kind, Mode, make_op
from ringside.units import ordinal

# Plain numbers: an enumeration costs time at every comparison.
_SYNC, _BUFFERED, _READY = int(Mode.SYNC), int(Mode.BUFFERED), int(Mode.READY)
_SEND_KIND, _RECEIVE_KIND = int(Kind.ISEND), int(Kind.IRECV)


class Messages:
    """All messages of a run that are not received yet, and the receives that wait for one.

    Args:
        flips: by rank and by the number of a message among its own, the bit that is flipped.
    """

    def __init__(
        self,
        peers: Sequence[Peer],
        requests: Requests,
        ledger: Ledger,
        eager_threshold: int,
        notes: Notes,
        deaths: Deaths,
        flips: Mapping[tuple[int, int], int],
    ) -> None:
        self._flips = flips
        self._peers = peers
        self._deaths = deaths
        self._ledger, self._limits = ledger, ledger.limits
        self._world_size = len(peers)
        self._requests = requests
        self._eager_threshold = eager_threshold
        self._notes = notes
        self._mailboxes: dict[tuple[int, int], Mailbox] = {}
        self._wildcards: dict[tuple[int, int], tuple[int, Posted]] = {}
        self._by_number: dict[int, tuple[Mailbox, Sent]] = {}

    def isend(self, peer: Peer, comm: Communicator, frame: Frame) -> Pending:
        _, flags, site, _, to, tag, number, claimed, body = frame
        mode, kind = flags & 0xF, flags >> 4
        if not 0 <= to < len(comm.members):
            raise LimitError(
                peer.rank, f"sent to rank {to} of a communicator of {len(comm.members)}"
            )
        if mode > _READY:
            raise LimitError(peer.rank, f"sent in a mode that doesn't exist ({mode})")
        payload = bytes(body)
        counted = len(payload)
        if kind == OBJECT:
            counted = counted_of_object(counted, claimed)
        dest = comm.members[to]
        # Numbered by sender, not by arrival, which differs from run to run.
        message = peer.sent * self._world_size + peer.rank
        peer.sent += 1
        if self._flips:
            payload = self._flipped(peer, payload)
        request = self._requests.open(peer, number)
        eager = mode == _BUFFERED or (mode != _SYNC and counted < self._eager_threshold)
        request.ready = eager
        peer.ops.append(
            make_op((_SEND_KIND, dest, tag, counted, comm.path, number, message, (mode,), site))
        )
        if self._deaths.loses(peer.rank, request.op):
            return request
        self._ledger.hold(peer.rank, len(payload))
        source = comm.rank_of[peer.rank]
        sent = Sent(message, source, peer.rank, tag, payload, counted, request, eager, kind)
        box = self._mailbox(comm.number, dest)
        self._by_number[message] = (box, sent)  # before the match, which takes it out again
        if receive := box.send(sent):
            self._conclude(sent, receive)
        if len(self._by_number) > self._limits.unreceived:
            raise LimitError(
                peer.rank,
                f"more than {self._limits.unreceived:,} messages wait to be received. Receive "
                "what is sent before more is sent.",
            )
        return request

    def _flipped(self, peer: Peer, payload: bytes) -> bytes:
        """What arrives of the message that a rank sends now."""
        bit = self._flips.get((peer.rank, peer.sent), -1)
        if not 0 <= bit < 8 * len(payload):
            return payload
        changed = bytearray(payload)
        changed[bit // 8] ^= 1 << bit % 8
        told = (
            f"Bit {bit} of the {ordinal(peer.sent)} message that rank {peer.rank} sent was flipped."
        )
        self._notes[f"flip {peer.rank} {peer.sent}"] = (peer.rank, len(peer.ops)), told
        return bytes(changed)

    def irecv(self, peer: Peer, comm: Communicator, frame: Frame) -> Pending:
        _, flags, site, _, source, tag, number, capacity, _ = frame
        self.check_source(peer, comm, source)
        request = self._requests.open(peer, number)
        world_source = comm.members[source] if source != ANY_SOURCE else -1
        detail = (world_source, tag)
        peer.ops.append(make_op(
            (_RECEIVE_KIND, world_source, tag, 0, comm.path, number, -1, detail, site)
        ))  # fmt: skip
        posted = Posted(source, tag, capacity, request, flags >> 4)
        if source == ANY_SOURCE:
            self._wildcards[peer.rank, request.op] = (comm.number, posted)
        if message := self._mailbox(comm.number, peer.rank).receive(posted):
            self._conclude(message, posted)
        return request

    def exchange(self, peer: Peer, comm: Communicator, frame: Frame) -> None:
        send, receive = frame.halves()
        requests = self.isend(peer, comm, send), self.irecv(peer, comm, receive)
        numbers = send.request, receive.request
        self._requests.wait_for(peer, frame.site, numbers, requests)

    def check_source(self, peer: Peer, comm: Communicator, source: int) -> None:
        if source != ANY_SOURCE and not 0 <= source < len(comm.members):
            raise LimitError(
                peer.rank, f"receives from rank {source} of a communicator of {len(comm.members)}"
            )

    def _mailbox(self, comm: int, rank: int) -> Mailbox:
        box = self._mailboxes.get((comm, rank))
        if box is None:
            box = self._mailboxes[comm, rank] = Mailbox()
        return box

    def _conclude(self, message: Sent, receive: Posted) -> None:
        """A message has met its receive."""
        request = receive.request
        op = self._peers[request.rank].ops[request.op]
        self._requests.learn(request, make_op((
            _RECEIVE_KIND, message.world_source, message.tag, message.counted, op.comm, op.request,
            message.number, op.detail, op.site,
        )))  # fmt: skip
        payload = message.payload
        self._by_number.pop(message.number, None)
        if message.kind != receive.kind or len(payload) < receive.capacity:
            self._note(message, receive)
        request.source, request.tag, request.nbytes = message.source, message.tag, len(payload)
        if 0 <= receive.capacity < len(payload):
            request.error, request.overflow = TRUNCATED, True
            payload = payload[: receive.capacity]
        request.payload = payload
        self._ledger.release(len(message.payload) - len(payload))  # the rest waits with its request
        message.payload = b""
        self._requests.is_ready(request)
        if not message.request.ready:
            self._requests.is_ready(message.request)

    def _note(self, message: Sent, receive: Posted) -> None:
        """Keep one message that doesn't fit its buffer, of each way not to fit it.

        It is the lowest rank's first one: real arrival differs from run to run.
        """
        first = receive.request.rank, receive.request.op
        what = misfit(message, receive, self._peers[first[0]].sites)
        if what and (what not in self._notes or first < self._notes[what][0]):
            sites = self._requests.site_of(message.request), self._requests.site_of(receive.request)
            self._notes[what] = first, sentence(what, message, receive, *sites)

    def candidates(self, query: Query) -> list[int]:
        """The messages that a probe or a posted wildcard could take."""
        if query.kind == "wildcard":
            comm, posted = self._wildcards[query.rank, query.op]
            return [m.number for m in self._mailboxes[comm, query.rank].candidates(posted)]
        comm, source, tag = query.probe
        box = self._mailbox(comm, query.rank)
        return [m.number for m in box.visible(source, tag)]

    def choose(self, query: Query, number: int) -> None:
        """The engine has chosen the message of a wildcard."""
        _, posted = self._wildcards.pop((query.rank, query.op))
        box, message = self._by_number[number]
        for match in box.choose(posted, message):
            self._conclude(*match)

    def probed(self, number: int) -> Sent:
        """The message that a probe has found."""
        return self._by_number[number][1]

    def give_up(self, query: Query) -> Pending:
        """A receive from anybody ends without a message; those behind it may get theirs."""
        comm, posted = self._wildcards.pop((query.rank, query.op))
        for match in self._mailboxes[comm, query.rank].give_up(posted):
            self._conclude(*match)
        return posted.request

    def comm_of(self, query: Query) -> int:
        """The communicator of a receive from anybody, or of a probe, by number."""
        if query.kind == "wildcard":
            return self._wildcards[query.rank, query.op][0]
        return query.probe[0]

    def left_behind(
        self, comm: Communicator, dead: Container[int]
    ) -> Iterator[tuple[Pending, int]]:
        """The sends to dead ranks and the receives from them, taken out; each with the rank."""
        for rank in comm.members:
            box = self._mailboxes.get((comm.number, rank))
            if box is None:
                continue
            if rank in dead:
                yield from ((request, rank) for request in self._dropped(box))
                continue
            for member, source in enumerate(comm.members):
                if source in dead:
                    yield from ((posted.request, source) for posted in box.orphans(member))

    def withdrawn(self, comm: Communicator, rank: int, source: int) -> list[Pending]:
        """The receives of a rank from another one that find no message, taken out."""
        box = self._mailboxes.get((comm.number, rank))
        return [] if box is None else [p.request for p in box.orphans(comm.rank_of[source])]

    def abandoned(self, comm: Communicator) -> Iterator[Pending]:
        """All sends, and all receives that name their source, taken out."""
        for rank in comm.members:
            box = self._mailboxes.get((comm.number, rank))
            if box is not None:
                yield from self._dropped(box)
                for member in range(len(comm.members)):
                    yield from (posted.request for posted in box.orphans(member))

    def _dropped(self, box: Mailbox) -> list[Pending]:
        """The open requests of a mailbox's messages, which nobody will receive."""
        messages = box.drop_messages()
        for message in messages:
            del self._by_number[message.number]
            self._ledger.release(len(message.payload))
        return [message.request for message in messages if not message.request.ready]

    @property
    def wait_for_the_clock(self) -> bool:
        """Whether a receive from anybody is posted that the engine must decide."""
        return bool(self._wildcards)

    def unreceived(self) -> list[str]:
        """The messages that nobody has received, in words."""
        return [
            f"rank {sent.world_source} sent {sent.counted} bytes with {shown_tag(sent.tag)} "
            f"to rank {dest}"
            for (_, dest), box in sorted(self._mailboxes.items(), key=lambda item: item[0])
            if dest not in self._deaths.dead
            for sent in sorted(box.waiting(), key=_by_number)
        ]

    def unexpected(self, rank: int) -> list[tuple[Sent, int]]:
        """Messages that wait for a rank unreceived, each with its communicator's number.

        Of very many, those that were sent first.
        """
        waiting = (
            (message, number)
            for (number, owner), box in self._mailboxes.items()
            if owner == rank
            for message in box.waiting()
        )
        return heapq.nsmallest(MOST_LOOKED_AT, waiting, key=lambda pair: _by_number(pair[0]))


def _by_number(message: Sent) -> int:
    return message.number
