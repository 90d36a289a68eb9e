"""Inside a sandbox: a Python that has imported libraries, and forks for every program asked for.

    python -I warm_nursery.py FD 'import numpy, ringside.mpi'

A request on the socket FD is a JSON text and descriptors: ``{"words": [...], "env": {...},
"numbers": [...], "room": {...}}``, and with it a socket that hears of the program, its output, and
what it finds under these numbers. ``words`` are those of ``python -I ...``: ``-c CODE`` or a file.
``warm_room`` says what a room is, and what the socket hears.

It is copied alone into its sandbox, where it can import nothing of ours before its libraries: so
it reads requests for itself, whole ones, on a socket that keeps their borders (SOCK_SEQPACKET).

This process reads no student's file, and each program runs in a fork of its own, in namespaces of
its own. Where the kernel refuses them the nursery ends at once, with the exit status ``NO_ROOMS``.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import json
import os
import runpy
import socket
import sys
import traceback
import types
from pathlib import Path
from typing import Any

NO_ROOMS = 3
_NOBODY = 65534
_ABOVE = 256  # where descriptors are kept until each has its number
_SET_CHILD_SUBREAPER = 36


def main(fd: int, imports: str) -> None:
    """Serve until the socket closes; a fork goes on as the program."""
    control = socket.socket(fileno=fd)
    # The way into a room ends at once, and its child, the room's init, becomes ours to reap.
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    here = Path(__file__).parent
    enter = runpy.run_path(str(here / "room.py"))["enter"]
    outer_filter = (here / "filter").read_bytes()
    # Before any import may have written there: the interpreter, where it lies below one.
    paths = [f"{folder}/{name}" for folder in ("/tmp", "/dev/shm") for name in os.listdir(folder)]
    _try(enter, outer_filter, paths)
    sys.path.insert(0, "/kit")
    exec(imports, {})
    sys.path.remove("/kit")
    _refuse_shared_memory()
    gc.collect()
    gc.freeze()  # what is there now stays in pages that all programs share
    while True:
        text, fds, _, _ = socket.recv_fds(control, 1 << 16, 64)
        if not text:
            return
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        if not os.fork():
            break
        # An end of a program's output that stayed open here would let its reader wait for ever.
        for number in fds:
            os.close(number)
    control.close()
    request = json.loads(text)
    _close_all_but(fds)
    enter({**request["room"], "shown": paths}, outer_filter, socket.socket(fileno=fds[0]))
    _place(fds[1:], request["numbers"])
    os.environ.clear()
    os.environ.update(request["env"])
    _be(request["words"])


def _try(enter: Any, outer_filter: bytes, shown: list[str]) -> None:
    """End here and now where the kernel gives no rooms."""
    ours, theirs = socket.socketpair()
    room: dict[str, Any] = {"stage": "/warm/trial", "hide": "/warm", "limits": {}}
    room |= {"uid": _NOBODY if os.getuid() == 0 else None, "tmp_bytes": 4096, "shm_bytes": 4096}
    room |= {"shown": shown, "proc": True}
    if not os.fork():
        ours.close()
        enter(room, outer_filter, theirs)
        os._exit(0)
    theirs.close()
    answer = ours.recv(512)
    ours.close()  # nothing is to begin there
    if answer[:1] != b"!":
        print(answer.decode("utf-8", "replace"), flush=True)
        os._exit(NO_ROOMS)


def _refuse_shared_memory() -> None:
    """Pages that a fork shares with its nursery it would share with all other programs."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    if shared := [line for line in lines if line.split()[1] == "rw-s"]:
        print(f"the nursery would share memory with its programs: {shared[0]}", flush=True)
        os._exit(NO_ROOMS)


def _close_all_but(keep: list[int]) -> None:
    low = 3
    for number in sorted(keep):
        os.closerange(low, number)
        low = number + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def _place(fds: list[int], numbers: list[int]) -> None:
    """Give descriptors the numbers that the program knows them by."""
    above = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for fd in fds]
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    for fd in (null, *fds):
        os.close(fd)
    output, *passed = above
    for fd, number in zip((output, output, *passed), (1, 2, *numbers), strict=True):
        os.dup2(fd, number)
    for fd in above:
        os.close(fd)


def _be(words: list[str]) -> None:
    """Run the program."""
    main_module = types.ModuleType("__main__")
    sys.modules["__main__"] = main_module
    status: Any = 0
    try:
        if words[0] == "-c":
            sys.argv = ["-c", *words[2:]]
            exec(compile(words[1], "<string>", "exec"), main_module.__dict__)
        else:
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.exit(status)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
