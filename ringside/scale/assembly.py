"""Putting the logs of all ranks together to a trace, as the network would have recorded it.

    messages      matched in order of posting per sender, receiver, communicator and tag
    collectives   matched by communicator and order; sizes of all members' parts
    sites         numbered in order of first use by rank

What doesn't fit together is an error here, as it ends a run on the network.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any

from ringside.errors import TraceError
from ringside.network.gathering import TIMED_AS
from ringside.network.ranklog import MAKES_GROUP, Collective, RankLog, check_ascending
from ringside.timing.fold import Fold
from ringside.trace import CallSite, Kind, Op, Trace

_MADE_BYTES = 8  # what a member contributes when a group is made
_COMPUTE, _ISEND, _IRECV, _WAIT = (
    int(Kind.COMPUTE),
    int(Kind.ISEND),
    int(Kind.IRECV),
    int(Kind.WAIT),
)
_SAME_SIZES = ("reduce", "allreduce", "scan", "exscan", "reduce_scatter")
MAX_OPS = 4_000_000

_Key = tuple[str, int, int, int]  # communicator, source, dest, tag


def assemble(logs: Iterable[RankLog], world_size: int, fold: Fold | None = None) -> Trace:
    """Return the trace of all ranks.

    Args:
        logs: checked logs, of rank 0, 1, 2, ...
        fold: which ranks stand for others; then logs are those of the ranks that do, in order, and
            the others have no operations. A message has the number that it has when its sender
            is one of them.

    Raises:
        TraceError: members disagree on a collective, a message isn't what its receiver expects, or
            it is too much; says which ranks, where, and both values.
    """
    builder = _Builder(world_size, fold)
    for log in logs:
        builder.add(log)
    return builder.trace()


class _Gathering:
    """A collective while its members come in."""

    __slots__ = ("first", "members", "places", "sides")

    def __init__(self, members: tuple[int, ...], first: Collective) -> None:
        self.members = members
        self.first = first
        self.sides: dict[int, Collective] = {}  # by world rank
        self.places: list[tuple[int, int]] = []  # rank and index of the operation


class _Builder:
    def __init__(self, world_size: int, fold: Fold | None) -> None:
        self.world_size = world_size
        self._fold = fold
        self._due = deque(range(world_size) if fold is None else fold.ranks)
        self.ops: list[list[Op]] = [[] for _ in range(world_size)]
        self.sites: dict[CallSite, int] = {}
        self._world = tuple(range(world_size))
        self._members: dict[str, tuple[int, ...]] = {"world": self._world}
        self._sent: dict[_Key, deque[tuple[int, int]]] = defaultdict(deque)
        self._receives: list[tuple[int, int, _Key, int]] = []
        self._gatherings: dict[Any, _Gathering] = {}
        self._num_ops = 0

    # -- one rank --------------------------------------------------------------------------------

    def add(self, log: RankLog) -> None:
        """Take the next rank's log."""
        rank = self._due.popleft() if self._due else self.world_size
        if log.rank != rank:
            raise TraceError(f"the log of rank {log.rank} came where that of {rank} was due.")
        self._spend(len(log.rows) + sum(len(members) for _, members in log.comms))
        site_ids = [
            self.sites.setdefault(CallSite(*site), len(self.sites)) for site in log.sites
        ]  # a row's site -1 stands for none
        site_ids.append(-1)
        comms = ["world", *(self._path(log, number) for number in range(len(log.comms)))]
        paths = dict(enumerate(comms))
        ops: list[Op] = []
        requests = sent = 0
        counts: dict[Any, int] = {}
        waits = log.waits.tolist()
        work = [self._work(row, log) for row in log.work.tolist()]
        # Requests and messages have the network's numbers: ``agreement.compare`` asks for them.
        for kind, peer, tag, nbytes, comm, ref, count, site in log.rows.tolist():
            at = site_ids[site]
            if kind == _COMPUTE:
                ops.append(
                    Op(kind, detail=(*work[ref][:3], log.labels[tag], *work[ref][3:]), site=at)
                )
                continue
            if kind == _WAIT:
                ops.append(Op(kind, detail=tuple(waits[ref : ref + count]), site=at))
                continue
            requests += 1
            path = paths[comm]
            if kind == _ISEND:
                number = sent * self.world_size + rank
                sent += 1
                self._sent[path, rank, peer, tag].append((number, nbytes))
                ops.append(Op(kind, peer, tag, nbytes, path, requests, number, (0,), at))
            elif kind == _IRECV:
                self._receives.append((rank, len(ops), self._key(path, peer, rank, tag), nbytes))
                ops.append(Op(kind, peer, tag, 0, path, requests, -1, (peer, tag), at))
            else:
                self._join(rank, len(ops), path, log.shared[ref], counts)
                ops.append(Op(kind, comm=path, request=requests, site=at))
        self.ops[rank] = ops

    def _key(self, path: str, source: int, dest: int, tag: int) -> _Key:
        """Of a message, when its sender is a rank that stands for others."""
        fold = self._fold
        if fold is None or fold.stand_in[source] == source:
            return path, source, dest, tag
        home = fold.home(source)
        return fold.home_comm(path, source), home[source], home[dest], tag

    def _spend(self, count: int) -> None:
        """Refuse what is too much to hold; logs are written by student processes."""
        self._num_ops += count
        if self._num_ops > MAX_OPS:
            raise TraceError(
                f"the trace has more than {MAX_OPS} operations, members of groups and parts of "
                "collectives: trace fewer steps, layers or microbatches."
            )

    def _path(self, log: RankLog, number: int) -> str:
        """The path of a group that was made on the world; all its members must mean the same."""
        count, members = log.comms[number]
        if self._fold is not None and len(self._fold.moves) > 1:
            check_ascending(members)
        ranks = tuple(members.tolist())
        path = f"world/{count}g{'-'.join(map(str, ranks))}"
        self._members.setdefault(path, ranks)
        return path

    @staticmethod
    def _work(row: list[float], log: RankLog) -> tuple[Any, ...]:
        flops, nbytes, kernels, moved, seconds = row
        picoseconds = -1 if seconds < 0 else round(seconds * 10**12)
        counted = () if kernels < 0 else (int(kernels), moved)
        return (flops, nbytes, picoseconds, *counted)

    def _join(
        self, rank: int, index: int, path: str, side: Collective, counts: dict[Any, int]
    ) -> None:
        members, key = self._members[path], path
        # Only its members make a group, so each set of members counts for itself.
        if side.name == MAKES_GROUP:
            members, key = side.members, (path, side.members)  # type: ignore[assignment]
        count = counts.get(key, 0)
        counts[key] = count + 1
        if rank not in members or side.root >= len(members):
            raise TraceError(f"rank {rank} takes part in {side.shown} of a group without it.")
        gathering = self._gatherings.get((key, count))
        if gathering is None:
            gathering = self._gatherings[key, count] = _Gathering(members, side)
        elif side is not gathering.first and side != gathering.first:
            self._agree(rank, side, gathering, gathering.places[0][0])
        gathering.sides[rank] = side
        gathering.places.append((rank, index))

    def _sides(self, key: Any, count: int, gathering: _Gathering) -> dict[int, Collective]:
        """The sides of all members that came; of those that others stand for too."""
        fold, sides = self._fold, gathering.sides
        if fold is None:
            return sides
        path, group = key if isinstance(key, tuple) else (key, ())
        first, by_member = gathering.places[0][0], {}
        for member in gathering.members:
            side = sides.get(member)
            if side is None:
                home = fold.home(member)
                moved: Any = fold.home_comm(path, member)
                if group:
                    moved = moved, tuple(sorted(home[other] for other in group))
                like = self._gatherings.get((moved, count))
                side = like.sides.get(home[member]) if like is not None else None
                if side is None:
                    continue
                self._agree(member, side, gathering, first)
            by_member[member] = side
        return by_member

    @staticmethod
    def _agree(rank: int, side: Collective, gathering: _Gathering, other: int) -> None:
        first = gathering.first
        if side.name != first.name:
            raise TraceError(
                f"rank {rank} calls {side.shown} where rank {other} calls {first.shown}; all "
                "members of a group must call the same collectives in the same order."
            )
        pairs = zip(
            (("root", side.root), *side.alike), (("root", first.root), *first.alike), strict=False
        )
        for (what, value), (_, expected) in pairs:
            if value != expected:
                raise TraceError(
                    f"in {first.shown}, rank {rank} gives {what} {value} and rank {other} "
                    f"{what} {expected}."
                )
        if first.name in _SAME_SIZES and side.sizes != first.sizes:
            raise TraceError(
                f"in {first.shown}, rank {rank} gives parts of {side.sizes} bytes and rank {other} "
                f"of {first.sizes}."
            )

    # -- all together ----------------------------------------------------------------------------

    def trace(self) -> Trace:
        """Match what the ranks have posted."""
        if self._due:
            raise TraceError(f"the log of rank {self._due[0]} is missing.")
        for rank, index, key, expected in self._receives:
            waiting = self._sent.get(key)
            if not waiting:
                continue  # never sent: no replay of this trace comes to its end
            number, nbytes = waiting.popleft()
            op = self.ops[rank][index]
            if nbytes != expected:
                raise TraceError(
                    f"rank {key[1]} sends {nbytes} bytes to rank {rank}, which receives into a "
                    f"tensor of {expected}{self._at(op)}. Give both sides the same shape and dtype."
                )
            self.ops[rank][index] = op._replace(nbytes=nbytes, message=number)
        for (key, count), gathering in self._gatherings.items():
            self._conclude(count, gathering, self._sides(key, count, gathering))
        return Trace(self.world_size, self.ops, list(self.sites))

    def _at(self, op: Op) -> str:
        where = list(self.sites)[op.site].where if op.site >= 0 else ""
        return f" at {where}" if where else ""

    def _conclude(self, count: int, gathering: _Gathering, sides: dict[int, Collective]) -> None:
        members = gathering.members
        if len(sides) < len(members):
            return  # somebody never comes: no replay of this trace comes to its end
        first = gathering.first
        sizes = _sizes(first, members, sides)
        self._spend(len(sizes))
        sequence = -1 - count if first.name == MAKES_GROUP else count  # as the network counts
        detail = (TIMED_AS.get(first.name, first.name), sequence, first.root, members, sizes)
        largest = max(sizes, default=0)
        for rank, index in gathering.places:
            op = self.ops[rank][index]
            self.ops[rank][index] = op._replace(nbytes=largest, detail=detail)


def _sizes(
    first: Collective, members: tuple[int, ...], sides: dict[int, Collective]
) -> tuple[int, ...]:
    """Counted bytes in the form that ``ringside.timing.collectives`` wants."""
    name, p = first.name, len(members)
    if name == "barrier":
        return (0,)
    if name == MAKES_GROUP:
        return (_MADE_BYTES,) * p
    if name in ("bcast", "scatter"):
        sizes = sides[members[first.root]].sizes
    elif name in ("allgather", "gather", "alltoall"):
        sizes = tuple(size for member in members for size in sides[member].sizes)
    else:
        sizes = first.sizes
    entries = {
        "bcast": 1, "reduce": 1, "allreduce": 1, "scan": 1, "exscan": 1, "alltoall": p * p,
    }  # fmt: skip
    if len(sizes) != entries.get(name, p):
        raise TraceError(f"{first.shown} of {p} ranks tells {len(sizes)} sizes.")
    return sizes
