"""Watch the processes of one sandbox from outside: what they are, what they use, their end.

All processes of a sandbox descend from the one that started it, also when they try to leave:
an orphan's new parent is the sandbox's first process. So a walk down from there finds them.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from ringside.network.processes import children, stat

__all__ = [
    "Drain",
    "Meter",
    "ProcessId",
    "Watchdog",
    "descendants",
    "kill_all",
    "members",
]

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class ProcessId:
    """One process for certain: numbers are used again, numbers with a start time are not."""

    pid: int
    started: int  # clock ticks since boot

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """The process that has this number now; it may have ended just now."""
        state = _state(pid)
        # No process has started at -1, so this one counts as dead.
        return cls(pid, -1 if state is None else state[2])

    def alive(self) -> bool:
        """Whether it still runs; one that is dead and not yet reaped doesn't."""
        state = _state(self.pid)
        return state is not None and state[2] == self.started and state[0] not in "ZX"


def descendants(root: ProcessId) -> list[ProcessId]:
    """This process and all below it, parents first; nothing once it is gone."""
    if not root.alive():
        return []
    processes: list[ProcessId] = []
    waiting = [root.pid]
    while waiting:
        current = waiting.pop()
        state = _state(current)
        if state is None:
            continue
        processes.append(ProcessId(current, state[2]))
        waiting += children(current)
    return processes


def members(namespace: int) -> set[ProcessId]:
    """Live processes of the PID namespace behind a descriptor, as far as this user may ask."""
    link = f"pid:[{os.fstat(namespace).st_ino}]"
    processes = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{name}/ns/pid") == link and (state := _state(int(name))):
                processes.add(ProcessId(int(name), state[2]))
    return {process for process in processes if process.alive()}


class Meter:
    """Memory of the processes of one sandbox, shared pages counted once.

    Resident sizes count shared pages once per process; only where their sum passes ``limit`` is
    the dearer proportional set size read. After that a process has at most what it had, and all
    that has become resident since, and a page for each page fault: where a write makes a copy of
    a shared page, that is a fault. It is read again where this bound passes ``limit``, and, every
    ``again_s`` at most, where a process has ended: the pages that it shared count for others now.
    """

    def __init__(self, limit: int, again_s: float = 0.4) -> None:
        self.limit = limit
        self.again_s = again_s
        self._read_at = -math.inf
        self._known: dict[ProcessId, tuple[int, int, int]] = {}  # proportional, resident, faults

    def read(self, processes: list[ProcessId]) -> dict[ProcessId, int]:
        """Bytes of each process, or a bound on them that does not pass the limit."""
        resident = {process: _resident(process.pid) for process in processes}
        if sum(resident.values()) <= self.limit:
            return resident
        now = time.monotonic()
        if not self._known.keys() <= resident.keys() and now > self._read_at + self.again_s:
            self._known = {}
        num_known = len(self._known)
        used = {process: self._bound(process, size) for process, size in resident.items()}
        if num_known and sum(used.values()) > self.limit:
            self._known, num_known = {}, 0
            used = {process: self._bound(process, size) for process, size in resident.items()}
        if not num_known:
            self._read_at = now
        return used

    def _bound(self, process: ProcessId, resident: int) -> int:
        faults = _faults(process.pid)
        if process not in self._known:
            self._known[process] = _proportional(process.pid), resident, faults
        proportional, before, faults_before = self._known[process]
        came = max(0, resident - before) + max(0, faults - faults_before) * _PAGE_BYTES
        return proportional + came


def kill_all(root: ProcessId, *, seconds: float = 5.0, known: set[ProcessId] | None = None) -> None:
    """Kill a process and all below it, until none is left or the time is up."""
    deadline = time.monotonic() + seconds
    seen = set(known or ())
    while True:
        seen.update(descendants(root))
        alive = [process for process in seen if process.alive()]
        if not alive or time.monotonic() > deadline:
            return
        for process in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.002)


class Watchdog(threading.Thread):
    """Keep the processes below ``root`` together under ``limit`` bytes.

    The largest process is killed, and the next, until the rest fits: a rank that takes too much
    is that rank's failure, and the process that forks ranks goes on. Where the largest has
    children of its own, ``on_excess`` is called instead, to kill all.

    It looks every ``period_s`` near the limit, and a third as often far from it.

    It also remembers every process that it saw, for the proof that none is left.
    """

    def __init__(
        self,
        root: ProcessId,
        limit: int,
        on_excess: Callable[[], None],
        *,
        period_s: float = 0.04,
    ) -> None:
        super().__init__(name=f"watchdog-{root.pid}", daemon=True)
        self.root = root
        self.limit = limit
        self.period_s = period_s
        self.seen: set[ProcessId] = set()
        self.peak_bytes = 0
        self.killed_for: str | None = None  # the first time that something was killed
        self._meter = Meter(limit)
        self._on_excess = on_excess
        self._stopped = threading.Event()

    def run(self) -> None:
        wait_s = self.period_s
        while not self._stopped.wait(wait_s):
            used = self.look()
            total = sum(used.values())
            if total > self.limit:
                self._relieve(used)
            # The more is left, the longer it takes to fill.
            wait_s = self.period_s * (1 + 2 * max(0.0, 1 - total / self.limit))

    def look(self) -> dict[ProcessId, int]:
        """Note the processes of this moment and return the memory that each uses."""
        now = descendants(self.root)
        self.seen.update(now)
        used = self._meter.read(now)
        self.peak_bytes = max(self.peak_bytes, sum(used.values()))
        return used

    def stop(self) -> None:
        self._stopped.set()
        if self.is_alive() and threading.current_thread() is not self:
            self.join()

    def _relieve(self, used: dict[ProcessId, int]) -> None:
        total = sum(used.values())
        if self.killed_for is None:
            self.killed_for = f"memory: {total >> 20} MiB used, {self.limit >> 20} MiB allowed"
        for process in sorted(used, key=lambda each: used[each], reverse=True):
            if total <= self.limit:
                return
            if any(ProcessId.of(child).alive() for child in children(process.pid)):
                self._on_excess()
                return
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)
            total -= used[process]


class Drain(threading.Thread):
    """Read a stream to its end, so that its writer never blocks; keep the first bytes."""

    def __init__(self, stream: IO[bytes], keep_bytes: int, head: bytes = b"") -> None:
        super().__init__(name="drain", daemon=True)
        self.total_bytes = len(head)
        self._stream = stream
        self._keep_bytes = keep_bytes
        self._kept = bytearray(head)

    def run(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while piece := os.read(self._stream.fileno(), 65536):
                self.total_bytes += len(piece)
                room = self._keep_bytes - len(self._kept)
                self._kept += piece[: max(room, 0)]
        with contextlib.suppress(OSError):
            self._stream.close()

    def text(self) -> str:
        """What was kept, and a note of what was not."""
        text = bytes(self._kept).decode("utf-8", "replace")
        left_out = self.total_bytes - len(self._kept)
        return text if left_out <= 0 else f"{text}\n[{left_out} more bytes left out]"


def _state(pid: int) -> tuple[str, int, int] | None:
    """State letter, parent and start time of a process."""
    fields = stat(pid)
    return None if fields is None else (fields[0].decode(), int(fields[1]), int(fields[19]))


def _faults(pid: int) -> int:
    """Page faults of a process that needed no disk, since it began."""
    fields = stat(pid)
    return 0 if fields is None else int(fields[7])


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return _unshared(pid)
    return 0


def _unshared(pid: int) -> int:
    """A bound on what a process has for itself, where the kernel doesn't show it to us.

    A fork has its parent's pages until it writes to them, which is a page fault each; what it
    asks for besides makes it larger than its parent. Pages of files are the libraries'.
    """
    state = _state(pid)
    grown = _anonymous(pid) - (_anonymous(state[1]) if state is not None else 0)
    return min(_resident(pid), max(0, grown) + _faults(pid) * _PAGE_BYTES)


def _anonymous(pid: int) -> int:
    """Resident bytes that are no file's."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            pages = file.read().split()
        return (int(pages[1]) - int(pages[2])) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0
