"""How much memory ranks hold, looked at from outside: one wrong size must not freeze a laptop.

The kernel's limits of a process don't fit. RLIMIT_AS counts what is only reserved, and torch
reserves gigabytes; macOS doesn't enforce RLIMIT_DATA; nobody enforces RLIMIT_RSS. So the network
looks a few times a second at what each rank holds. It may hold

    a share         half of the machine's memory / ranks, but 512 MiB at least
    together        half of the machine's memory
    or              RINGSIDE_MEMORY_MIB for each rank; 0: no limit

beside what its zygote holds, whose libraries it shares. Grading has limits of its own.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ringside.errors import LimitError, TargetError
from ringside.units import format_bytes

if TYPE_CHECKING:  # most runs are over before anybody looks
    import psutil

VARIABLE = "RINGSIDE_MEMORY_MIB"
_MIB = 1 << 20
_LEAST_BYTES = 512 * _MIB
_EVERY_S, _PER_RANK_S = 0.1, 0.004  # a look costs 20 µs a rank: at most half a per cent of the time


class MemoryWatch:
    """Looks at the ranks of a world.

    Args:
        zygote: the process that they were forked from.
        ranks: gives their processes, in order of rank; none: nobody is looked at.

    Raises:
        TargetError: the variable is no number.
    """

    def __init__(self, world_size: int, zygote: int, ranks: Callable[[], list[int]]) -> None:
        self.every_s = max(_EVERY_S, _PER_RANK_S * world_size)
        self._ranks = ranks
        self._zygote = zygote
        self._chosen_mib = _chosen_mib()
        self._world_size = world_size
        self._processes: list[psutil.Process | None] = []
        self._shared_bytes = 0

    def look(self, locate: Callable[[int], str]) -> LimitError | None:
        """What to say of ranks that hold too much.

        Args:
            locate: where a rank is, such as ``" at ring.py:12 (in all_reduce)"``.
        """
        if not self._processes:
            self._processes = [_process(pid) for pid in self._ranks()] or [None]
            self._shared_bytes = _held(_process(self._zygote))
        share, together = _allowed(self._world_size, self._chosen_mib)
        held = [max(0, _held(process) - self._shared_bytes) for process in self._processes]
        most = max(held, default=0)
        rank = held.index(most) if held else 0
        cure = (
            "Is a size larger than meant, or does a list grow for ever? Where a rank needs more: "
            f"{VARIABLE}={max(1024, 2 * most // _MIB // 1024 * 1024)} allows that many MiB."
        )
        if most > share:
            return LimitError(
                rank,
                f"holds {format_bytes(most)} of memory{locate(rank)}; "
                f"a rank may hold {format_bytes(share)}. {cure}",
            )
        if sum(held) > together:
            return LimitError(
                rank,
                f"holds {format_bytes(most)} of memory{locate(rank)}, the most of all ranks, and "
                f"together they hold {format_bytes(sum(held))}; half of this machine's memory, "
                f"{format_bytes(together)}, is allowed. {cure}",
            )
        return None


def _chosen_mib() -> int | None:
    text = os.environ.get(VARIABLE, "")
    if text and not (text.isascii() and text.isdigit()):
        raise TargetError(
            f"{VARIABLE} ({text}) must be a whole number of MiB for each rank; 0: no limit."
        )
    return int(text) if text else None


def _allowed(world_size: int, asked_mib: int | None) -> tuple[float, float]:
    """Bytes that one rank may hold, and all together."""
    if asked_mib is not None:
        return asked_mib * _MIB or math.inf, math.inf
    half = _memory_bytes() // 2
    return max(half // world_size, _LEAST_BYTES), max(half, _LEAST_BYTES)


@functools.cache
def _memory_bytes() -> int:
    """Of the machine, or of the control group (a container, a job) where that has less."""
    import psutil

    least = int(psutil.virtual_memory().total)
    try:
        group = Path("/proc/self/cgroup").read_text().rpartition("0::/")[2].strip()
    except OSError:  # not Linux
        return least
    innermost = Path("/sys/fs/cgroup", group)
    for folder in (innermost, *innermost.parents[: len(Path(group).parts)]):
        try:
            least = min(least, int((folder / "memory.max").read_text()))
        except (OSError, ValueError):  # not there; "max"
            continue
    return least


def _process(pid: int) -> psutil.Process | None:
    import psutil

    try:
        return psutil.Process(pid)
    except psutil.Error:  # it has ended, or /proc hides it
        return None


def _held(process: psutil.Process | None) -> int:
    """Bytes of memory that a process holds, without its files; 0 where that isn't known."""
    import psutil

    try:
        if process is None:
            return 0
        usage = process.memory_info()
    except psutil.Error:
        return 0
    return int(usage.rss) - int(getattr(usage, "shared", 0))  # macOS doesn't tell what is of files
