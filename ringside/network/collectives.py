"""Collectives, and the communicators on which they take place.

join        a member comes; its contribution is kept in the gathering of its call
broken      of a collective without a result, since a member is dead: who waits in it
_conclude   the last member has come: reduce, record, hand out
new_comm    some collectives make communicators: Dup, Split, Create
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

from ringside.errors import LimitError
from ringside.network import codec
from ringside.network.bounds import MOST_LOOKED_AT, Ledger
from ringside.network.communicator import Communicator
from ringside.network.deaths import Deaths
from ringside.network.gathering import (
    AMONG_SURVIVORS,
    MAKES_COMM,
    TIMED_AS,
    BadSpec,
    Gathering,
    dtype_and_count,
    group_of,
)
from ringside.network.matching import Pending
from ringside.network.mismatches import Notes, unlike
from ringside.network.peers import Peer
from ringside.network.recording import CollectiveRecord
from ringside.network.requests import Fault, Requests
from ringside.network.wire import PROC_FAILED, Frame
from ringside.timing.flight_recorder import Joined
from ringside.timing.rounds import num_messages
from ringside.trace import Kind
from ringside.trace import Op as TraceOp
from ringside.units import format_bytes

_MAX_PATH = 240  # characters of a communicator's path


class Collectives:
    """The communicators of a run, and the collectives on them.

    Args:
        first_comm: the number of the next communicator made.
    """

    def __init__(
        self,
        peers: Sequence[Peer],
        requests: Requests,
        ledger: Ledger,
        notes: Notes,
        first_comm: int,
        deaths: Deaths,
    ) -> None:
        self._deaths = deaths
        self._peers = peers
        self._requests = requests
        self._ledger, self._limits = ledger, ledger.limits
        self._notes = notes
        self.next_comm = first_comm
        self.comms = {0: Communicator(0, "world", tuple(range(len(peers))))}
        self.records: list[CollectiveRecord] = []
        self.comm_calls: list[str] = []
        self.joined: list[Joined] = []  # for the flight recorder
        # Number of a group that all ranks must make alike -> its members as each has named them.
        self._groups: dict[int, dict[tuple[int, ...], Pending]] = {}

    def comm_of(self, peer: Peer, number: int) -> Communicator:
        """The communicator that a frame names."""
        comm = self.comms.get(number)
        if comm is None or peer.rank not in comm.rank_of:
            raise LimitError(peer.rank, "used a communicator that it is no member of")
        return comm

    def join(self, peer: Peer, comm: Communicator, frame: Frame) -> None:
        # Held as what it has become: small things are larger than on their way, and arrays alike.
        most = self._limits.decoded_bytes + len(frame.body)
        try:
            (name, spec, *description), nbytes = codec.decode_within(frame.body, most)
            if name == "win" and not self._limits.windows:
                raise LimitError(
                    peer.rank,
                    "makes a window, and modules that are checked exchange messages: use Send and "
                    "Recv. Programs of your own may use Win",
                )
        except codec.TooLargeError:
            raise LimitError(
                peer.rank,
                f"gives a collective objects of more than {format_bytes(most)} of memory. An array "
                "takes less than a list of as many numbers.",
            ) from None
        request = self._requests.open(peer, frame.request)
        peer.ops.append(
            TraceOp(Kind.COLLECTIVE, comm=comm.path, request=frame.request, site=frame.site)
        )
        me = comm.rank_of[peer.rank]
        members = comm.members
        if name == "create_group":
            group = group_of(spec, len(members), me)
            members = tuple(comm.members[m] for m in group)
            key: Any = (group, comm.sequence.get((me, group), 0))  # a count for each group
            comm.sequence[me, group] = key[1] + 1
            me = group.index(me)
            if len(spec) == 3 and len(members) > 1:  # a rank alone has nobody to miss
                named = self._groups.setdefault(spec[2], {})
                first = named.setdefault(members, request)
                named[members] = min(first, request, key=lambda item: item.rank)
        elif name in AMONG_SURVIVORS:  # who comes from a broken collective has counted others
            key = name, comm.sequence.get((me, name), 0)
            comm.sequence[me, name] = key[1] + 1
        else:
            key = comm.sequence.get(me, 0)
            comm.sequence[me] = key + 1
        # Members meet by the count of their calls on the communicator, as MPI orders collectives.
        gathering = comm.gatherings.get(key)
        if gathering is None:
            sequence = key if isinstance(key, int) else key[1]
            gathering = Gathering(name, sequence, len(members), comm.path, members)
            comm.gatherings[key] = gathering
        self._ledger.hold(peer.rank, nbytes)
        gathering.held_bytes += nbytes
        gathering.join(me, name, spec, request, *description)
        request.gathering = gathering
        gathering.kinds[me] = frame.kind
        gathering.begins[me] = bool(frame.flags & 1)
        if isinstance(key, int):
            dtype, count = dtype_and_count(name, spec, gathering.alike[me], frame.kind)
            shown = gathering.shown_by[me].partition(" ")[0]
            joined = Joined(peer.rank, request.op, comm.path, key, shown, dtype, count)
            self.joined.append(joined)
        if gathering.complete:
            del comm.gatherings[key]
            if name in AMONG_SURVIVORS:
                self._conclude_among_survivors(comm, gathering)
            else:
                self._conclude(peer, comm, members, gathering)

    def _conclude(
        self, peer: Peer, comm: Communicator, members: tuple[int, ...], gathering: Gathering
    ) -> None:
        """Every member has come: reduce, time and hand out."""
        name = gathering.name
        if len({kind for kind in gathering.kinds.values() if kind}) > 1:
            sites = {
                i: self._requests.site_of(request) for i, request in gathering.requests.items()
            }
            first = members[0], gathering.requests[0].op
            if "kind" not in self._notes or first < self._notes["kind"][0]:
                self._notes["kind"] = first, unlike(members, gathering.kinds, sites)
        sizes = gathering.sizes()
        if name in MAKES_COMM:
            self.comm_calls += [name] * len(members)
            values = self._communicators(comm, members, gathering)
        else:
            total = sum(sizes)
            record = CollectiveRecord(
                name, comm.path, members, total, gathering.by_members, gathering.shown_by[0]
            )
            self.records.append(record)
            values = gathering.values()
            comm.sizes = () if name == "win_free" else comm.sizes
        timed_as = TIMED_AS.get(name, name)
        self._ledger.record(peer.rank, num_messages(timed_as, len(members)) + len(sizes))
        # A group's making has a count of its own, kept apart from the communicator's.
        sequence = -1 - gathering.sequence if name == "create_group" else gathering.sequence
        detail = (timed_as, sequence, gathering.root, members, sizes)
        # Members that get the same object share one encoding, whose bytes are held once.
        encoded: dict[int, bytes] = {}
        held: dict[int, list[int]] = {}
        fault = self._fault_of(self._dying(gathering))
        for member, value in enumerate(values):
            request = gathering.requests[member]
            op = self._peers[request.rank].ops[request.op]._replace(nbytes=max(sizes))
            if fault and not self._deaths.spares(comm.path, gathering.sequence, member):
                self._requests.learn(request, op._replace(detail=(*detail, fault.known_ps)))
                self._requests.end_with(request, fault)
                continue
            data = encoded.get(id(value))
            if data is None:
                data = encoded[id(value)] = codec.encode(value)
                held[id(value)] = [0, len(data)]
                self._ledger.hold(peer.rank, len(data))
            request.payload, request.held = data, held[id(value)]
            request.held[0] += 1
            request.gathering = None
            self._requests.learn(request, op._replace(detail=detail))
        self._ledger.release(gathering.held_bytes)
        # Only now: before the first member goes on, the trace holds the operation of every one.
        for member in range(len(members)):
            self._requests.is_ready(gathering.requests[member])

    # -- with dead members -----------------------------------------------------------------------

    def broken(self, comm: Communicator) -> Iterator[tuple[Pending, list[int]]]:
        """Who waits in a collective that a dead rank has left or won't come to, and for whom.

        An agreement that only dead ranks miss comes to its end here.
        """
        dead = self._deaths.dead
        for key, gathering in list(comm.gatherings.items()):
            missing = gathering.missing()
            gone = [rank for rank in gathering.members if rank in dead]
            lost = [r for r in gone if r in missing or r in self._dying(gathering)]
            if not lost:
                continue
            if gathering.name not in AMONG_SURVIVORS:
                yield from ((request, lost) for request in self.given_up(gathering))
            elif all(rank in dead for rank in missing):
                del comm.gatherings[key]
                self._conclude_among_survivors(comm, gathering)

    def given_up(self, gathering: Gathering) -> list[Pending]:
        """A collective gets no result; the requests that still wait for it."""
        gathering.failed = True
        self._ledger.release(gathering.held_bytes)
        gathering.held_bytes = 0
        gathering.specs = dict.fromkeys(gathering.specs, ())
        return [request for request in gathering.requests.values() if not request.ready]

    def _dying(self, gathering: Gathering) -> list[int]:
        """The members that have come, and die before it ends."""
        requests = gathering.requests.values() if self._deaths.foreseen else ()
        return [r.rank for r in requests if self._deaths.breaks(r.rank, r.op)]

    def _fault_of(self, ranks: list[int]) -> Fault | None:
        if not ranks:
            return None
        return Fault(PROC_FAILED, self._deaths.told(ranks), self._deaths.known_ps(ranks))

    def _conclude_among_survivors(self, comm: Communicator, gathering: Gathering) -> None:
        """All that are alive have come to Agree or Shrink: they all get the same."""
        name, dying = gathering.name, self._dying(gathering)
        requests = [gathering.requests[member] for member in sorted(gathering.requests)]
        alive = [request for request in requests if request.rank not in dying]
        ranks = tuple(request.rank for request in alive)
        if not ranks:
            return
        gone = [rank for rank in comm.members if rank not in ranks]
        sizes: tuple[int, ...] = (8,)
        fault = None
        if name == "agree":
            flags = [spec[0] for spec in gathering.specs.values()]
            values: list[Any] = [functools.reduce(operator.and_, flags)] * len(alive)
            acked = [self._deaths.acked.get((comm.number, rank), frozenset()) for rank in ranks]
            fault = self._fault_of([r for r in gone if not all(r in known for known in acked)])
            self.records.append(CollectiveRecord(name, comm.path, ranks, 8, shown="Agree"))
        else:
            sizes *= len(ranks)
            self.comm_calls += [name] * len(ranks)
            new = self.new_comm(f"{comm.path}/{name}{gathering.sequence}", ranks)
            values = [("comm", new.number, ranks, member) for member in range(len(ranks))]
        self._ledger.record(ranks[0], num_messages(TIMED_AS[name], len(ranks)) + len(sizes))
        # With a count of its own, as a group's making has, kept apart from that of the other.
        sequence = -2 - 2 * gathering.sequence - (name == "agree")
        detail: tuple[Any, ...] = (TIMED_AS[name], sequence, 0, ranks, sizes)
        if gone:
            detail = (*detail, self._deaths.known_ps(gone))
        for request, value in zip(alive, values, strict=True):
            op = self._peers[request.rank].ops[request.op]
            self._requests.learn(request, op._replace(nbytes=8, detail=detail))
            request.gathering = None
            if fault:
                self._requests.end_with(request, fault)
                continue
            request.payload = codec.encode(value)
            self._ledger.hold(request.rank, len(request.payload))
        self._ledger.release(gathering.held_bytes)
        for request in alive:
            self._requests.is_ready(request)

    def _communicators(
        self, comm: Communicator, members: tuple[int, ...], gathering: Gathering
    ) -> list[Any]:
        """The new communicators of a dup, split or create; None for members left out."""
        prefix = f"{comm.path}/{gathering.sequence}"
        groups: list[tuple[str, tuple[int, ...]]] = []
        if gathering.name in ("dup", "win"):
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
            new = self.new_comm(path, ranks)
            for member, rank in enumerate(ranks):
                values[members.index(rank)] = ("comm", new.number, ranks, member)
        if gathering.name == "win":
            sizes, units = zip(
                *(gathering.specs[member] for member in range(len(members))), strict=True
            )
            new.sizes = sizes
            values = [(value, sizes, units) for value in values]
        return values

    def own_groups(self) -> str:
        """A sentence on ranks that made one group of a number each; empty if there are none."""
        for _, named in sorted(self._groups.items()):
            if len(named) > 1:
                claims = sorted((request.rank, members) for members, request in named.items())
                ones, others = (
                    f"rank {rank} makes the group {list(members)} "
                    f"at {self._requests.site_of(named[members]).where}"
                    for rank, members in claims[:2]
                )
                return (
                    f"new_group is a call for all ranks: {ones} where {others}. Let each rank "
                    "make every group, also those that it is no member of, in the same order."
                )
        return ""

    def new_comm(self, path: str, members: tuple[int, ...]) -> Communicator:
        """Make a communicator of these world ranks."""
        if len(self.comms) > self._limits.communicators:
            raise LimitError(
                members[0], f"made more than {self._limits.communicators} communicators"
            )
        self._ledger.join(members[0], len(members))
        if len(path) > _MAX_PATH:  # copies of copies; the order of the calls gives the same again
            path = f"...{hashlib.sha256(path.encode()).hexdigest()[:32]}"
        comm = Communicator(self.next_comm, path, members)
        self.comms[self.next_comm] = comm
        self.next_comm += 1
        return comm

    def groups(self) -> dict[str, tuple[int, ...]]:
        """The path of each communicator, and its ranks."""
        return {comm.path: comm.members for comm in self.comms.values()}

    def open_gatherings(self) -> list[Gathering]:
        """Collectives that some members haven't come to; of very many, the first."""
        gatherings = (
            g for comm in self.comms.values() for g in comm.gatherings.values() if not g.failed
        )
        return list(itertools.islice(gatherings, MOST_LOOKED_AT))
