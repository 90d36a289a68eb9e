"""What the kernel tells of the processes of a run: who descends from whom, their time, their state.

Only Linux tells it, in /proc; elsewhere there is nothing to be read.

Source: proc(5).
"""

from __future__ import annotations

import os
from dataclasses import dataclass

_NOT_ASLEEP = b"RD"  # on a processor or in the queue for one; in the kernel, for a disk as a rule
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Reading:
    """What a process and all below it have had of the processors.

    Attributes:
        cpu_s: CPU time, that of children which have ended included.
        awake: whether one of them runs, waits for a processor, or waits for a disk. If none is
            awake, they sleep of their own accord; a busy machine is not the reason.
    """

    cpu_s: float
    awake: bool


def of_tree(root: int) -> Reading:
    """Of a process and all below it, now.

    A child that has ended counts with whoever has waited for it, and for itself until then.
    """
    ticks, awake = 0, False
    for pid in tree(root):
        fields = stat(pid)
        if fields is not None:
            ticks += sum(int(field) for field in fields[11:15])
            awake = awake or _awake(pid, fields)
    return Reading(ticks / TICKS_PER_S, awake)


def tree(root: int) -> list[int]:
    """A process and all below it, parents first."""
    pids: list[int] = []
    waiting = [root]
    while waiting:
        pids.append(waiting.pop())
        waiting += children(pids[-1])
    return pids


def stat(pid: int | str) -> list[bytes] | None:
    """The fields of /proc/PID/stat from the state on, which is the third; None: it is gone.

    ``"PID/task/TID"`` is a thread.
    """
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            line = os.read(descriptor, 2048)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    return line[line.rindex(b")") + 2 :].split()  # the name before may hold anything


def threads(pid: int) -> list[int]:
    """The threads of a process, by number; none once it is gone."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def children(pid: int) -> list[int]:
    """The processes that one has started and not waited for."""
    pids: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                pids += [int(child) for child in file.read().split()]
    except FileNotFoundError:
        if not _HAS_CHILDREN_FILE:
            return _children_by_scan(pid)
    except OSError:
        pass
    return pids


def _children_by_scan(pid: int) -> list[int]:
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [child for child in numbers if (fields := stat(child)) and int(fields[1]) == pid]


def _awake(pid: int, fields: list[bytes]) -> bool:
    if fields[0] in _NOT_ASLEEP:
        return True
    if int(fields[17]) < 2:  # its threads
        return False
    thread_fields = (stat(f"{pid}/task/{thread}") for thread in threads(pid))
    return any(stats is not None and stats[0] in _NOT_ASLEEP for stats in thread_fields)


_HAS_CHILDREN_FILE = os.path.exists("/proc/self/task") and any(
    os.path.exists(f"/proc/self/task/{task}/children") for task in os.listdir("/proc/self/task")
)
