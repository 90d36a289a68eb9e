"""A library collective as the messages of its rounds, by which a machine times it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ringside.timing.fold import Fold
from ringside.timing.lowering import ALGORITHMS, Round
from ringside.timing.machine import Machine
from ringside.trace import Kind, Mode, Op


def num_messages(name: str, p: int) -> int:
    """How many messages of all ``p`` members a collective is lowered to, at most.

    That of the algorithm with most of them, whatever the machine takes.
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
    name, sequence, root, members, sizes = op.detail
    me = members.index(rank)
    rounds = ALGORITHMS[name][machine.algorithm(name)](me, len(members), root, sizes)
    # The making of a group is counted for its members alone.
    key = (op.comm, sequence) if sequence >= 0 else (op.comm, sequence, members)
    ops = _as_ops(rounds, rank, members, key)
    return ops if fold is None else [_at_home(each, rank, key, fold) for each in ops]


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
    rounds: Iterable[Round], rank: int, members: tuple[int, ...], key: tuple[Any, ...]
) -> list[Op]:
    """A lowered collective's rounds as operations; messages are numbered by pair and order.

    Args:
        key: communicator and number of the collective, alike for all its members and nobody else.
    """
    ops: list[Op] = []
    counts: dict[tuple[int, int], int] = {}
    request = 0
    for transfers in rounds:
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
