"""Who is where: in which call each rank is, and for whom it waits."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ringside.errors import BlockedCall
from ringside.network.bounds import MOST_LOOKED_AT
from ringside.network.collectives import Collectives
from ringside.network.faults import Faults
from ringside.network.matching import Pending, Sent
from ringside.network.messages import Messages
from ringside.network.peers import Peer
from ringside.network.windows import Windows

HANGS = "(hangs)"  # the call of a rank that does


class Standing:
    """Where the ranks of a run stand, for messages to the reader and for the verdict."""

    def __init__(
        self,
        peers: Sequence[Peer],
        messages: Messages,
        collectives: Collectives,
        windows: Windows,
        faults: Faults,
        front_end: str,
    ) -> None:
        self.peers = peers
        self.front_end = front_end
        self.collectives = collectives
        self.windows = windows
        self.faults = faults
        self._messages = messages

    def of_one(self, peer: Peer) -> tuple[str, str]:
        """The call a rank is in, or was in last, and its place."""
        if 0 <= peer.site < len(peer.sites):
            site = peer.sites[peer.site]
            return site.call, site.where
        return "", ""

    def of_all(self, lines_of_rank: dict[int, str]) -> tuple[str, ...]:
        """Where each rank is; ``lines_of_rank`` has those of ranks that compute."""
        lines = []
        for peer in self.peers:
            if not peer.called:
                continue
            call, line = self.of_one(peer)
            if peer.dead:
                lines.append(f"rank {peer.rank} {'hangs' if peer.hangs else 'was killed'}")
            elif peer.running:
                at = f" at {lines_of_rank[peer.rank]}," if peer.rank in lines_of_rank else ""
                after = f" after {call} at {line}" if call else " before its first call"
                lines.append(f"rank {peer.rank} is computing{at}{after}{_flood(peer)}")
            elif peer.failure is not None:
                lines.append(f"rank {peer.rank} raised {peer.failure.type_name}")
            elif peer.body is None:
                lines.append(f"rank {peer.rank} is blocked in {call} at {line}")
            else:
                lines.append(f"rank {peer.rank} has returned")
        return tuple(lines)

    def blocked_calls(self) -> tuple[BlockedCall, ...]:
        """Every called rank's state at a deadlock, for the verdict."""
        entries = []
        for peer in self.peers:
            if not peer.called or (peer.dead and not peer.hangs):
                continue
            if peer.hangs:
                entries.append(BlockedCall(peer.rank, HANGS, ""))
                continue
            if peer.body is not None:
                entries.append(BlockedCall(peer.rank, "(has returned)", ""))
                continue
            call, line = self.of_one(peer)
            entries.append(BlockedCall(peer.rank, call, line, self.waits_for(peer)))
        return tuple(entries)

    def open_requests(self, peer: Peer) -> tuple[Pending, ...]:
        """The requests that keep a rank where it is; of very many, the first."""
        requests = peer.waiting
        if not requests and peer.query is not None:
            requests = tuple(peer.requests[n] for n in peer.query.requests)
        return tuple(itertools.islice((r for r in requests if not r.ready), MOST_LOOKED_AT))

    def waits_for(self, peer: Peer) -> tuple[int, ...]:
        """The ranks that a blocked rank waits for."""
        ranks: list[int] = []
        for request in self.open_requests(peer):
            op = peer.ops[request.op]
            if request.gathering is not None:
                ranks += request.gathering.missing()
            elif op.peer >= 0:
                ranks.append(op.peer)
        if peer.query is not None and peer.query.kind == "probe" and peer.query.probe[1] >= 0:
            comm, source, _ = peer.query.probe
            ranks.append(self.collectives.comms[comm].members[source])
        if peer.query is not None and peer.query.kind == "lock":
            ranks += [rank for rank, _ in self.windows.holders(peer.query)]
        return tuple(dict.fromkeys(ranks))

    def unexpected(self, rank: int) -> list[tuple[Sent, str]]:
        """Messages that wait for a rank unreceived, each with its communicator's path."""
        comms = self.collectives.comms
        return [(message, comms[comm].path) for message, comm in self._messages.unexpected(rank)]


def _flood(peer: Peer) -> str:
    """What is said of a rank that prints more than anybody reads."""
    printed_mb = (len(peer.text) + peer.dropped) // 1_000_000
    return f", and has printed more than {printed_mb} MB" if printed_mb else ""
