"""Sandboxes that are warm: their libraries are imported once for all submissions.

Importing torch takes longer than most suites. So a *warm nursery* stays, a process in a sandbox
that has imported libraries, reads no submission, and waits; a submission's programs are forks of
it. The nursery of suites starts it (``autograder.grade.suite.nursery``); in a room ringside's own
nursery forks the simulated ranks::

    nursery of suites --fork--> keeper --bubblewrap--> warm nursery (numpy, torch)
    suite --request, descriptors-----------------> |--fork--> room: init --> nursery --> ranks
    suite --request, descriptors-----------------> |--fork--> room: init --> nursery --> ranks

Each fork shuts itself into a *room* before it runs a line of the program: namespaces, mounts, a
user and limits of its own, as bubblewrap would give it (``warm_room``). Two submissions share
nothing but the pages of the libraries, which a write copies.

Where the kernel refuses, or the nursery has gone, a program is started by bubblewrap as ever; it
finds the same files at the same places.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from autograder import scratch
from autograder.course.limits import Limits
from autograder.imports import imports_package
from autograder.sandbox import warm_nursery, warm_room
from autograder.sandbox.bubblewrap import outer_filter
from autograder.sandbox.sandbox import Process, Sandbox, Tier, best_tier, harmless

__all__ = ["WarmNursery", "WarmSandbox", "kinds_of", "known", "start"]

_INSIDE = Path("/warm")  # where the nursery sees the stages of all sandboxes
_IMPORTS = {
    "mpi": "import numpy, ringside.mpi",
    "torch": "import numpy, ringside.mpi, ringside.pytorch.preload",
    "mpiexec": "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; "
    "from ringside.network import codec; from ringside.ranks import seccomp",
}
_ANSWER_S = 120.0  # the nursery may still be importing


@dataclass(frozen=True)
class WarmNursery:
    """A warm nursery as its users see it.

    Attributes:
        control: where requests go.
        folder: what users put here lies below ``/warm`` inside.
        keeper: process id of what holds the sandbox.
        hold: when nobody has this open any more, the keeper ends, and removes the folder. It says
            here how the nursery ended, should it end before.
    """

    control: socket.socket
    folder: Path
    keeper: int
    hold: socket.socket

    def ended(self) -> int | None:
        """The nursery's exit status, None while it is there; asked once by who has started it."""
        if not select.select([self.hold], [], [], 0)[0]:
            return None
        answer = self.hold.recv(1)
        return answer[0] if answer else 1


class NurseryError(RuntimeError):
    """The nursery starts nothing (any more); the message says why."""


known: dict[str, WarmNursery] = {}  # of this process, inherited by its forks
_refused: set[str] = set()  # kinds that are not tried again
_gone: list[WarmNursery] = []  # nurseries that ended, whose folders may still be in use


def kinds_of(module: str, sources: Mapping[str, bytes]) -> tuple[str, str]:
    """The nurseries that a module's suite can use: for simulated ranks, and for real ones.

    Real ranks of torch need nothing that simulated ones don't: one nursery imports torch for both.

    Args:
        sources: the module's text, and those of its author's modules that it imports. One that
            needs no torch may import it; if each rank did so, they would use up their memory.
    """
    if module.endswith("_torch"):
        return "torch", "torch"
    imports_torch = any(imports_package(text, "torch") for text in sources.values())
    return "torch" if imports_torch else "mpi", "mpiexec"


def start(kinds: Sequence[str]) -> None:
    """Start what is not there yet; nothing where no sandbox can be kept warm.

    For a process without threads that lives as long as the nurseries are needed.
    """
    if (
        not sys.platform.startswith("linux")
        or best_tier(trust_submissions=True) not in Tier.IN_BUBBLEWRAP
    ):
        return
    for kind in kinds:
        status = known[kind].ended() if kind in known else None
        if status is not None:
            _gone.append(known.pop(kind))
        if status == warm_nursery.NO_ROOMS:
            _refused.add(kind)
        if kind not in known and kind not in _refused:
            known[kind] = _start(kind)


def let_go() -> None:
    """In a fork of the process that started nurseries: don't keep them."""
    for nursery in (*known.values(), *_gone):
        nursery.hold.close()


def stop() -> None:
    """End all nurseries of this process."""
    while known or _gone:
        nursery = known.popitem()[1] if known else _gone.pop()
        nursery.hold.close()
        nursery.control.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(nursery.keeper, 0)


def _start(kind: str) -> WarmNursery:
    folder = scratch.new("warm-")
    folder.chmod(0o755)
    for part in ("modules", "job"):
        (folder / "trial" / part).mkdir(parents=True)
    (folder / "trial" / "passwd").touch()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    hold, held = socket.socketpair()
    keeper = os.fork()
    if not keeper:
        try:
            _close_all_but(theirs.fileno(), held.fileno())
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a nursery's is ignored, a program's not
            signal.signal(signal.SIGTERM, lambda number, frame: None)  # it ends when nobody holds
            with contextlib.suppress(BrokenPipeError):
                held.send(bytes([_keep(kind, folder, theirs, held)]))
            # Until nobody holds: users may still have stages in the folder, which goes next.
            held.recv(1)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            # Not sys.exit: what is registered to run at the exit is the business of whoever forked.
            os._exit(0)
    theirs.close()
    held.close()
    return WarmNursery(ours, folder, keeper, hold)


def _close_all_but(*keep: int) -> None:
    """What whoever forked has open, other keepers' pipes and a suite's output, is not ours."""
    low = 3
    for number in sorted(keep):
        os.closerange(low, number)
        low = number + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def _keep(kind: str, folder: Path, control: socket.socket, held: socket.socket) -> int:
    """Hold the nursery until it ends, or nobody needs it; returns its exit status."""
    extra = {
        "warm_nursery.py": Path(str(warm_nursery.__file__)).read_bytes(),
        "room.py": Path(str(warm_room.__file__)).read_bytes(),
        "filter": outer_filter(),
    }
    with (
        scratch.fresh("empty-") as empty,
        Sandbox(empty, extra=extra, binds={str(_INSIDE): folder}, nests=True) as sandbox,
    ):
        command = [
            sandbox.python,
            "-I",
            str(sandbox.job_path / "warm_nursery.py"),
            str(control.fileno()),
        ]
        process = sandbox.popen([*command, _IMPORTS[kind]], pass_fds=(control.fileno(),))
        process.watchdog.stop()  # each user watches over its own processes
        # Were it open here, a request to a nursery that is gone would wait instead of failing.
        control.close()
        end = os.pidfd_open(process.pid)
        select.select([held.fileno(), end], [], [])
        return (process.poll() or 0) & 0xFF


class WarmSandbox(Sandbox):
    """A ``Sandbox`` whose programs, ``python -I ...``, are forks of a nursery's where they can be.

    Attributes:
        num_warm: how many of its programs are forks; the others were started by bubblewrap.
    """

    def __init__(
        self,
        nursery: WarmNursery,
        modules: Path,
        *,
        files: Sequence[str] | None = None,
        extra: Mapping[str, bytes] | None = None,
        pipes: int = 0,
        limits: Limits | None = None,
        proc: bool = True,
    ) -> None:
        self._nursery = nursery
        self.num_warm = 0
        stage = Path(tempfile.mkdtemp(dir=nursery.folder))
        stage.chmod(0o755)  # so that a nursery that is not root's finds it
        super().__init__(
            modules,
            files=files,
            extra=extra,
            pipes=pipes,
            limits=limits,
            tier=best_tier(trust_submissions=True),
            stage=stage,
            proc=proc,
        )

    def popen(
        self,
        argv: Sequence[str],
        pass_fds: Sequence[int] = (),
        env: Mapping[str, str] | None = None,
    ) -> Process:
        """Fork a Python inside, as if it had been started with these words."""
        if list(argv[:2]) != [self.python, "-I"]:
            return super().popen(argv, pass_fds, env)
        environment = {**harmless(env or {}), "PWD": "/tmp"}  # which bubblewrap adds
        request = {"words": list(argv[2:]), "env": environment, "numbers": list(pass_fds)}
        try:
            forked = _Forked(self._nursery, argv, {**request, "room": self._room()}, pass_fds)
        except NurseryError:
            return super().popen(argv, pass_fds, env)
        self.num_warm += 1
        namespace = os.open(f"/proc/{forked.pid}/ns/pid", os.O_RDONLY)
        group = self._group()
        process = Process(forked, self.limits, namespace, group=group)
        self._processes.append(process)
        if group is not None:
            group.adopt(forked.pid)
        forked.go()  # now that it is watched
        return process

    def _room(self) -> Mapping[str, object]:
        limits = {
            "RLIMIT_NPROC": self._nproc(),
            "RLIMIT_CPU": self.limits.process_cpu_s,
            "RLIMIT_CORE": 0,
            "RLIMIT_AS": self.limits.address_space_bytes,
            "RLIMIT_FSIZE": self.limits.written_file_bytes,
            "RLIMIT_NOFILE": self.limits.open_files,
        }
        return {
            "stage": str(_INSIDE / self._stage.name),
            "hide": str(_INSIDE),
            "uid": self._become(),
            "tmp_bytes": self.limits.tmp_bytes,
            "shm_bytes": self.limits.shm_bytes,
            "proc": self._proc,
            "limits": limits,
        }


class _Forked:
    """A fork of a nursery, with what ``Process`` needs of ``subprocess.Popen``.

    Its watchdog and who waits for it ask from two threads; so what they ask stays open.
    """

    def __init__(
        self,
        nursery: WarmNursery,
        argv: Sequence[str],
        request: Mapping[str, object],
        fds: Sequence[int],
    ) -> None:
        self.args = list(argv)
        self.returncode: int | None = None
        self._ending = threading.Lock()
        self._life, theirs = socket.socketpair()
        weakref.finalize(self, self._life.close)
        read, write = os.pipe()
        self.stdout: IO[bytes] = open(read, "rb", buffering=0)  # noqa: SIM115
        try:
            # The kernel tells which process it was that answered, in our numbers.
            self._life.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            text = json.dumps(request).encode()
            try:
                socket.send_fds(nursery.control, [text], [theirs.fileno(), write, *fds])
            finally:
                theirs.close()
                os.close(write)
            self._life.settimeout(_ANSWER_S)
            answer, about, _, _ = self._life.recvmsg(512, socket.CMSG_SPACE(12))
            if answer[:1] != warm_room.THERE:
                raise NurseryError(answer[1:].decode("utf-8", "replace") or "the nursery has ended")
            # struct ucred: pid, uid, gid, an int each. Until `go` the number can't be another's.
            self.pid = array.array("i", about[0][2][:12])[0]
            self._end = os.pidfd_open(self.pid)
            weakref.finalize(self, os.close, self._end)
        except (OSError, NurseryError) as error:
            self._life.close()
            self.stdout.close()
            raise NurseryError(str(error)) from error
        self._life.setblocking(False)

    def go(self) -> None:
        """Let the program begin."""
        with contextlib.suppress(BrokenPipeError):  # it has been killed
            self._life.send(warm_room.GO)

    def poll(self) -> int | None:
        return self._wait(0.0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._wait(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return status

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._end], [], [], timeout)[0]:
            with self._ending:
                if self.returncode is None:
                    # The byte comes once: one of two threads takes it, the other finds the status.
                    answer = self._life.recv(1)
                    # Its init told nothing, so it was killed, and all that was in the room with it.
                    self.returncode = answer[0] if answer else -signal.SIGKILL
        return self.returncode
