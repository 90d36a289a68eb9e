"""Start what holds student code where it sees nothing of the course and leaves nothing behind.

    with Sandbox(folder, files=["ring.py"]) as sandbox:
        process = sandbox.popen([sandbox.python, "-I", "-c", BOOTSTRAP, "5"], pass_fds=(5,))
        ...
        process.kill()
        assert not sandbox.survivors()

The best tier that this machine gives is used, and named in the report:

    cgroups      bubblewrap as below, in a control group that the kernel holds to its limits
    bubblewrap   namespaces of its own, resource limits, a watchdog on memory
    landlock     no namespaces: resource limits and the watchdog; what each rank may do is held
                 by ``ringside.ranks.confine`` alone, as it is inside bubblewrap too. Where root
                 grades, all that runs a submission is another user's, who owns nothing
    none         the same without any promise, when told that submissions are trusted

The tier changes no score: limits that submissions can meet are the same on all.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import platform
import shutil
import site
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from autograder import scratch
from autograder.course.limits import Limits
from autograder.sandbox import cgroups
from autograder.sandbox.bubblewrap import (
    arguments,
    has_disable_userns,
    limiter,
    start,
    start_bubblewrap,
)
from autograder.sandbox.files import copy_modules, kit, write_all
from autograder.sandbox.process import Process
from ringside.network.processes import Reading
from ringside.ranks import landlock

__all__ = ["Process", "Sandbox", "SandboxUnavailable", "Tier", "best_tier", "prepare"]

_ENVIRONMENT = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PATH": "/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "TMPDIR": "/tmp",
}
_ENVIRONMENT_ALLOWED = ("RINGSIDE_", "OMP_", "OPENBLAS_", "MKL_", "UCX_", "MPIR_", "FI_", "HYDRA_")
# What an MPI library complains of where there is no /sys and no network card.
_QUIET_MPI = {"UCX_LOG_LEVEL": "fatal", "HWLOC_HIDE_ERRORS": "2"}
_ENVIRONMENT_NEVER = ("RINGSIDE_COURSE", "RINGSIDE_SECRET", "RINGSIDE_KIT")
_FIRST_UID, _NUM_UIDS = 61184, 4000  # a range that no distribution gives to people
_counter = itertools.count()


class SandboxUnavailable(RuntimeError):
    """This machine can't confine submissions; the message says what to do."""


class Tier:
    """Names of the kinds of sandbox, best first."""

    CGROUPS = "bubblewrap with cgroups"
    BUBBLEWRAP = "bubblewrap with rlimits and a watchdog"
    LANDLOCK = "Landlock and seccomp with rlimits and a watchdog"
    NONE = "none (submissions trusted)"

    IN_BUBBLEWRAP = (CGROUPS, BUBBLEWRAP)


def best_tier(*, trust_submissions: bool = False) -> str:
    """The best tier that works here.

    Raises:
        SandboxUnavailable: none does, and submissions are not trusted.
    """
    reason = _bubblewrap_fails()
    if reason is None:
        return Tier.BUBBLEWRAP if cgroups_fail() else Tier.CGROUPS
    landlock_reason = _landlock_fails()
    if landlock_reason is None:
        return Tier.LANDLOCK
    if trust_submissions:
        return Tier.NONE
    raise SandboxUnavailable(
        f"no sandbox works on this machine. bubblewrap: {reason}. Landlock: {landlock_reason}. "
        "Install bubblewrap and allow user namespaces (Ubuntu: sysctl "
        "kernel.apparmor_restrict_unprivileged_userns=0). `autograder grade --trust-submissions` "
        "runs submissions with the rights of this account."
    )


class Sandbox:
    """A place for one submission: its modules, the kit, an interpreter, and nothing else.

    Args:
        modules: the submission's folder.
        files: the names that are taken from it, each a regular file, others are not there
            inside; None takes all its ``*.py`` files.
        extra: files that a run brings besides, name -> content; they are in ``job_path``.
        pipes: how many named pipes ``pipe0``, ``pipe1``, ... lie beside them, to bring bytes out;
            ``open_pipe`` gives their reading ends.
        devices: device files to show, where bubblewrap would hide them.
        tier: None for the best one.
        trust_submissions: whether to go on where no sandbox works.
        binds: path inside -> folder outside that is there too, read-only; bubblewrap alone.
        stage: an empty folder for the copies, to be removed at the end; None for a new one.
        proc: whether programs see one another in /proc. Real MPI needs it; where simulated ranks
            are to tell one another nothing, it must not be there.
        nests: for a program of ours that makes namespaces of its own for others' programs, and
            limits them: it keeps the rights that it takes.

    The thread that starts a process must live as long as the process: bubblewrap ends with it.
    """

    def __init__(
        self,
        modules: Path,
        *,
        files: Sequence[str] | None = None,
        extra: Mapping[str, bytes] | None = None,
        pipes: int = 0,
        limits: Limits | None = None,
        devices: Sequence[Path] = (),
        tier: str | None = None,
        trust_submissions: bool = False,
        binds: Mapping[str, Path] | None = None,
        stage: Path | None = None,
        nests: bool = False,
        proc: bool = True,
    ) -> None:
        self._nests = nests
        self._proc = proc
        self.tier = tier or best_tier(trust_submissions=trust_submissions)
        self.limits = limits or Limits()
        self._devices = tuple(devices)
        self.python = sys.executable
        self._processes: list[Process] = []
        self._binds = dict(binds or {})
        self._stage = stage or scratch.new("sandbox-")
        copy_modules(modules, self._stage / "modules", files)
        write_all(self._stage / "job", extra or {})
        for number in range(pipes):
            os.mkfifo(self._stage / "job" / f"pipe{number}")
            (self._stage / "job" / f"pipe{number}").chmod(0o666)  # whoever is inside writes
        inside = self.tier in Tier.IN_BUBBLEWRAP
        self.kit_path = Path("/kit") if inside else kit().parent
        self.modules_path = Path("/modules") if inside else self._stage / "modules"
        self.job_path = Path("/job") if inside else self._stage / "job"

    def popen(
        self,
        argv: Sequence[str],
        pass_fds: Sequence[int] = (),
        env: Mapping[str, str] | None = None,
    ) -> Process:
        """Start ``argv`` inside, with no environment but the harmless part of ``env`` and ours.

        It has the shape of a nursery's launcher: pass it as ``launcher=sandbox.popen``.
        """
        environment = harmless(env or {})
        if self.tier in Tier.IN_BUBBLEWRAP:
            process = self._popen_bubblewrap(argv, pass_fds, environment)
        else:
            uid = self._become() if self.tier == Tier.LANDLOCK else None
            if uid is not None:
                self._stage.chmod(0o711)  # whom it has become must find the modules
            command = [*limiter(self.limits, nproc=self._nproc(), uid=uid), *argv]
            popen = start(command, pass_fds, environment)
            process = Process(popen, self.limits)
        self._processes.append(process)
        return process

    def open_pipe(self, number: int) -> int:
        """The reading end of a named pipe, not blocking; open it before the writer starts."""
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        # A blocking open waits for a writer, and a submission may never become one.
        return os.open(self._stage / "job" / f"pipe{number}", flags)

    def kill(self) -> None:
        for process in self._processes:
            process.kill()

    def reading(self) -> Reading:
        """What all that was started here has used, and whether anything is awake."""
        readings = [process.reading() for process in self._processes]
        return Reading(
            sum(reading.cpu_s for reading in readings), any(reading.awake for reading in readings)
        )

    def lower_priority(self) -> None:
        """Let other submissions go first."""
        for process in self._processes:
            process.lower_priority()

    def survivors(self) -> list[int]:
        return sorted({pid for process in self._processes for pid in process.survivors()})

    def close(self) -> None:
        for process in self._processes:
            process.close()
        shutil.rmtree(self._stage, ignore_errors=True)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _popen_bubblewrap(
        self, argv: Sequence[str], pass_fds: Sequence[int], env: Mapping[str, str]
    ) -> Process:
        binds = {
            "/kit/ringside": kit(),
            "/modules": self._stage / "modules",
            "/job": self._stage / "job",
            "/etc/passwd": self._stage / "passwd",
            **self._binds,
        }
        uid = self._become()
        options = arguments(
            binds=binds,
            env=env,
            limits=self.limits,
            as_root=uid is not None,
            newest_options=has_disable_userns(),
            devices=self._devices,
            nests=self._nests,
            proc=self._proc,
        )
        limits = [] if self._nests else limiter(self.limits, nproc=self._nproc(), uid=uid)
        group = None if self._nests else self._group()
        try:
            enter = group.enter() if group else []
            popen, namespace, output = start_bubblewrap(
                options, [*limits, *argv], pass_fds, before=enter, nests=self._nests
            )
        except BaseException:
            if group:
                group.close()
            raise
        return Process(popen, self.limits, namespace, output, group)

    def _group(self) -> cgroups.ControlGroup | None:
        """A control group for one process and what it starts, in the tier that has them."""
        if self.tier != Tier.CGROUPS:
            return None
        return cgroups.ControlGroup.make(cgroups.delegated(), self.limits)

    def _become(self) -> int | None:
        """Whom a program becomes, started by root; written down where it looks for its name."""
        uid = _free_uid() if os.geteuid() == 0 else None
        passwd = f"student:x:{uid or 1000}:{uid or 1000}::/tmp:/bin/sh\n"
        (self._stage / "passwd").write_text(passwd)
        (self._stage / "passwd").chmod(0o644)
        return uid

    def _nproc(self) -> int:
        """The limit is on the user's processes; outside a namespace those of others count."""
        # Since Linux 5.14 each user namespace counts processes for itself. Root has no such
        # namespace, and becomes a user of its own for each sandbox (`_free_uid`).
        counted_apart = self.tier in Tier.IN_BUBBLEWRAP and _kernel() >= (5, 14)
        if counted_apart or os.geteuid() == 0:
            return self.limits.processes
        return self.limits.processes + _tasks_of_user()


def harmless(env: Mapping[str, str]) -> dict[str, str]:
    """The environment inside: ours, and the harmless part of ``env``."""
    allowed = {
        name: value
        for name, value in env.items()
        if name.startswith(_ENVIRONMENT_ALLOWED) and not name.startswith(_ENVIRONMENT_NEVER)
    }
    return {**_ENVIRONMENT, **_QUIET_MPI, **allowed}


def prepare() -> None:
    """Do what is done once a process, ahead of the first sandbox."""
    kit()
    with contextlib.suppress(SandboxUnavailable):  # whoever needs one will be told
        best_tier()


@functools.cache
def cgroups_fail() -> str | None:
    """Why sandboxes have no control groups here, found by trying; None if they have."""
    return cgroups.why_not() if sys.platform.startswith("linux") else f"not on {sys.platform}"


@functools.cache
def _bubblewrap_fails() -> str | None:
    """Why bubblewrap can't be used here, found by using it; None if it can."""
    if not sys.platform.startswith("linux"):
        return f"not on {sys.platform}"
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    needed = ("/usr/bin/prlimit", "/usr/bin/setpriv")
    if absent := [path for path in needed if not os.path.exists(path)]:
        return f"{absent[0]} is not there (package util-linux)"
    with scratch.fresh("probe-") as folder:
        # A module that can't be read inside would look like one that was not handed in.
        (folder / "module.py").touch()
        # With a tier: without one the sandbox would ask `best_tier`, and so this function again.
        sandbox = Sandbox(folder, tier=Tier.BUBBLEWRAP)
        read = f"import os, ctypes; open({str(sandbox.modules_path / 'module.py')!r}).close()"
        with sandbox:
            process = sandbox.popen(
                [sandbox.python, "-I", "-c", f"{read}; print('in', os.geteuid())"]
            )
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                return "it does not come to an end"
            output = process.output().strip()
    if process.returncode == 0 and output.startswith("in ") and output != "in 0":
        return None
    return output.splitlines()[-1] if output else f"exit status {process.returncode}"


@functools.cache
def _landlock_fails() -> str | None:
    """Why ranks can't be held by Landlock and seccomp alone; None if they can."""
    if not sys.platform.startswith("linux"):
        return f"not on {sys.platform}"
    if landlock.abi() < 1:
        return "this kernel has none, or a filter of the container's refuses it"
    for folder in site.getsitepackages():
        if (Path(folder) / "solutions").is_dir():
            return f"hidden suites lie in {folder}, which ranks must read"
    return _no_other_user() if os.geteuid() == 0 else None


def _no_other_user() -> str | None:
    """Why root can't have submissions run as another user, found by trying; None if it can.

    Landlock doesn't confine root: in a container without namespaces, what runs a submission must
    be somebody else who can read the interpreter, and whom we can kill.
    """
    if not os.path.exists("/usr/bin/setpriv"):
        return "/usr/bin/setpriv is not there (package util-linux): root can't become another user"
    with scratch.fresh("probe-") as folder:
        (folder / "module.py").touch()
        with Sandbox(folder, tier=Tier.LANDLOCK) as sandbox:
            read = f"import os, time; open({str(sandbox.modules_path / 'module.py')!r}).close()"
            read += "; print('as', os.geteuid(), flush=True); time.sleep(60)"
            process = sandbox.popen([sandbox.python, "-I", "-c", read])
            end = time.monotonic() + 20
            while "\n" not in process.output() and process.poll() is None:
                if time.monotonic() > end:
                    break
                time.sleep(0.02)
            process.kill()
            output = process.output().strip()
            if not output.startswith("as ") or output == "as 0":
                reason = output.splitlines()[-1] if output else f"exit status {process.returncode}"
                return f"root can't become another user here: {reason}"
            if sandbox.survivors():
                return "root can't kill another user's process here (CAP_KILL is missing)"
    return None


def _free_uid() -> int:
    """A user id that owns nothing; each sandbox its own, so that limits are its own too."""
    # A number comes again after 16 sandboxes of this process, and in one whose id is 250 away.
    return _FIRST_UID + (os.getpid() * 16 + next(_counter) % 16) % _NUM_UIDS


def _kernel() -> tuple[int, int]:
    major, minor, *_ = platform.release().split(".")
    digits = "".join(itertools.takewhile(str.isdigit, minor))
    return int(major), int(digits or 0)


def _tasks_of_user() -> int:
    total = 0
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == os.geteuid():
                total += len(os.listdir(f"/proc/{name}/task"))
    return total
