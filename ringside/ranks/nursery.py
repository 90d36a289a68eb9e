"""The process that starts ranks, seen from outside; an idle one is kept for the next session.

A zygote holds libraries only and never reads a student's file, so sessions one after another may
have the same: a second run in a notebook finds numpy, and torch if it was used, loaded.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from ringside import kit
from ringside.errors import RingsideError

Launcher = Callable[[list[str], tuple[int, ...], dict[str, str]], "subprocess.Popen[bytes]"]

# What libraries do after a fork mends what other threads left undone, and the zygote has none; it
# costs a rank half a millisecond. Chance is seeded by the rank.
_BOOTSTRAP = (
    "import os, sys; os.register_at_fork = lambda **hooks: None; sys.path.insert(0, {kit!r}); "
    "from ringside.ranks.zygote import main; main({fd})"
)
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PATH": os.defpath}
_START_S = 60.0
_IMPORT_S = 120.0
_ANSWER_S = 20.0


def _plain_launcher(
    argv: list[str], fds: tuple[int, ...], env: dict[str, str]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv, pass_fds=fds, env=env, stdin=subprocess.DEVNULL, cwd=tempfile.gettempdir()
    )


class Nursery:
    """A zygote and the socket to it.

    Args:
        launcher: starts the zygote; the default starts it as a plain child process.
        kit_inside: the kit's root as the zygote sees it; default: where this package lies.

    Raises:
        RingsideError: it didn't start, here and in every method: it has ended, or doesn't answer.
    """

    def __init__(self, launcher: Launcher = _plain_launcher, kit_inside: str | None = None) -> None:
        self._owner = os.getpid()
        self._sound = True
        self._loaded: set[str] = set()
        self._loading = False  # whether it hasn't yet answered that it has
        self._num_worlds = 0
        self._control, theirs = socket.socketpair()
        bootstrap = _BOOTSTRAP.format(kit=kit_inside or str(kit.ROOT), fd=theirs.fileno())
        # -I: no module comes from the working directory or PYTHONPATH.
        argv = [sys.executable, "-I", "-c", bootstrap]
        try:
            self._process = launcher(argv, (theirs.fileno(),), _ENVIRONMENT)
        except BaseException:
            self._control.close()
            raise
        finally:
            theirs.close()
        try:
            self._listen(_START_S)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def usable(self) -> bool:
        """Whether it is this process's own, runs, and has answered everything."""
        return self._sound and self._owner == os.getpid() and self._process.poll() is None

    def preload(self, modules: list[str], *, wait: bool = True) -> None:
        """Let it import libraries, before the first rank that needs them.

        Args:
            wait: until it has; otherwise the next call of this or another method does, but
                for ``start``.
        """
        missing = [name for name in modules if name not in self._loaded]
        if missing:
            self._finish_loading()
            self._tell({"do": "preload", "modules": missing})
            self._loaded.update(missing)
            self._loading = True
        if wait:
            self._finish_loading()

    def _finish_loading(self) -> None:
        """Take the answer that a preload has still to give, so that none is another's."""
        if self._loading:
            self._listen(_IMPORT_S)
            self._loading = False

    def new_world(self) -> int:
        """A number for ranks that belong together."""
        self._num_worlds += 1
        return self._num_worlds

    def start(self, command: dict[str, Any], descriptors: list[int]) -> None:
        """Ask for a rank; whether there is one shows at its socket."""
        try:
            socket.send_fds(self._control, [_line({"do": "start", **command})], descriptors)
        except OSError as error:
            raise self._has_ended(error) from None

    def locate(self, world: int, ranks: list[int]) -> None:
        """Let some ranks of a world write down where they compute."""
        self._command({"do": "locate", "world": world, "ranks": ranks}, _ANSWER_S)

    def processes(self, world: int) -> list[int]:
        """The ranks of a world, as the zygote sees them."""
        pids: list[int] = json.loads(self._command({"do": "pids", "world": world}, _ANSWER_S))
        return pids

    def kill(self, world: int) -> None:
        """End the ranks of a world."""
        self._command({"do": "kill", "world": world}, _ANSWER_S)

    def close(self) -> None:
        """End it, and all ranks that it started."""
        self._sound = False
        self._control.close()
        if self._loading:  # it would end the import first
            self._process.kill()
        try:
            # The closed socket ends its loop, which kills its ranks; on Linux they die with it.
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _command(self, command: dict[str, Any], timeout_s: float) -> bytes:
        self._finish_loading()
        self._tell(command)
        return self._listen(timeout_s)

    def _tell(self, command: dict[str, Any]) -> None:
        try:
            self._control.sendall(_line(command))
        except OSError as error:
            raise self._has_ended(error) from None

    def _listen(self, timeout_s: float) -> bytes:
        """The line that it answers."""
        try:
            return self._line_of(timeout_s)
        except KeyboardInterrupt:  # its answer would be taken for the next command's
            self._sound = False
            raise

    def _line_of(self, timeout_s: float) -> bytes:
        answer = b""
        while not answer.endswith(b"\n"):
            with selectors.DefaultSelector() as selector:
                selector.register(self._control, selectors.EVENT_READ)
                if not selector.select(timeout_s):
                    self._sound = False
                    raise RingsideError("the process that starts ranks doesn't answer.")
            try:
                data = self._control.recv(1 << 14)
            except OSError as error:
                raise self._has_ended(error) from None
            if not data:
                raise self._has_ended()
            answer += data
        return answer

    def _has_ended(self, error: OSError | None = None) -> RingsideError:
        """What to say when the zygote is gone; a sandbox's process knows why it was killed."""
        self._sound = False
        reason = getattr(self._process, "killed_for", None) or error
        return RingsideError(
            "the process that starts ranks has ended"
            + (f" ({reason})" if reason else "")
            + "; `ringside doctor` says what works here."
        )


_idle: dict[int, Nursery] = {}  # by process: a fork of the caller must not share its parent's


def borrow() -> Nursery:
    """The idle one of this process if there is one, or a new one."""
    nursery = _idle.pop(os.getpid(), None)
    if nursery is not None:
        if nursery.usable:
            return nursery
        nursery.close()
    return Nursery()


def give_back(nursery: Nursery) -> None:
    """Keep one whose ranks are all gone for the next session, or end it."""
    if not nursery.usable or _idle.setdefault(os.getpid(), nursery) is not nursery:
        nursery.close()


@atexit.register
def _close_idle() -> None:
    nursery = _idle.pop(os.getpid(), None)
    if nursery is not None:
        with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C: it ends without us, too
            nursery.close()


def _line(command: dict[str, Any]) -> bytes:
    return json.dumps(command).encode() + b"\n"
