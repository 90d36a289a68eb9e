"""A rank: a forked process that confines itself, then runs the student's function when called."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib.util
import json
import linecache
import os
import posix
import random
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

import ringside.mpi
from ringside.arrays import arrays_in
from ringside.errors import CodecError
from ringside.network import codec, failure
from ringside.network.failure import OwnFrame
from ringside.network.link import CommInfo, Link, current, set_current
from ringside.network.wire import Op, result_parts, split_call
from ringside.ranks import bytecode, debugger, landlock, script, surroundings
from ringside.ranks.confine import confine, stay_with_parent

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
# As they are before a student's file can put others in their places.
_array_equal, _contiguous, _may_share = np.array_equal, np.ascontiguousarray, np.may_share_memory


def main() -> None:
    """Be a rank that was started by exec: command and descriptors are in the arguments."""
    command, *fds = sys.argv[1:]
    prepare()
    serve(json.loads(command), list(map(int, fds)))


def prepare() -> None:
    """What all ranks have in common; the zygote does it once, before it forks."""
    ringside.mpi.install()
    bytecode.install()
    # By number: ``serve`` puts each rank's own pipe there.
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    sys.dont_write_bytecode = True
    os.environ["OMP_NUM_THREADS"] = "1"
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=False)  # see ringside.network.stacks
    _yield_to_the_network()
    _use_freed_memory_again()


def serve(command: dict[str, Any], fds: list[int], rules: landlock.Rules | None = None) -> None:
    """Run calls that come over the socket until it closes; ``command`` is the zygote's.

    Args:
        fds: the socket, where output goes, and, if the command says so, the standard input.
        rules: the files that a confined rank may touch, where the zygote has made them ready.
    """
    sock_fd, output_fd, *stdin = fds
    os.dup2(output_fd, 1)
    os.dup2(output_fd, 2)
    os.dup2(stdin[0] if stdin else os.open(os.devnull, os.O_RDONLY), 0)
    _close_all_but(sock_fd, rules.descriptor if rules is not None else -1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who reads Ctrl-C asks where it is, and ends it
    signal.signal(signal.SIGUSR2, _raise_refused)
    _seed_chance()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=sock_fd)
    folder = command["folder"]
    link = Link(sock, command["rank"], command["world_size"], folder)
    set_current(link)
    ringside.mpi.install()
    make: Callable[..., Any] = make_call
    if command.get("front_end") == "torch":
        importlib.import_module("ringside.pytorch.preload")
        importlib.import_module("ringside.pytorch.front").install(command["pretend_cuda"])
        make = importlib.import_module("ringside.pytorch.calls").make_call
    debugger.install(command["rank"], command.get("debug_rank"))
    # Behind the imports above: a torch.py of the student's would be taken for the library, or a
    # code.py of theirs for what pdb imports.
    sys.path.insert(0, folder)
    if command["surroundings"]:
        surroundings.enter(command["surroundings"])
    failure.confined = command["confine"]
    if command["confine"]:
        confine(None, strict=command["strict"], rules=rules)
    else:
        stay_with_parent()
        # The zygote has made os.register_at_fork do nothing: its own forks are ranks.
        posix.register_at_fork(after_in_child=link.leave)
    if rules is not None and rules.abi:
        os.close(rules.descriptor)
    modules: dict[str, Any] = {}
    while not link.last_call:
        kind, parts = run_call(link.next_call(), folder, modules, make)
        link.report(kind, *parts)


def _raise_refused(*_: Any) -> None:
    refused = current().refused
    if refused is not None:
        raise refused


def _yield_to_the_network() -> None:
    """Ranks don't take the processor from the network when it wakes them: it has more to wake."""
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _seed_chance() -> None:
    """Draw other numbers than the other ranks, as processes do that were started one by one."""
    random.seed()
    if "numpy.random" in sys.modules:  # else it seeds itself when it is imported
        np.random.seed()


def _use_freed_memory_again() -> None:
    """Leave the pages of a freed array to the next one: each new page is an interruption.

    These are the thresholds that the GNU C library comes to by itself, in a process that has freed
    an array of 32 MiB.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        mallopt(_M_TRIM_THRESHOLD, 64 << 20)


def _close_all_but(*keep: int) -> None:
    low = 3
    for descriptor in sorted(keep):
        if descriptor >= low:
            os.closerange(low, descriptor)
            low = descriptor + 1
    os.closerange(low, 1 << 16)


def run_call(
    bodies: Sequence[memoryview], folder: str, modules: dict[str, Any], make: Callable[..., Any]
) -> tuple[Op, list[codec.Part]]:
    """Make one call; returns what reports how it went: the frame's kind and its parts.

    Args:
        bodies: the call, and the same once more, to compare the arguments with.
        make: called with the call, itself once more, the communicator, ``folder``, and what finds
            the function.
    """
    (comm, encoded), (_, encoded_again) = map(split_call, bodies)
    number, members, rank, ranks_per_node = codec.decode(comm)
    current().ranks_per_node = ranks_per_node
    info = CommInfo(number, members, rank)
    call, call_again = (codec.decode(buffer, copy=False) for buffer in (encoded, encoded_again))
    bytecode.known.update(call["code"])
    try:
        attested, value = make(
            call, call_again, info, folder, lambda: find_function(call, folder, modules)
        )
        in_flight = current().in_flight
        in_flight.check(value)
        more = {"awaited": in_flight.first, "remarks": current().remarks}
        attested = {**attested, **{name: told for name, told in more.items() if told}}
        return Op.RESULT, result_parts(attested, value)
    except CodecError as error:
        frames = _definition(call, folder, modules)
        wrong = TypeError(f"the function's result can't leave the rank: {error}")
        return Op.FAILURE, [failure.encode(wrong, folder, frames)]
    except TypeError as error:
        return Op.FAILURE, [failure.encode(error, folder, _definition(call, folder, modules))]
    except BaseException as error:
        # SystemExit too: a rank that leaves without a result has failed.
        return Op.FAILURE, [failure.encode(error, folder)]
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()


def make_call(
    call: dict[str, Any],
    asked: dict[str, Any],
    info: CommInfo,
    folder: str,
    find: Callable[[], Any],
) -> tuple[dict[str, bool], Any]:
    if call["function"] is None:
        current().in_flight.check(find()())
        return {}, None
    function = find()
    args = list(call["args"])
    if call["comm"]:
        args.insert(0, ringside.mpi.communicator(info))
    inputs = [args, call["kwargs"]]
    arrays = list(arrays_in(inputs))
    before = list(arrays_in([asked["args"], asked["kwargs"]]))
    value = function(*args, **call["kwargs"])
    replaced = list(map(id, arrays)) != list(map(id, arrays_in(inputs)))
    attested = {
        "changed": replaced or not all(map(_same_bytes, arrays, before)),
        "aliased": _aliases(value, arrays),
    }
    return attested, value


def find_function(call: dict[str, Any], folder: str, modules: dict[str, Any]) -> Any:
    """The function that a call names, its module imported once; or what runs its script."""
    if call["function"] is None:
        return partial(script.run, call, folder)
    module = modules.get(call["file"])
    if module is None:
        file = call["file"]
        kits_own = not file.endswith(".py")
        module = importlib.import_module(file) if kits_own else _import(os.path.join(folder, file))
        modules[file] = module
    function = getattr(module, call["function"], None)
    if not callable(function):
        raise AttributeError(f"{call['file']} has no function {call['function']!r}")
    return function


def _import(path: str) -> Any:
    name = Path(path).stem
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no file {os.path.basename(path)}")
    spec = importlib.util.spec_from_file_location(name, path, loader=bytecode.Loader(name, path))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _same_bytes(array: Any, old: Any) -> bool:
    """Whether nothing has changed, NaNs and signs of zeros included."""
    now, then = (_contiguous(a).reshape(-1).view(np.uint8) for a in (array, old))
    whole = now.size // 8 * 8  # words are compared in an eighth of the memory
    words_alike = _array_equal(now[:whole].view(np.uint64), then[:whole].view(np.uint64))
    return words_alike and _array_equal(now[whole:], then[whole:])


def _aliases(value: Any, arrays: list[Any]) -> bool:
    return any(_may_share(item, array) for item in arrays_in(value) for array in arrays)


def _definition(call: dict[str, Any], folder: str, modules: dict[str, Any]) -> list[OwnFrame]:
    """Where the called function begins: no line of it has run where its arguments don't fit."""
    module = modules.get(call["file"])
    function = vars(module).get(call["function"]) if module is not None else None
    if not isinstance(function, FunctionType):
        return []
    code, prefix = function.__code__, folder.rstrip("/") + "/"
    if not code.co_filename.startswith(prefix):
        return []
    text = linecache.getline(code.co_filename, code.co_firstlineno).strip()
    return [(code.co_filename.removeprefix(prefix), code.co_firstlineno, code.co_name, text)]
