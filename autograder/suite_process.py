"""Start the process of one module's suite: a fork of one that has imported all it needs.

Importing pytest and NumPy, copying the kit and trying the sandbox take longer than most tests.
So a *nursery*, a fresh process that is started once a grader, does that and then forks::

    grader  --request, pipe for output-->  nursery  --fork-->  pytest test_ring.py
            <------- process id ---------           --fork-->  pytest test_star.py

The nursery reads no submission and runs no suite: every suite begins in the same clean state.
When its grader ends, however it ends, the nursery kills what it has started and ends too.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = ["close", "run"]

_KIT = Path(__file__).resolve().parent.parent
_START = "from autograder.suite_process import serve; serve({fd})"
_KEEP_BYTES = 1 << 20


def run(arguments: Sequence[str], folder: Path, timeout_s: float, warm: Sequence[str] = ()) -> str:
    """Run pytest with the grader's plugin in a process of its own; returns what it wrote.

    Args:
        arguments: pytest's command line, without the program.
        folder: the working folder.
        timeout_s: after so many seconds it is killed, and the output ends with a note of that.
        warm: the hosts of ``warm_sandbox`` that it may use.
    """
    read, write = os.pipe()
    try:
        try:
            pid = _nursery().fork(arguments, folder, write, warm)
        finally:
            os.close(write)
        output, ended = _read(read, time.monotonic() + timeout_s)
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            output += _read(read, time.monotonic() + 5.0)[0]
            output += f"\nkilled after {timeout_s:g} s".encode()
    finally:
        os.close(read)
    return output.decode("utf-8", "replace")


def _read(pipe: int, deadline: float) -> tuple[bytes, bool]:
    """What comes until the writers have ended (True) or the deadline is met."""
    kept = bytearray()
    while (left := deadline - time.monotonic()) > 0:
        if select.select([pipe], [], [], left)[0]:
            piece = os.read(pipe, 1 << 16)
            if not piece:
                return bytes(kept), True
            kept += piece[: max(0, _KEEP_BYTES - len(kept))]
    return bytes(kept), False


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
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START.format(fd=theirs.fileno())],
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
        with self._lock:
            socket.send_fds(self._control, [json.dumps(request).encode() + b"\n"], [output])
            answer = self._control.recv(64)
        if not answer:
            raise RuntimeError("the process that starts suites has ended; its message is above.")
        return int(answer)

    def close(self) -> None:
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


@atexit.register
def close() -> None:
    """End the nursery; whoever asks for a suite afterwards starts another one."""
    with _starting:
        while _started:
            _started.pop().close()


# -- in the nursery --------------------------------------------------------------------------------


def serve(fd: int) -> None:
    """Fork a suite for every request on the socket ``fd``, until it closes."""
    import pytest

    from autograder import plugin, sandbox, warm_sandbox

    control = socket.socket(fileno=fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sandbox.prepare()
    gc.collect()
    gc.freeze()  # what is there now stays in pages that all suites share
    children: set[int] = set()
    try:
        for request, output in _requests(control):
            children = {pid for pid in children if os.waitpid(pid, os.WNOHANG) == (0, 0)}
            warm_sandbox.start(request["warm"])
            pid = os.fork()
            if not pid:
                control.close()
                warm_sandbox.let_go()
                _become(request, output)
                _leave(pytest.main(request["arguments"], plugins=[plugin]))
            os.close(output)
            children.add(pid)
            control.sendall(b"%d\n" % pid)
    finally:
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        warm_sandbox.stop()


def _requests(control: socket.socket) -> Iterator[tuple[dict[str, Any], int]]:
    """One at a time: the grader waits for the answer before it asks again."""
    while True:
        text, held, _, _ = socket.recv_fds(control, 1 << 16, 1)
        if not text:
            return
        while not text.endswith(b"\n"):
            text += control.recv(1 << 16)
        yield json.loads(text), held[0]


def _become(request: dict[str, Any], output: int) -> None:
    """Leave the nursery's session, folder and output."""
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
