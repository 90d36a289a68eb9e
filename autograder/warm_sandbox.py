"""Sandboxes that are warm, for verification: their libraries are imported once for all mutants.

Importing torch takes longer than most suites. A *warm* sandbox is one that stays, with a process
inside that has imported libraries and waits; a submission's processes are forks of it::

    nursery --fork--> keeper --bubblewrap--> host (numpy, torch; reads no submission)
    suite ---request, descriptors------------> |--fork--> zygote --fork--> ranks
    suite ---request, descriptors------------> |--fork--> zygote --fork--> ranks

So two submissions never share a process, but they share namespaces, a user and a /tmp. That is
enough for mutants, which are ours; what students hand in is always graded in a sandbox of its own.
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from autograder import scratch, warm_host
from autograder.sandbox import Limits, Process, Sandbox, Tier, best_tier, harmless

__all__ = ["Host", "WarmSandbox", "kinds_of", "known", "start"]

_INSIDE = Path("/warm")
_REAL = "from ringside import codec, seccomp"
_IMPORTS = {
    "mpi": "import numpy, ringside.mpi",
    "torch": "import numpy, ringside.mpi, ringside.pytorch.preload",
    "mpiexec": f"import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; {_REAL}",
    "gloo": "import torch, torch._dynamo, torch.distributed, torch.nn.parallel, torch.optim; "
    f"torch.set_num_threads(1); from ringside.pytorch import tensors; {_REAL}",
}
_ANSWER_S = 120.0  # the host may still be importing


@dataclass(frozen=True)
class Host:
    """A host as its users see it.

    Attributes:
        control: where requests go.
        folder: what users put here lies below ``/warm`` inside.
        keeper: process id of what holds the sandbox.
        hold: when nobody has this open any more, the keeper ends.
    """

    control: socket.socket
    folder: Path
    keeper: int
    hold: int

    def alive(self) -> bool:
        """Whether there is still somebody to ask; for the process that has started it."""
        with contextlib.suppress(ChildProcessError):
            return os.waitpid(self.keeper, os.WNOHANG) == (0, 0)
        return False


known: dict[str, Host] = {}  # of this process, inherited by its forks


def kinds_of(module: str) -> tuple[str, str]:
    """The hosts that a module's suite can use: for simulated ranks, and for real ones."""
    return ("torch", "gloo") if module.endswith("_torch") else ("mpi", "mpiexec")


def start(kinds: Sequence[str]) -> None:
    """Start what is not there yet; nothing where no sandbox can be kept warm.

    For a process without threads that lives as long as the hosts are needed.
    """
    if (
        not sys.platform.startswith("linux")
        or best_tier(trust_submissions=True) not in Tier.IN_BUBBLEWRAP
    ):
        return
    for kind in kinds:
        if kind in known and not known[kind].alive():
            _forget(kind)
        if kind not in known:
            known[kind] = _start(kind)


def let_go() -> None:
    """In a fork of the process that started hosts: don't keep them."""
    for host in known.values():
        with contextlib.suppress(OSError):
            os.close(host.hold)


def stop() -> None:
    """End all hosts of this process."""
    for kind in list(known):
        _forget(kind)


def _forget(kind: str) -> None:
    host = known.pop(kind)
    os.close(host.hold)
    host.control.close()
    with contextlib.suppress(ChildProcessError):
        os.waitpid(host.keeper, 0)


def _start(kind: str) -> Host:
    folder = scratch.new("warm-")
    folder.chmod(0o755)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    read, write = os.pipe()
    keeper = os.fork()
    if not keeper:
        try:
            _close_all_but(theirs.fileno(), read)
            _keep(kind, folder, theirs, read)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)
    theirs.close()
    os.close(read)
    return Host(ours, folder, keeper, write)


def _close_all_but(*keep: int) -> None:
    """What whoever forked has open, other keepers' pipes and a suite's output, is not ours."""
    low = 3
    for number in sorted(keep):
        os.closerange(low, number)
        low = number + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def _keep(kind: str, folder: Path, control: socket.socket, hold: int) -> None:
    """Hold the sandbox until it ends, or nobody needs it."""
    extra = {"host.py": Path(str(warm_host.__file__)).read_bytes()}
    limits = Limits(memory_bytes=8 << 30)  # each user watches over its own processes
    binds = {str(_INSIDE): folder}
    with (
        scratch.fresh("empty-") as empty,
        Sandbox(empty, extra=extra, limits=limits, binds=binds) as sandbox,
    ):
        words = [sandbox.python, "-I", str(sandbox.job_path / "host.py"), str(control.fileno())]
        process = sandbox.popen([*words, _IMPORTS[kind]], pass_fds=(control.fileno(),))
        control.close()
        end = os.pidfd_open(process.pid)
        select.select([hold, end], [], [])


class WarmSandbox(Sandbox):
    """A ``Sandbox`` whose processes are forks of a host's; ``argv`` must be ``python -I ...``."""

    def __init__(
        self,
        host: Host,
        modules: Path,
        *,
        files: Sequence[str] | None = None,
        extra: Mapping[str, bytes] | None = None,
        pipes: int = 0,
        limits: Limits | None = None,
    ) -> None:
        self._host = host
        stage = Path(tempfile.mkdtemp(dir=host.folder))
        stage.chmod(0o755)
        super().__init__(
            modules,
            files=files,
            extra=extra,
            pipes=pipes,
            limits=limits,
            tier=Tier.BUBBLEWRAP,
            stage=stage,
        )
        self.modules_path = _INSIDE / stage.name / "modules"
        self.job_path = _INSIDE / stage.name / "job"

    def popen(
        self,
        argv: Sequence[str],
        pass_fds: Sequence[int] = (),
        env: Mapping[str, str] | None = None,
    ) -> Process:
        """Fork a Python inside, as if it had been started with these words."""
        if list(argv[:2]) != [self.python, "-I"]:
            raise ValueError(f"a warm sandbox runs python -I, not {' '.join(argv[:2])}")
        request = {"words": list(argv[2:]), "env": harmless(env or {}), "numbers": list(pass_fds)}
        process = Process(_Forked(self._host, argv, request, pass_fds), self.limits)
        self._processes.append(process)
        return process


class _Forked:
    """A fork of a host, with what ``Process`` needs of ``subprocess.Popen``."""

    def __init__(
        self, host: Host, argv: Sequence[str], request: Mapping[str, object], fds: Sequence[int]
    ) -> None:
        self.args = list(argv)
        self.returncode: int | None = None
        self._life, theirs = socket.socketpair()
        read, write = os.pipe()
        self.stdout: IO[bytes] = open(read, "rb", buffering=0)  # noqa: SIM115
        try:
            # The kernel tells which process it was that answered, in our numbers.
            self._life.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            text = json.dumps(request).encode()
            socket.send_fds(host.control, [text], [theirs.fileno(), write, *fds])
        finally:
            theirs.close()
            os.close(write)
        self._life.settimeout(_ANSWER_S)
        said, about, _, _ = self._life.recvmsg(1, socket.CMSG_SPACE(12))
        if said != b"!":
            raise RuntimeError("the process that keeps libraries loaded in a sandbox has ended.")
        self.pid = array.array("i", about[0][2][:12])[0]
        self._end = os.pidfd_open(self.pid)
        self._life.setblocking(False)

    def poll(self) -> int | None:
        return self._wait(0.0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._wait(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return status

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._end], [], [], timeout)[0]:
            try:
                told = self._life.recv(1)
            except BlockingIOError:  # a rank of it has this open, and will not for long
                told = b""
            self.returncode = told[0] if told else -signal.SIGKILL
            os.close(self._end)
            self._life.close()
        return self.returncode
