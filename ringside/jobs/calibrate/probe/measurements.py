"""Ping-pong, all-reduce and local work, over any transport.

    rank a   send ------>         receive
                         \\       /           half a round trip = alpha + n * beta
    rank b   receive      -> send

Sizes stand on a log grid and take turns, so that a noisy moment hits all of them.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Protocol

SIZES = tuple(2**k for k in range(3, 25))  # bytes: 8 B to 16 MiB
BATCHES = 9
_LONG_BYTES = 2**16


class Transport(Protocol):
    """What the probe needs of a library of messages."""

    rank: int
    size: int

    def about(self) -> dict[str, Any]:
        """transport, library, device, cores, host and memory_bytes of this rank."""

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, on every rank."""

    def barrier(self) -> None: ...

    def seconds(self, work: Callable[[], object]) -> float:
        """How long a work takes, by the clock of this transport."""

    def buffer(self, nbytes: int) -> Any: ...

    def send(self, buffer: Any, dest: int) -> None: ...

    def receive(self, buffer: Any, source: int) -> None: ...

    def all_reduce(self, buffer: Any) -> None: ...

    def is_eager(self, nbytes: int, peer: int, patience_s: float) -> bool | None:
        """Whether a send ends without a receive; called on both sides, told to the sender.

        None where the library doesn't tell.
        """

    def poll_s(self) -> float | None: ...

    def products(self) -> list[tuple[str, int, Callable[[], object]]]:
        """dtype, n and the work of a matrix product."""

    def copies(self) -> list[tuple[int, Callable[[], object]]]:
        """Bytes read and written, and the work."""

    def one_element(self) -> tuple[int, Callable[[], object]]:
        """How many operators on one element a work starts, and the work."""


def measure(
    ranks: Transport, sizes: Sequence[int] = SIZES, batches: int = BATCHES
) -> dict[str, Any]:
    """Measure everything; every rank calls it, every rank gets the same result."""
    about = ranks.gather(ranks.about())
    hosts = [one["host"] for one in about]
    return {
        **{key: about[0][key] for key in ("transport", "library", "device", "memory_bytes")},
        "hosts": hosts,
        "cores": [one["cores"] for one in about],
        "links": [link(ranks, where, pair, sizes, batches) for where, pair in pairs(hosts).items()],
        "all_reduce": all_reduce(ranks, sizes[::2], batches),
        **local_work(ranks, batches),
    }


def pairs(hosts: Sequence[str]) -> dict[str, tuple[int, int]]:
    """The first two ranks of one host, and the first two of different hosts, where there are.

    >>> pairs(["a", "a", "b"])
    {'inside': (0, 1), 'between': (0, 2)}
    >>> pairs(["a"])
    {}
    """
    rank_pairs: dict[str, tuple[int, int]] = {}
    for second, host in enumerate(hosts):
        if host in hosts[:second]:
            rank_pairs.setdefault("inside", (hosts.index(host), second))
        if host != hosts[0]:
            rank_pairs.setdefault("between", (0, second))
    return {where: rank_pairs[where] for where in ("inside", "between") if where in rank_pairs}


def link(
    ranks: Transport,
    where: str,
    pair: tuple[int, int],
    sizes: Sequence[int],
    batches: int,
    *,
    threshold: bool = True,
) -> dict[str, Any]:
    """Ping-pong between two ranks, and if asked their eager threshold; the others wait."""
    points: list[list[float]] = []
    eager_bytes: int | None = None
    ranks.barrier()
    if ranks.rank in pair:
        points = ping_pong(ranks, pair, sizes, batches)
        eager_bytes = eager_threshold(ranks, pair, points) if threshold else None
    ranks.barrier()
    points, eager_bytes = ranks.gather((points, eager_bytes))[pair[0]]
    return {
        "where": where,
        "ranks": list(pair),
        "points": [list(point) for point in points],
        "eager_threshold_bytes": eager_bytes,
    }


def ping_pong(
    ranks: Transport, pair: tuple[int, int], sizes: Sequence[int], batches: int
) -> list[list[float]]:
    """Half a round trip for each size: the median of batches, each with a trip to warm up."""
    first = ranks.rank == pair[0]
    peer = pair[1] if first else pair[0]
    buffers = {nbytes: ranks.buffer(nbytes) for nbytes in sizes}
    took: dict[int, list[float]] = {nbytes: [] for nbytes in sizes}

    def trips(buffer: Any, count: int) -> None:
        for _ in range(count):
            if first:
                ranks.send(buffer, peer)
                ranks.receive(buffer, peer)
            else:
                ranks.receive(buffer, peer)
                ranks.send(buffer, peer)

    for _ in range(batches):
        for nbytes, buffer in buffers.items():
            count = 20 if nbytes < _LONG_BYTES else 3
            trips(buffer, 1)
            seconds = ranks.seconds(lambda b=buffer, c=count: trips(b, c))  # type: ignore[misc]
            took[nbytes].append(seconds / count / 2)
    return [[nbytes, statistics.median(seconds)] for nbytes, seconds in took.items()]


def eager_threshold(
    ranks: Transport, pair: tuple[int, int], points: Sequence[Sequence[float]]
) -> int | None:
    """The smallest send that waits for its receive; None where none does, or nobody can tell."""
    peer = pair[1] if ranks.rank == pair[0] else pair[0]
    role = 0 if ranks.rank == pair[0] else -1
    patience_s = {int(nbytes): 5 * seconds for nbytes, seconds in points}
    grid = sorted(patience_s)

    def waits(nbytes: int) -> bool | None:
        near = next((size for size in grid if size >= nbytes), grid[-1])
        # One success is proof: a send that waits cannot end, a send that doesn't may be slow.
        tries = [ranks.is_eager(nbytes, peer, patience_s[near]) for _ in range(3)]
        answer = None if None in tries else not any(tries)
        # Both ranks walk through one search, and only the sender knows the answer.
        agreed: bool | None = _tell(ranks, answer, peer, role)
        return agreed

    low, high = -1, len(grid)  # of the grid: low does not wait, high does
    while high - low > 1:
        middle = (low + high) // 2
        answer = waits(grid[middle])
        if answer is None:
            return None
        low, high = (low, middle) if answer else (middle, high)
    if high == len(grid):
        return None
    if high == 0:
        return 0
    below, above = grid[low], grid[high]
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if waits(middle) else (middle, above)
    return above


def _tell(ranks: Transport, answer: bool | None, peer: int, told: int) -> bool | None:
    """The first rank's answer, on both."""
    buffer = ranks.buffer(8)
    if told == 0:
        buffer[0] = {None: 2, True: 1, False: 0}[answer]
        ranks.send(buffer, peer)
        return answer
    ranks.receive(buffer, peer)
    return (False, True, None)[int(buffer[0])]


def all_reduce(ranks: Transport, sizes: Sequence[int], batches: int) -> list[list[float]]:
    """The library's all-reduce: the slowest rank, the median of batches."""
    buffers = {nbytes: ranks.buffer(nbytes) for nbytes in sizes}
    took: dict[int, list[float]] = {nbytes: [] for nbytes in sizes}
    for batch in range(batches + 1):
        for nbytes, buffer in buffers.items():
            ranks.barrier()
            seconds = ranks.seconds(lambda b=buffer: ranks.all_reduce(b))  # type: ignore[misc]
            if batch:  # the first is for warming up
                took[nbytes].append(seconds)
    slowest = ranks.gather([statistics.median(seconds) for seconds in took.values()])
    return [[nbytes, max(column)] for nbytes, *column in zip(sizes, *slowest, strict=True)]


def local_work(ranks: Transport, batches: int) -> dict[str, Any]:
    """Products, copies and one element, on all ranks at once, as programs do."""

    def slowest(work: Callable[[], object]) -> float:
        ranks.seconds(work)
        ranks.barrier()
        best = min(ranks.seconds(work) for _ in range(batches))
        return float(max(ranks.gather(best)))

    count, many = ranks.one_element()
    polls = [poll for poll in ranks.gather(ranks.poll_s()) if poll is not None]
    return {
        "products": [
            {"dtype": dtype, "n": n, "s": slowest(work)} for dtype, n, work in ranks.products()
        ],
        "copies": [[nbytes, slowest(work)] for nbytes, work in ranks.copies()],
        "kernel_s": slowest(many) / count,
        "poll_s": statistics.median(polls) if polls else None,
    }


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes(hosts: list[str]) -> int:
    """A rank's share of its host's memory."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return whole // max(hosts.count(host) for host in hosts)
