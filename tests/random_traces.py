"""Random traces: phases of sends, receives and work that always end, with and without contention.

In every phase each rank posts all its receives and sends in a random order, computing now and then,
and waits for them, or for a part of them now and the rest later. Nobody waits for what is posted in
a later phase, so every trace ends, even if every send waits for its receive.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ringside.trace import Kind, Op, Trace

SIZES = [0, 1, 100, 4096, 65536, 10**6]


class Writer:
    """A trace under construction; messages are numbered in the order in which they are made up."""

    def __init__(self, world_size: int) -> None:
        self.ops: list[list[Op]] = [[] for _ in range(world_size)]
        self._made = 0

    def message(self, source: int, dest: int, nbytes: int) -> tuple[Op, Op]:
        """The send and the receive of a new message."""
        number = self._made = self._made + 1
        send = Op(Kind.ISEND, dest, 0, nbytes, "world", 2 * number, number, (0,))
        return send, Op(Kind.IRECV, source, 0, 0, "world", 2 * number + 1, number, (source, 0))

    def work(self, rank: int, picoseconds: int) -> None:
        self.ops[rank].append(Op(Kind.COMPUTE, detail=(0.0, 0.0, picoseconds, "work")))

    def wait(self, rank: int, requests: list[int]) -> None:
        if requests:
            self.ops[rank].append(Op(Kind.WAIT, detail=tuple(requests)))

    def trace(self) -> Trace:
        return Trace(len(self.ops), self.ops)


def permutations(seed: int) -> Trace:
    """Every phase sends along a random partial permutation: no port is ever wanted twice."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, 9))

    def pairs() -> list[tuple[int, int]]:
        dests = rng.permutation(p)
        return [(s, int(d)) for s, d in enumerate(dests) if s != d and rng.random() < 0.8]

    return _phases(rng, p, pairs, apart=False)


def graphs(seed: int) -> Trace:
    """Every phase sends along random edges, and may leave requests open for the next phases.

    There is some work before every post, so that no two are made at the same instant.
    """
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, 9))

    def pairs() -> list[tuple[int, int]]:
        edges = rng.integers(0, p, size=(int(rng.integers(1, 2 * p)), 2))
        return [(int(s), int(d)) for s, d in edges if s != d]

    return _phases(rng, p, pairs, apart=True)


def all_to_all(p: int, nbytes: int, *, rotated: bool) -> Trace:
    """Everybody sends to everybody at once; all to rank 0 first, or each to its next rank."""
    writer = Writer(p)
    requests: list[list[int]] = [[] for _ in range(p)]
    for step in range(1, p) if rotated else range(p):
        for rank in range(p):
            dest = (rank + step) % p if rotated else step
            if dest == rank:
                continue
            send, receive = writer.message(rank, dest, nbytes)
            writer.ops[rank].append(send)
            writer.ops[dest].append(receive)
            requests[rank].append(send.request)
            requests[dest].append(receive.request)
    for rank in range(p):
        writer.wait(rank, requests[rank])
    return writer.trace()


def _phases(
    rng: np.random.Generator, p: int, pairs: Callable[[], list[tuple[int, int]]], *, apart: bool
) -> Trace:
    writer = Writer(p)
    open_requests: list[list[int]] = [[] for _ in range(p)]
    for _ in range(int(rng.integers(2, 12))):
        posts: list[list[Op]] = [[] for _ in range(p)]
        for source, dest in pairs():
            send, receive = writer.message(source, dest, int(rng.choice(SIZES)))
            posts[source].append(send)
            posts[dest].append(receive)
        for rank in range(p):
            rng.shuffle(posts[rank])  # type: ignore[arg-type]
            for op in posts[rank]:
                if apart or rng.random() < 0.3:
                    writer.work(rank, int(10 ** rng.uniform(3, 9)))
                writer.ops[rank].append(op)
                open_requests[rank].append(op.request)
            rng.shuffle(open_requests[rank])
            keep = int(rng.integers(0, 3)) if apart else 0
            count = max(0, len(open_requests[rank]) - keep)
            writer.wait(rank, open_requests[rank][:count])
            del open_requests[rank][:count]
    for rank in range(p):
        writer.wait(rank, open_requests[rank])
    return writer.trace()
