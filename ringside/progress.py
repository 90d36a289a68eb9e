"""What a long command is at, on a terminal: one line that changes, and that leaves no trace.

    ring.py:all_reduce on 64 ranks, 12 s

It stands on standard error, and only if that is a terminal: nothing of it gets into a pipe or a
log. It comes after two seconds, so what is quick says nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO, TextIO

__all__ = ["Progress", "Waiting", "waiting"]

_AFTER_S = 2.0
_TICK_S = 1.0


class Progress:
    """A line on a terminal that is written anew; elsewhere nothing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream if stream.isatty() else None

    @property
    def shown(self) -> bool:
        """Whether anybody sees it."""
        return self._stream is not None

    def show(self, line: str) -> None:
        """Put a line in the place of the last one."""
        if self._stream is not None:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"\r\x1b[K{line[:width]}")
            self._stream.flush()

    def clear(self) -> None:
        """Leave an empty line."""
        self.show("")


class Waiting:
    """Says what is waited for, and for how long, until it is told that it has come."""

    def __init__(self, what: str, stream: TextIO, after_s: float | None = None) -> None:
        self._what = what
        self._line = Progress(stream)
        self._began = time.monotonic()
        self._after_s = _AFTER_S if after_s is None else after_s
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="progress", daemon=True)
        if self._line.shown:
            self._thread.start()

    def note(self, what: str) -> None:
        """Something else is waited for now."""
        with self._lock:
            self._what = what
        # Outside of the lock, which `_show` takes itself.
        self._show()

    def pass_on(self, source: IO[bytes], target: int) -> threading.Thread:
        """Write what comes from a pipe to a descriptor, each time in the place of the line."""

        def copy() -> None:
            while data := os.read(source.fileno(), 1 << 16):
                with self._lock:
                    self._line.clear()
                    while data:
                        data = data[os.write(target, data) :]

        thread = threading.Thread(target=copy, name="output", daemon=True)
        thread.start()
        return thread

    @property
    def shown(self) -> bool:
        """Whether anybody sees it."""
        return self._line.shown

    def end(self) -> None:
        """It has come: leave nothing on the terminal."""
        self._over.set()
        if self._line.shown:
            # Before the line is cleared: a late tick would write it again.
            self._thread.join()
            if self._showed:
                self._line.clear()

    @property
    def _showed(self) -> bool:
        return time.monotonic() - self._began >= self._after_s

    def _show(self) -> None:
        with self._lock:
            if self._showed and not self._over.is_set():
                self._line.show(f"{self._what}, {time.monotonic() - self._began:.0f} s")

    def _tick(self) -> None:
        while not self._over.wait(_TICK_S):
            self._show()


@contextlib.contextmanager
def waiting(
    what: str, stream: TextIO | None = None, after_s: float | None = None
) -> Iterator[Waiting]:
    """Say on a terminal what is waited for, and for how long; elsewhere nothing.

    Nothing else may write to the terminal meanwhile, but by `Waiting.pass_on`.
    """
    notice = Waiting(what, stream or sys.stderr, after_s)
    try:
        yield notice
    finally:
        notice.end()
