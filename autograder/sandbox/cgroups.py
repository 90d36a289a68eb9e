"""Control groups, version 2: limits that the kernel itself holds, for all of a sandbox at once.

A group can be had where one was *delegated* to us: by ``systemd-run --user --scope -p
Delegate=yes autograder ...``, to a service or container of our own, or by being root where
nobody else keeps groups. In it::

    delegated/                  no process of its own: the kernel wants none beside controllers
        ringside-grader/        the grader, and what was here before
        ringside-PID-START-N/   a sandbox: memory.max, pids.max, cpu.max, cgroup.kill

The watchdog still looks at memory, and kills the one process that takes too much; so a submission
ends the same with and without groups. The group's limit lies above that: it holds what grows
faster than anybody looks, and what no process has mapped (files in /tmp and /dev/shm).

Source: Documentation/admin-guide/cgroup-v2.rst of the kernel; systemd.io/CGROUP_DELEGATION.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from autograder.course.limits import Limits
from autograder.sandbox.watchdog import ProcessId

__all__ = ["ControlGroup", "Usage", "delegated", "own_group", "settle", "why_not"]

NEEDED = ("memory", "pids")
WANTED = ("cpu", "cpuset")  # each sandbox gets an equal share of the cores, whatever its threads
_LEAF = "ringside-grader"
_PREFIX = "ringside-"
_KERNEL_BYTES = 64 << 20  # page tables, sockets and pipes of a sandbox count too
_BESIDES = 8  # processes of bubblewrap's own, and of the tools that it starts
_PERIOD_US = 100_000
_HOW = f"systemd-run {'' if os.geteuid() == 0 else '--user '}--scope -p Delegate=yes autograder ..."
_numbers = itertools.count()


@dataclass(frozen=True)
class Usage:
    """What the processes of a group have used, ended ones too; None: this kernel doesn't tell."""

    cpu_s: float
    peak_bytes: int | None
    peak_processes: int | None


class ControlGroup:
    """The group of one sandbox; whatever its processes start is in it, and can't leave."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def make(cls, base: Path, limits: Limits) -> ControlGroup:
        """A new group below ``base``, with the limits of those controllers that it has.

        Raises:
            OSError: it can't be made, or refuses a limit.
        """
        process = ProcessId.of(os.getpid())
        group = cls(base / f"{_PREFIX}{process.pid}-{process.started}-{next(_numbers)}")
        group.path.mkdir()
        try:
            for name, value in settings(limits).items():
                if (group.path / name).exists():
                    (group.path / name).write_text(value)
        except BaseException:
            group.close()
            raise
        return group

    def enter(self) -> list[str]:
        """The words before a command that let it begin in this group.

        The shell that moves itself becomes the command: its line is seen nowhere.
        """
        # In cgroup.procs 0 stands for the process that writes it.
        return ["/bin/sh", "-c", 'echo 0 >"$0" && exec "$@"', str(self.path / "cgroup.procs")]

    def adopt(self, pid: int) -> None:
        """Take in a process that has begun elsewhere, and has no children yet.

        Raises:
            OSError: it is gone, or this account may not.
        """
        (self.path / "cgroup.procs").write_text(str(pid))

    def processes(self) -> list[int]:
        """Its processes, those of groups below it too; dead ones are in no group."""
        pids: set[int] = set()
        for file in (self.path / "cgroup.procs", *self.path.glob("**/cgroup.procs")):
            with contextlib.suppress(OSError):
                pids |= {int(word) for word in file.read_text().split()}
        return sorted(pids)

    def populated(self) -> bool:
        """Whether any process is in it or below."""
        return _table(self.path / "cgroup.events").get("populated", 0) == 1

    def kill(self, *, seconds: float = 5.0) -> None:
        """Kill all its processes at once, and wait until none is left or the time is up."""
        deadline = time.monotonic() + seconds
        while self.populated() and time.monotonic() < deadline:
            try:
                (self.path / "cgroup.kill").write_text("1")
            except OSError:  # before Linux 5.14, one by one until none is left
                for pid in self.processes():
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)

    def killed_for(self, limits: Limits) -> str | None:
        """What the kernel ended a process for, in words."""
        if not _table(self.path / "memory.events").get("oom_kill", 0):
            return None
        return (
            f"memory: all of {memory_max(limits) >> 20} MiB used by processes and their files, "
            f"{limits.memory_bytes >> 20} MiB allowed to processes"
        )

    def shares_cpu(self) -> bool:
        """Whether the kernel gives each group its part of the processors."""
        return (self.path / "cpu.weight").exists()

    def usage(self) -> Usage:
        """What it has used since it was made."""
        peaks = [_number(self.path / f"{name}.peak") for name in NEEDED]
        return Usage(_table(self.path / "cpu.stat").get("usage_usec", 0) / 1e6, *peaks)

    def close(self) -> None:
        """Kill what is left, and remove the group."""
        self.kill()
        _remove(self.path)


def memory_max(limits: Limits) -> int:
    """What a sandbox's group may hold: its processes, files that lie in memory, and the kernel's.

    It is above ``memory_bytes``, so that the watchdog decides wherever it is fast enough.
    """
    return limits.memory_bytes + limits.tmp_bytes + limits.shm_bytes + _KERNEL_BYTES


def settings(limits: Limits) -> dict[str, str]:
    """The files of a group, and what is written into them."""
    return {
        "memory.max": str(memory_max(limits)),
        "memory.swap.max": "0",  # what is swapped would be slow, and count nowhere
        # One greedy rank is that rank's failure: the process that starts ranks must go on, as it
        # does where the watchdog kills. So not all of the group at once.
        "memory.oom.group": "0",
        "pids.max": str(limits.processes + _BESIDES),
        "cpu.max": f"{limits.cpu_cores * _PERIOD_US} {_PERIOD_US}",
    }


def why_not() -> str | None:
    """Why no sandbox here can have a group, found by making one with a process in it; or None."""
    try:
        base = settle()
        group = ControlGroup.make(base, Limits())
    except OSError as error:
        return _reason(error)
    try:
        missing = [name for name in NEEDED if not (group.path / f"{name}.max").exists()]
        if missing:
            return f"the group {base} has no controller {missing[0]}"
        process = subprocess.Popen([*group.enter(), "/bin/sleep", "30"], stdin=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 5
            while not group.populated() and time.monotonic() < deadline:
                if process.poll() is not None:
                    return f"no process can enter {group.path}"
                time.sleep(0.001)
            if process.pid not in group.processes():
                return f"no process can enter {group.path}"
            group.kill()
            if process.wait(5) != -signal.SIGKILL:
                return f"the processes of {group.path} can't be killed"
        finally:
            process.kill()
            process.wait()
    except (OSError, subprocess.TimeoutExpired) as error:
        return _reason(error)
    finally:
        group.close()
    return None if not group.path.exists() else f"{group.path} can't be removed"


def settle() -> Path:
    """Make the group that was delegated to us ready for sandboxes, and return it.

    Where processes are in it, they are moved into a group below it, this one among them.

    Raises:
        OSError: nothing is delegated, or not enough.
    """
    base = delegated()
    offered = (base / "cgroup.controllers").read_text().split()
    if missing := [name for name in NEEDED if name not in offered]:
        raise OSError(
            f"{base} has no controller {missing[0]}; it has {' '.join(offered) or 'none'}"
        )
    if not _is_root(base):
        # Before controllers are turned on: the kernel refuses them to a group that has processes.
        _empty(base)
    on = (base / "cgroup.subtree_control").read_text().split()
    # One write for each: of several in one the kernel takes all or none.
    for name in (*NEEDED, *WANTED):
        if name in offered and name not in on:
            try:
                (base / "cgroup.subtree_control").write_text(f"+{name}")
            except OSError:
                if name in NEEDED:
                    raise
    with contextlib.suppress(OSError):  # the grader serves all sandboxes, which have 100 each
        (base / _LEAF / "cpu.weight").write_text("400")
    _sweep(base)
    return base


def delegated() -> Path:
    """The group that was given to us, to divide as we like.

    Raises:
        OSError: none was; the message says what to do.
    """
    group = own_group()
    # Once `_empty` has run, this process and its forks are in the leaf.
    base = group.parent if group.name == _LEAF else group
    if not os.access(base / "cgroup.procs", os.W_OK) or not os.access(base, os.W_OK):
        raise OSError(f"{base} was not delegated to this account; start the grader by `{_HOW}`")
    if _is_root(base) or base == _mount()[0] or _says_delegated(base):
        return base
    # Without a mark, ours begins where the group above is not ours to write. Where it is, this one
    # is kept by whoever divides that, such as systemd's user manager.
    if os.access(base.parent / "cgroup.procs", os.W_OK):
        raise OSError(f"{base} is kept by others; start the grader by `{_HOW}`")
    return base


def own_group() -> Path:
    """The folder of this process's group.

    Raises:
        OSError: there are no control groups of version 2 here.
    """
    mount, root = _mount()
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::/"):
            path = os.path.relpath(line[3:], root)
            if path.startswith(".."):
                raise OSError(f"this process's group {line[3:]} lies outside of {mount}")
            return mount / path if path != "." else mount
    raise OSError("this process is in no group of version 2")


def _mount() -> tuple[Path, str]:
    """Where version 2 is mounted, and which group that folder is."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        if rest.split()[0] == "cgroup2":
            columns = fields.split()
            # mountinfo writes a space in a path as \040.
            return Path(columns[4].encode().decode("unicode_escape")), columns[3]
    raise OSError("control groups of version 2 are not mounted here")


def _is_root(group: Path) -> bool:
    """Whether it is the machine's first group, which may hold processes beside controllers."""
    return not (group / "cgroup.type").exists()


def _says_delegated(group: Path) -> bool:
    """systemd's mark of a group that it leaves to others."""
    for name in ("trusted.delegate", "user.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(group, name) == b"1":
                return True
    return False


def _empty(base: Path) -> None:
    """Move the processes of a group into one below it."""
    leaf = base / _LEAF
    leaf.mkdir(exist_ok=True)
    for _ in range(100):  # one may start another meanwhile
        pids = (base / "cgroup.procs").read_text().split()
        if not pids:
            return
        for pid in pids:
            try:
                (leaf / "cgroup.procs").write_text(pid)
            except OSError as error:
                if error.errno != errno.ESRCH:  # it has ended
                    raise
    raise OSError(f"{base} is never without processes")


def _sweep(base: Path) -> None:
    """Remove the empty groups that a killed grader has left."""
    for path in base.glob(f"{_PREFIX}[0-9]*-*-*"):
        with contextlib.suppress(ValueError):
            pid, started, _ = path.name.removeprefix(_PREFIX).split("-")
            if not ProcessId(int(pid), int(started)).alive():
                ControlGroup(path).close()


def _remove(path: Path) -> None:
    """Remove a group and those below it; a dying process may hold it for a moment."""
    deadline = time.monotonic() + 2
    for folder, _, _ in os.walk(path, topdown=False):
        while True:
            try:
                os.rmdir(folder)
                break
            except FileNotFoundError:
                break
            except OSError:
                if time.monotonic() > deadline:
                    return
                time.sleep(0.005)


def _table(path: Path) -> dict[str, int]:
    """The lines "name number" of a file; nothing where it is not there."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    return {pair[0]: int(pair[1]) for line in lines if len(pair := line.split()) == 2}


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return f"{error.filename or 'control groups'}: {error.strerror}"
    return str(error)
