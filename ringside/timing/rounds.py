"""A library collective as the messages of its rounds, by which a machine times it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ringside.timing.collectives import Round
from ringside.timing.engine_state import TimedRequest
from ringside.timing.fold import Fold
from ringside.timing.machine import Machine
from ringside.timing.ports import PS
from ringside.timing.rails import formula_s, rounds
from ringside.trace import Kind, Mode, Op


def num_messages(name: str, p: int) -> int:
    """How many messages of all ``p`` members a collective is lowered to, at most.

    That of the algorithm with most of them, whatever the machine takes; of one ring, though a
    machine whose nodes have several NICs makes several.
    """
    ring = p * (p - 1)
    most = {
        "allreduce": 2 * ring,
        "reduce_scatter": ring,
        "allgather": ring,
        "alltoall": ring,
        "barrier": p * (p - 1).bit_length(),
    }
    return most.get(name, p - 1)


def collective_ops(machine: Machine, rank: int, op: Op, fold: Fold | None = None) -> list[Op]:
    """The messages by which a machine times one rank's part in a library collective.

    Args:
        fold: which ranks stand for others; a message has the number that it has when its sender is
            one of them.
    """
    name, _, root, members, sizes = op.detail[:5]
    me = members.index(rank)
    key = _key(op)
    ops = _as_ops(rounds(machine, name, members, me, root, sizes), rank, members, key)
    return ops if fold is None else [_at_home(step, rank, key, fold) for step in ops]


def _key(op: Op) -> tuple[Any, ...]:
    """Communicator and number of a collective, alike for all its members and nobody else."""
    _, sequence, _, members = op.detail[:4]
    # The making of a group is counted for its members alone.
    return (op.comm, sequence) if sequence >= 0 else (op.comm, sequence, members)


class Meeting:
    """A collective that is timed by a formula, from when the last of its members has begun.

    Args:
        num_members: how many of them are timed.
        picoseconds: the formula's time.
    """

    def __init__(self, num_members: int, picoseconds: int) -> None:
        self.num_missing = num_members
        self.picoseconds = picoseconds
        self.begun = self.last = -1
        self.requests: list[TimedRequest] = []

    def join(self, clock: int, request: TimedRequest) -> bool:
        """A member begins; returns whether it is the last."""
        if clock > self.begun:
            self.begun, self.last = clock, request.rank
        self.requests.append(request)
        self.num_missing -= 1
        return not self.num_missing


class Meetings:
    """The collectives that are timed by a formula and wait for members."""

    def __init__(self, machine: Machine, fold: Fold | None) -> None:
        self._machine = machine
        self._fold = fold
        self._open: dict[Any, Meeting] = {}
        self._until: dict[int, int] = {}  # rank -> end of the last one that it was in

    def join(self, op: Op, clock: int, request: TimedRequest) -> Meeting | None:
        """A member begins a collective; None if messages time it."""
        name, _, _, members, sizes = op.detail[:5]
        seconds = formula_s(self._machine, name, members, sizes)
        if seconds is None:
            return None
        key, timed = _key(op), set(members)
        if self._fold is not None:  # moved groups are one: those who stand for others meet in it
            timed = {self._fold.stand_in[member] for member in members}
            key = (min(self._fold.home_comm(key[0], member) for member in members), *key[1:2])
        meeting = self._open.get(key)
        if meeting is None:
            meeting = self._open[key] = Meeting(len(timed), round(seconds * PS))
        if meeting.join(clock, request):
            del self._open[key]
            # A library's collectives use all ports, so a rank has one of them at a time.
            ranks = [joined.rank for joined in meeting.requests]
            meeting.begun = max(meeting.begun, *(self._until.get(rank, 0) for rank in ranks))
            self._until.update(dict.fromkeys(ranks, meeting.begun + meeting.picoseconds))
        return meeting


def _at_home(op: Op, rank: int, key: tuple[Any, ...], fold: Fold) -> Op:
    """A receive under the number of the message that stands for its own."""
    if op.kind != Kind.IRECV or fold.stand_in[op.peer] == op.peer:
        return op
    home = fold.home(op.peer)
    moved: tuple[Any, ...] = (fold.home_comm(key[0], op.peer), key[1])
    if len(key) > 2:
        moved = (*moved, tuple(sorted(home[member] for member in key[2])))
    count = op.message[3]  # type: ignore[index]
    number: Any = (moved, home[op.peer], home[rank], count)
    return op._replace(message=number)


def _as_ops(
    in_order: Iterable[Round], rank: int, members: tuple[int, ...], key: tuple[Any, ...]
) -> list[Op]:
    """A lowered collective's rounds as operations; messages are numbered by pair and order.

    Args:
        key: communicator and number of the collective, alike for all its members and nobody else.
    """
    ops: list[Op] = []
    counts: dict[tuple[int, int], int] = {}
    request = 0
    for transfers in in_order:
        first = request
        for peer, sent, received in transfers:
            other = members[peer]
            for source, dest, nbytes in ((rank, other, sent), (other, rank, received)):
                if nbytes < 0:
                    continue
                count = counts[source, dest] = counts.get((source, dest), 0) + 1
                number: Any = (key, source, dest, count)
                kind = Kind.ISEND if source == rank else Kind.IRECV
                detail = (int(Mode.STANDARD),) if source == rank else (other, 0)
                ops.append(Op(kind, other, 0, nbytes, key[0], request, number, detail))
                request += 1
        ops.append(Op(Kind.WAIT, detail=tuple(range(first, request))))
    return ops
