"""A process in a sandbox, from outside: its output drained, its memory watched, its end sure."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import IO, Any, Protocol

from autograder.course.limits import Limits
from autograder.sandbox.cgroups import ControlGroup, Usage
from autograder.sandbox.watchdog import Drain, ProcessId, Watchdog, descendants, kill_all, members
from ringside.network import processes
from ringside.network.processes import Reading

__all__ = ["Process"]

_POLITE = 10  # a tenth of the time that an ordinary process gets beside it


class Started(Protocol):
    """What is asked of ``subprocess.Popen``."""

    pid: int
    returncode: int | None

    @property
    def args(self) -> Any: ...

    @property
    def stdout(self) -> IO[bytes] | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class Process:
    """A process started in a sandbox, with the methods of ``subprocess.Popen`` that callers use."""

    def __init__(
        self,
        popen: Started,
        limits: Limits,
        namespace: int | None = None,
        said: bytes = b"",
        group: ControlGroup | None = None,
    ) -> None:
        self._group = group
        self._limits = limits
        self._kernel_killed_for: str | None = None
        self._usage: Usage | None = None
        self.pid = popen.pid
        self._root = ProcessId.of(popen.pid)
        self.args = popen.args
        self._namespace = namespace  # open, so that no later namespace gets its number
        assert popen.stdout is not None
        self.drain = Drain(popen.stdout, limits.output_bytes, said)
        self.drain.start()
        self._popen = popen
        self.watchdog = Watchdog(self._root, limits.memory_bytes, self._kill_tree)
        self.watchdog.start()  # last: its thread calls `_kill_tree`, which reads all of these

    @property
    def killed_for(self) -> str | None:
        """Why the watchdog killed something, the first time that it did; or the kernel."""
        if self.watchdog.killed_for is None and self._group is not None:
            self._kernel_killed_for = self._group.killed_for(self._limits)
        return self.watchdog.killed_for or self._kernel_killed_for

    @property
    def returncode(self) -> int | None:
        return self._popen.returncode

    def poll(self) -> int | None:
        return self._popen.poll()

    def wait(self, timeout: float | None = None) -> int:
        return self._popen.wait(timeout)

    def kill(self) -> None:
        """Kill it and everything below it, and wait until that is done."""
        # First, since it waits for the watchdog's thread, which calls `_kill_tree` too: so `look`
        # in there has one caller at a time.
        self.watchdog.stop()
        self._kill_tree()

    terminate = kill

    def survivors(self) -> list[int]:
        """Processes of this sandbox that still run; empty after ``kill``."""
        candidates = self.watchdog.seen | self._members() | set(descendants(self._root))
        grouped = self._group.processes() if self._group is not None else []
        return sorted({*grouped, *(process.pid for process in candidates if process.alive())})

    def usage(self) -> Usage | None:
        """What all its processes have used; None where there is no control group."""
        return self._usage if self._group is None else self._group.usage()

    def reading(self) -> Reading:
        """CPU time of all its processes, ended ones too, and whether one of them is awake."""
        reading = processes.of_tree(self.pid)
        usage = self.usage()
        return reading if usage is None else Reading(usage.cpu_s, reading.awake)

    def lower_priority(self) -> None:
        """Let others' processes go first, where no control group gives each its part."""
        if self._group is not None and self._group.shares_cpu():
            return
        for pid in processes.tree(self.pid):
            for thread in processes.threads(pid):  # Linux keeps it for each thread
                with contextlib.suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, thread, _POLITE)

    def close(self) -> None:
        """Kill it, and give back what it took to find its processes."""
        self.kill()
        if self._namespace is not None:
            os.close(self._namespace)
            self._namespace = None
        if self._group is not None:
            self._kernel_killed_for = self._group.killed_for(self._limits)
            # Before the group is closed: the kernel's account of it goes with its files.
            self._usage = self._group.usage()
            self._group.close()
            self._group = None

    def output(self) -> str:
        """The first bytes of what it wrote; whole once it has ended."""
        if self._popen.poll() is not None:
            # With a limit: a process that has inherited the pipe keeps it open.
            self.drain.join(timeout=5)
        return self.drain.text()

    def _kill_tree(self) -> None:
        if self._group is not None:
            self._group.kill()
        # Before the root is killed below: then the walk down from it finds nothing, and only what
        # was seen or is in the namespace can be killed.
        self.watchdog.look()
        kill_all(self._root, known=self.watchdog.seen | self._members())
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(5)

    def _members(self) -> set[ProcessId]:
        return set() if self._namespace is None else members(self._namespace)
