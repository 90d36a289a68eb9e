"""The zygote: a process that holds only libraries and forks ranks.

It is started by exec, so that nothing of the caller (a notebook kernel with threads, a grader with
secrets) is in its memory, and it never reads a student's file. Commands come as JSON lines on a
Unix socket; a rank's socket and output pipe come with its command (SCM_RIGHTS). Where forking is
unsafe (macOS) every rank is started by exec instead, which costs its imports again.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ringside import kit
from ringside.ranks.confine import file_rules, harden_zygote
from ringside.ranks.debugger import pass_by
from ringside.ranks.landlock import Rules
from ringside.ranks.rank import prepare, serve
from ringside.ranks.warm_up import rehearse

_KIT = str(kit.ROOT)
_RANK = "import sys; sys.path.insert(0, {kit!r}); from ringside.ranks.rank import main; main()"
_READ_BYTES = 1 << 16
_FDS_PER_RANK = 2


def main(fd: int) -> None:
    """Serve commands on the socket ``fd`` until it closes."""
    control = socket.socket(fileno=fd)
    # Ctrl-C reaches it too, and it is still asked where its ranks are, and to end them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # who started it has gone
        _serve(control)


def _serve(control: socket.socket) -> None:
    _preload([])
    prepare()
    sys.breakpointhook = pass_by  # who debugs the kit stops in a rank, not in the rehearsal
    rehearse()
    # After all imports: it looks for memory that they made to be shared.
    harden_zygote()
    gc.collect()
    gc.freeze()  # objects made so far stay in pages that all ranks share
    control.sendall(b"ready\n")
    worlds: dict[int, list[int]] = {}
    try:
        for command, fds in _commands(control):
            if command["do"] == "start":
                # Ranks come in order: ``locate`` takes a pid's place in the list for its rank.
                start = _spawn if command["spawn"] else _fork
                with contextlib.suppress(OSError):  # no process to be had: the rank's socket closes
                    worlds.setdefault(command["world"], []).append(start(control, command, fds))
                # While we hold them too, the network doesn't see them close when this rank ends.
                for number in fds:
                    os.close(number)
                continue
            if command["do"] == "preload":
                _preload(command["modules"])
                harden_zygote()
                gc.collect()
                gc.freeze()
            elif command["do"] == "locate":
                by_rank = dict(enumerate(worlds.get(command["world"], [])))
                rank_pids = [by_rank[rank] for rank in command["ranks"] if rank in by_rank]
                _signal(rank_pids, signal.SIGUSR1)
            elif command["do"] == "kill":
                _kill(worlds.pop(command["world"], []))
            elif command["do"] == "pids":
                control.sendall(json.dumps(worlds.get(command["world"], [])).encode() + b"\n")
                continue
            control.sendall(b"done\n")
    finally:
        for pids in worlds.values():
            _kill(pids)


def _commands(control: socket.socket) -> Iterator[tuple[dict[str, Any], list[int]]]:
    """Commands and the descriptors that came with them; the bytes may come in any pieces."""
    text, held = b"", []
    while True:
        data, fds, _, _ = socket.recv_fds(control, _READ_BYTES, 8)
        if not data:
            return
        # Descriptors may be here before their line is whole: both are taken in order.
        text += data
        held += fds
        while b"\n" in text:
            line, text = text.split(b"\n", 1)
            command = json.loads(line)
            count = _FDS_PER_RANK + command["stdin"] if command["do"] == "start" else 0
            yield command, held[:count]
            held = held[count:]


def _preload(modules: list[str]) -> None:
    """Import libraries; ranks share their pages, and whatever shared memory they may make."""
    for module in ["numpy", "ringside.mpi", *modules]:
        importlib.import_module(module)


_rules: dict[tuple[str, bool], Rules | None] = {}


def _rules_for(command: dict[str, Any]) -> Rules | None:
    """The files that a rank may touch: the same for all ranks of a folder, so made once."""
    key = command["folder"], command["strict"]
    if not command["confine"]:
        return None
    if key not in _rules:
        for last in _rules.values():
            if last is not None and last.descriptor >= 0:
                os.close(last.descriptor)
        _rules.clear()
        try:
            _rules[key] = file_rules(command["strict"], [Path(command["folder"])])
        except OSError:  # the rank finds out for itself, and says so
            _rules[key] = None
    return _rules[key]


def _fork(control: socket.socket, command: dict[str, Any], fds: list[int]) -> int:
    rules = _rules_for(command)
    pid = os.fork()
    if pid:
        return pid
    try:
        # Whoever has this socket can start ranks and end them.
        control.close()
        serve(command, fds, rules)
    except BaseException as error:  # the fork must never return into the zygote's loop
        if not isinstance(error, SystemExit):
            with contextlib.suppress(OSError):
                os.write(2, f"the rank could not start: {error!r}\n".encode())
    finally:
        os._exit(0)


def _spawn(control: socket.socket, command: dict[str, Any], fds: list[int]) -> int:
    arguments = [json.dumps(command), *map(str, fds)]
    argv = [sys.executable, "-I", "-c", _RANK.format(kit=_KIT), *arguments]
    return subprocess.Popen(argv, pass_fds=fds, stdin=subprocess.DEVNULL).pid


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _kill(pids: list[int]) -> None:
    # No forked rank was waited for before, so that no number means another process by now.
    _signal(pids, signal.SIGKILL)
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
