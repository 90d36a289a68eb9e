"""A rank: a forked process that confines itself, then runs the student's function when called."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import runpy
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ringside import codec
from ringside.errors import CodecError
from ringside.link import CommInfo, Link, set_current
from ringside.wire import Op

_HERE = str(Path(__file__).resolve().parent)


def main() -> None:
    """Be a rank that was started by exec: command and descriptors are in the arguments."""
    command, *fds = sys.argv[1:]
    serve(json.loads(command), *map(int, fds))


def serve(command: dict[str, Any], sock_fd: int, output_fd: int) -> None:
    """Run calls that come over the socket until it closes; ``command`` is the zygote's."""
    os.dup2(output_fd, 1)
    os.dup2(output_fd, 2)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    for fd in (null, output_fd):
        os.close(fd)
    _close_all_but(sock_fd)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    sock = socket.socket(fileno=sock_fd)
    folder = command["folder"]
    link = Link(sock, command["rank"], command["world_size"], folder)
    set_current(link)
    import ringside.mpi

    ringside.mpi.install()
    call = _call
    if command.get("front_end") == "torch":
        import ringside.pytorch.preload
        from ringside.pytorch import front

        front.install()
        call = front.call
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    if command["confine"]:
        from ringside.confine import confine

        confine(None, strict=command["strict"])
    modules: dict[str, Any] = {}
    while True:
        body = link.next_call()
        if body is None:
            return
        kind, parts = _run(body, folder, modules, call)
        link.report(kind, *parts)


def _close_all_but(keep: int) -> None:
    os.closerange(3, keep)
    os.closerange(keep + 1, 1 << 16)


def _run(
    body: bytes, folder: str, modules: dict[str, Any], make: Callable[..., Any]
) -> tuple[Op, list[bytes]]:
    """Make one call; returns what reports how it went: the frame's kind and its parts."""
    (length,) = struct.unpack_from("<I", body)
    info = CommInfo(*codec.decode(body[4 : 4 + length]))
    call = codec.decode(body[4 + length :])
    try:
        attested, value = make(call, info, folder, modules)
        about = codec.encode(attested)
        return Op.RESULT, [struct.pack("<I", len(about)) + about, codec.encode(value)]
    except CodecError as error:
        return Op.FAILURE, [codec.encode(("TypeError", f"the function returned {error}", [], ""))]
    except BaseException as error:
        return Op.FAILURE, [_describe(error, folder)]
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()


def _call(
    call: dict[str, Any], info: CommInfo, folder: str, modules: dict[str, Any]
) -> tuple[dict[str, bool], Any]:
    path = os.path.join(folder, call["file"])
    if call["function"] is None:
        sys.argv = [path, *call["args"]]
        runpy.run_path(path, run_name="__main__")
        return {}, None
    function = find_function(call, folder, modules)
    args = list(call["args"])
    if call["comm"]:
        from ringside.mpi import communicator

        args.insert(0, communicator(info))
    arrays = [arg for arg in args if isinstance(arg, np.ndarray)]
    before = [array.copy() for array in arrays]
    value = function(*args, **call["kwargs"])
    attested = {
        "changed": not all(map(_same_bytes, arrays, before)),
        "aliased": _aliases(value, arrays),
    }
    return attested, value


def find_function(call: dict[str, Any], folder: str, modules: dict[str, Any]) -> Any:
    """The function that a call names; its module is imported once."""
    module = modules.get(call["file"])
    if module is None:
        module = modules[call["file"]] = _import(os.path.join(folder, call["file"]))
    function = getattr(module, call["function"], None)
    if not callable(function):
        raise AttributeError(f"{call['file']} has no function {call['function']!r}")
    return function


def _import(path: str) -> Any:
    name = Path(path).stem
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no file {os.path.basename(path)}")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _same_bytes(array: Any, old: Any) -> bool:
    """Whether nothing has changed, NaNs and signs of zeros included."""
    now, then = (np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in (array, old))
    return np.array_equal(now, then)


def _aliases(value: Any, arrays: list[Any]) -> bool:
    values = value if isinstance(value, (tuple, list)) else [value]
    return any(
        isinstance(item, np.ndarray) and np.may_share_memory(item, array)
        for item in values
        for array in arrays
    )


def _describe(error: BaseException, folder: str) -> bytes:
    """An exception as codec bytes: type, message, the student's frames, a hint."""
    frames = []
    tb: TracebackType | None = error.__traceback__
    for entry in traceback.extract_tb(tb):
        if entry.filename.startswith(_HERE) or entry.filename.startswith("<frozen"):
            continue
        name = entry.filename.removeprefix(folder.rstrip("/") + "/")
        frames.append((name, int(entry.lineno or 0), entry.name, entry.line or ""))
    own = [frame for frame in frames if not frame[0].startswith("/")]
    if isinstance(error, SyntaxError) and error.filename:
        name = error.filename.removeprefix(folder.rstrip("/") + "/")
        own.append((name, int(error.lineno or 0), "<module>", (error.text or "").strip()))
    hint = ""
    if isinstance(error, PermissionError):
        hint = "Ranks may not write files or start programs: return the value instead."
    try:
        message = str(error)
    except Exception:  # a student's exception may fail while it describes itself
        message = "(its message could not be made)"
    return codec.encode((type(error).__name__, message[:4000], own or frames[-3:], hint))
