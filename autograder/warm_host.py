"""Inside a sandbox: a Python that has imported libraries, and forks for every program asked for.

    python -I host.py FD 'import numpy, ringside.mpi'

A request on the socket FD is a JSON text and descriptors: ``{"words": [...], "env": {...},
"numbers": [...]}``, and with it a socket that hears of the program, its output, and what it finds
under these numbers. ``words`` are those of ``python -I ...``: ``-c CODE`` or a file. The program's
process says ``!`` when it is there, and its exit status as another byte when it ends.

This process reads no student's file, and each program runs in a fork of its own.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import runpy
import shutil
import socket
import sys
import traceback
from typing import Any

_ABOVE = 256  # where descriptors are kept until each has its number


def main(fd: int, imports: str) -> None:
    """Serve until the socket closes; a fork goes on as the program."""
    control = socket.socket(fileno=fd)
    sys.path.insert(0, "/kit")
    exec(imports, {})
    sys.path.remove("/kit")
    gc.collect()
    gc.freeze()  # what is there now stays in pages that all programs share
    programs: set[int] = set()
    while True:
        text, fds, _, _ = socket.recv_fds(control, 1 << 16, 64)
        if not text:
            return
        programs = {pid for pid in programs if os.waitpid(pid, os.WNOHANG) == (0, 0)}
        if not programs:
            _clear()
        pid = os.fork()
        if not pid:
            break
        programs.add(pid)
        for number in fds:
            os.close(number)
    control.close()
    os.setsid()
    request = json.loads(text)
    life = _place(fds, request["numbers"])
    os.environ.clear()
    os.environ.update(request["env"])
    _be(request["words"], life)


def _clear() -> None:
    """Remove what programs that were killed have left: an MPI's shared memory is large."""
    for folder in ("/dev/shm", "/tmp"):
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)


def _place(fds: list[int], numbers: list[int]) -> socket.socket:
    """Give descriptors the numbers that the program knows them by."""
    above = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for fd in fds]
    for fd in fds:
        os.close(fd)
    life, output, *passed = above
    for fd, number in zip((output, output, *passed), (1, 2, *numbers), strict=True):
        os.dup2(fd, number)
    for fd in (output, *passed):
        os.close(fd)
    return socket.socket(fileno=life)


def _be(words: list[str], life: socket.socket) -> None:
    """Run the program, and tell how it ended; its own forks come by here too, and tell nothing."""
    own = os.getpid()
    life.send(b"!")
    status: Any = 0
    try:
        if words[0] == "-c":
            sys.argv = ["-c", *words[2:]]
            exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        traceback.print_exc()
        status = 1
    if os.getpid() == own:
        life.send(bytes([status & 0xFF if isinstance(status, int) else 1]))
    sys.exit(status)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
