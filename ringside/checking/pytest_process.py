"""The pytest process that runs public tests: followed while it runs, and ended when asked.

It is a session of its own, so Ctrl-C in a terminal reaches this process alone, which asks the
other where it is before it ends it and all that it started. One socket pair lies between them::

    tests to us     {"do": "begin", "module": "ring", "test": "test_sum", "number": 3, "of": 17}
                    {"do": "end", "full": true}
                    {"do": "stopped", "still": ["rank 0 is computing at ring.py:12", ...]}
    us to tests     nothing; when our end closes, we are gone, and the tests end themselves
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ringside.errors import Interrupted, RingsideError
from ringside.progress import Progress

_TEST_S = 300.0  # of one test: its calls have limits of their own, which are met long before
_STOP_S = 5.0  # to say where it is, when it is stopped
_TICK_S = 1.0


class TestsError(RingsideError):
    """A test that doesn't end, whatever limits its calls have."""

    __test__ = False  # for pytest, which looks for classes named Test...


class Told:
    """What the tests have told so far."""

    def __init__(self) -> None:
        self.test: dict[str, Any] | None = None  # the last that has begun
        self.begun = time.monotonic()
        self.num_failed = 0
        self.stopped = False
        self.still: tuple[str, ...] = ()  # where ranks were then

    def take(self, told: Mapping[str, Any]) -> None:
        """One line of theirs."""
        if told["do"] == "begin":
            self.test, self.begun = dict(told), time.monotonic()
        elif told["do"] == "end":
            self.num_failed += not told["full"]
        elif told["do"] == "stopped":
            self.stopped, self.still = True, tuple(told["still"])

    @property
    def seconds(self) -> float:
        """Since the present test began."""
        return time.monotonic() - self.begun

    @property
    def name(self) -> str:
        """The present test, as it reads."""
        return f"{self.test['module']}'s test {sentence(self.test['test'])!r}" if self.test else ""

    @property
    def line(self) -> str:
        """How far it is."""
        if self.test is None:
            return "starting the tests"
        failed = f", {self.num_failed} failed" if self.num_failed else ""
        return (
            f"{self.test['module']} {self.test['number']}/{self.test['of']}{failed}: "
            f"{sentence(self.test['test'])}, {self.seconds:.0f} s"
        )


def follow(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    output: IO[bytes],
    *,
    test_s: float = _TEST_S,
) -> int:
    """Run pytest in a folder, show on a terminal how far it is, and return its exit status.

    Args:
        words: what comes after ``pytest``.
        output: takes what it prints.
        test_s: the longest time that one test may take.

    Raises:
        Interrupted: the reader stopped it.
        TestsError: a test took longer.
    """
    ours, theirs = socket.socketpair()
    with ours:
        # Closed here once pytest has it: while we hold it, the end of pytest doesn't show at ours.
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *words, f"--ringside-tell={theirs.fileno()}"],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        report, progress = Told(), Progress(sys.stderr)
        lines = _Lines(ours)
        try:
            while lines.open:
                progress.show(report.line)
                for message in lines.wait(_TICK_S):
                    report.take(message)
                    progress.show(report.line)
                if report.seconds > test_s:
                    what = report.name or "collecting the tests"
                    raise TestsError(f"{what} did not end within {test_s:g} s.")
            return process.wait()
        except KeyboardInterrupt:
            doing = f" in {report.name} after {report.seconds:.0f} s" if report.test else ""
            with contextlib.suppress(KeyboardInterrupt):  # the reader may be in a hurry
                process.send_signal(signal.SIGINT)
                until = time.monotonic() + _STOP_S
                while lines.open and not report.stopped and (rest := until - time.monotonic()) > 0:
                    for message in lines.wait(rest):
                        report.take(message)
            raise Interrupted(report.still, doing) from None
        finally:
            progress.clear()
            if process.returncode is None:
                _end_all(process)


def _end_all(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started: they are of its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: a group of zombies
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class _Lines:
    """JSON lines that come over a socket, until its other end closes."""

    def __init__(self, sock: socket.socket) -> None:
        self.open = True
        self._sock = sock
        self._text = b""

    def wait(self, timeout_s: float) -> Iterator[dict[str, Any]]:
        """Those that come, waiting for the first at most so long."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._sock, selectors.EVENT_READ)
            if not selector.select(timeout_s):
                return
        with contextlib.suppress(ConnectionResetError):
            data = self._sock.recv(1 << 16)
            self._text += data
            self.open = bool(data)
        *whole, self._text = self._text.split(b"\n")
        yield from map(json.loads, whole)


class Teller:
    """The tests' end: tells how far they are, and ends them when nobody listens any more."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor  # closed by the kernel, after all else has ended
        threading.Thread(target=self._wait, name="listener", daemon=True).start()

    def _wait(self) -> None:
        with contextlib.suppress(OSError):
            while os.read(self._descriptor, 1):
                pass
        # Only as the leader of its group: in somebody else's it would kill them.
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)

    def tell(self, **told: Any) -> None:
        """Send one line."""
        with contextlib.suppress(OSError):  # whoever listened is gone, and the thread sees it
            os.write(self._descriptor, json.dumps(told).encode() + b"\n")


def sentence(name: str) -> str:
    """A test's name as it reads.

    >>> sentence("test_sum_on_four_ranks[ring:all_reduce]")
    'sum on four ranks (all_reduce)'
    """
    stem, _, case = name.removeprefix("test_").partition("[")
    text = stem.replace("_", " ")
    return f"{text} ({case.rstrip(']').rpartition(':')[2]})" if case else text
