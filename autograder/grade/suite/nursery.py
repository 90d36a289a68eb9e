"""The nursery of suites: it has imported all that a suite needs, and forks a process for each.

Importing pytest and NumPy, copying the kit and trying the sandbox take longer than most tests.
So a *nursery*, a fresh process that is started once for a grader, does that and then forks::

    grader  --request, pipe for output-->  nursery  --fork-->  pytest test_ring.py
            <------- process id ---------           --fork-->  pytest test_star.py

The nursery reads no submission and runs no suite: every suite begins in the same clean state.
When its grader ends, however it ends, the nursery kills what it has started, removes the run's
folder and ends too; when the nursery is killed, the kernel kills its suites.

Four more processes are nurseries: they hold libraries, read no submission, and fork::

    autograder.sandbox.warm_nursery     programs, each into a room; in a sandbox
    autograder.grade.real_ranks.mpi_nursery   ranks of mpiexec; in a submission's sandbox or room
    autograder.grade.real_ranks.gloo_nursery  ranks of gloo or NCCL; there, too
    ringside.ranks                      simulated ranks; there, too

They share no framing of requests: those of ``real_ranks`` are asked once, by their command line;
the warm one is copied alone into its sandbox; and ringside's, which students have, imports nothing
of ours. Here a request is a line of JSON, and the suite's output comes with it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from autograder import scratch

__all__ = ["close", "run"]

_KIT = Path(__file__).resolve().parents[3]
_START = "from autograder.grade.suite.nursery import serve; serve({fd}, {scratch!r})"
_KEEP_BYTES = 1 << 20
_GOODBYE = b"null\n"  # in the place of a request; a grader that was killed says none
_DYING_S = 5.0
_PR_SET_PDEATHSIG = 1


def run(arguments: Sequence[str], folder: Path, timeout_s: float, warm: Sequence[str] = ()) -> str:
    """Run pytest with the grader's plugin in a process of its own; returns what it wrote.

    Args:
        arguments: pytest's command line, without the program.
        folder: the working folder.
        timeout_s: after so many seconds it is killed, and the output ends with a note of that.
        warm: the nurseries of ``warm_sandbox`` that it may use.
    """
    read, write = os.pipe()
    try:
        try:
            pid = _nursery().fork(arguments, folder, write, warm)
        finally:
            # The suite alone holds the writing end now, so what is read ends when the suite does.
            os.close(write)
        output, ended = _read(read, time.monotonic() + timeout_s)
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                # It leads a group (`_become`), so what it has started ends with it.
                os.killpg(pid, signal.SIGKILL)
            output += _read(read, time.monotonic() + 5.0)[0]
            output += f"\nkilled after {timeout_s:g} s".encode()
    finally:
        os.close(read)
    return output.decode("utf-8", "replace")


def _read(pipe: int, deadline: float) -> tuple[bytes, bool]:
    """What comes until the writers have ended (True) or the deadline is met."""
    output = bytearray()
    while (remaining_s := deadline - time.monotonic()) > 0:
        if select.select([pipe], [], [], remaining_s)[0]:
            piece = os.read(pipe, 1 << 16)
            if not piece:
                return bytes(output), True
            output += piece[: max(0, _KEEP_BYTES - len(output))]
    return bytes(output), False


class _Nursery:
    """The grader's end; threads may use it at once."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair()
        path = os.pathsep.join(filter(None, [str(_KIT), os.environ.get("PYTHONPATH", "")]))
        environment = {
            **os.environ,
            "OPENBLAS_NUM_THREADS": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": path,
        }
        start = _START.format(fd=theirs.fileno(), scratch=str(scratch.folder()))
        self._process = subprocess.Popen(
            [sys.executable, "-c", start],
            pass_fds=(theirs.fileno(),),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()

    def alive(self) -> bool:
        return self.owner == os.getpid() and self._process.poll() is None

    def fork(
        self, arguments: Sequence[str], folder: Path, output: int, warm: Sequence[str] = ()
    ) -> int:
        """Process id of a new suite, which writes to ``output``."""
        request = {"arguments": list(arguments), "folder": str(folder), "warm": list(warm)}
        # An answer names no request: one request and its answer at a time.
        with self._lock, contextlib.suppress(ConnectionError):
            with contextlib.suppress(BrokenPipeError):  # it may have said why
                socket.send_fds(self._control, [json.dumps(request).encode() + b"\n"], [output])
            answer = self._control.recv(1 << 12).decode()
            if answer.startswith("!"):
                raise RuntimeError(f"the process that starts suites can't: {answer[1:]}")
            if answer:
                return int(answer)
        raise RuntimeError("the process that starts suites has ended; its message is above.")

    def close(self) -> None:
        if self.owner == os.getpid():
            with self._lock, contextlib.suppress(OSError):
                self._control.sendall(_GOODBYE)
        self._control.close()
        if self.owner == os.getpid():
            self._process.wait()


_started: list[_Nursery] = []
_starting = threading.Lock()


def _nursery() -> _Nursery:
    """This process's nursery; a new one where there is none, or where it has died."""
    with _starting:
        if not _started or not _started[0].alive():
            while _started:
                _started.pop().close()
            _started.append(_Nursery())
        return _started[0]


def start() -> None:
    """Start the nursery before its first suite: it clears up where the grader is killed."""
    _nursery()


@atexit.register
def close() -> None:
    """End the nursery; whoever asks for a suite afterwards starts another one."""
    with _starting:
        while _started:
            _started.pop().close()


# -- in the nursery --------------------------------------------------------------------------------


def serve(fd: int, run: str) -> None:
    """Fork a suite for every request on the socket ``fd``, until it closes.

    Args:
        run: the grader's scratch folder, which is ours too.
    """
    if not scratch.join(Path(run)):
        return  # the grader was killed, and another one has cleared up after it
    tempfile.tempdir = run  # for all suites: each would try a folder with a file that a kill leaves
    import pytest

    from autograder.grade.suite import plugin
    from autograder.sandbox import sandbox, warm_sandbox

    control = socket.socket(fileno=fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        sandbox.prepare()
    except Exception as error:
        return _refuse(control, error)
    gc.collect()
    gc.freeze()  # what is there now stays in pages that all suites share
    parent_pid, children, dying_s = os.getpid(), set[int](), _DYING_S
    try:
        for request, output in _requests(control):
            if request is None:
                dying_s = 0.0
                break
            # Nobody else reaps: a number in here is no other process's when it is killed below.
            children = {pid for pid in children if os.waitpid(pid, os.WNOHANG) == (0, 0)}
            try:
                # Here and not in the suite: it serves suites to come, and forks where no thread is.
                warm_sandbox.start(request["warm"])
                pid = os.fork()
            except Exception as error:  # no room, no memory: others still run
                os.close(output)
                _refuse(control, error)
                continue
            if not pid:
                status = 1
                try:
                    control.close()
                    warm_sandbox.let_go()
                    _become(request, output, parent_pid)
                    status = pytest.main(request["arguments"], plugins=[plugin])
                except BaseException:
                    traceback.print_exc()
                finally:
                    _leave(status)
            os.close(output)
            children.add(pid)
            with contextlib.suppress(ConnectionError):  # the next request says that it is gone
                control.sendall(b"%d\n" % pid)
    finally:
        for pid in children:
            for kill in (os.killpg, os.kill):  # it may not have a group of its own yet
                with contextlib.suppress(ProcessLookupError):
                    kill(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)
        warm_sandbox.stop()
        scratch.leave(dying_s)  # the grader may not be all gone yet


def _refuse(control: socket.socket, error: Exception) -> None:
    """Say why there is no suite."""
    with contextlib.suppress(ConnectionError):
        control.sendall(f"!{type(error).__name__}: {error}".encode()[: 1 << 12])


def _requests(control: socket.socket) -> Iterator[tuple[dict[str, Any] | None, int]]:
    """One at a time: the grader waits for the answer before it asks again. None is its goodbye."""
    while True:
        try:
            text, held, _, _ = socket.recv_fds(control, 1 << 16, 1)
            while text and not text.endswith(b"\n"):
                more = control.recv(1 << 16)
                text = text + more if more else b""
        except ConnectionError:
            return
        if not text:
            return
        yield json.loads(text), held[0] if held else -1


def _become(request: dict[str, Any], output: int, nursery: int) -> None:
    """Leave the nursery's session, folder and output, and end when it does."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
        # If the nursery died before the call above, no signal will come.
        if os.getppid() != nursery:
            os._exit(1)
    os.setsid()
    os.chdir(request["folder"])
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(status: int) -> None:
    """End without the nursery's own clearing up."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
