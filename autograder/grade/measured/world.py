"""Ranks of one module in a sandbox of their own, stopped except while a call of theirs is timed.

::

    grader   arguments -> memory   order, SIGCONT ......... last reply, SIGSTOP   memory -> result
                                   |<-------- timed, by the grader's clock ---->|
    ranks    stopped               run                                            stopped

Two such worlds, the student's and the reference's, take turns on the same cores. What follows from
stopping every process of a world whenever it isn't its turn:

* A thread left behind, a busy loop, a sleep: it can do nothing while the other world runs. That it
  didn't is checked: a stopped world's CPU clocks stand still.
* Arguments are fresh random numbers and come while the ranks are stopped, so nothing can be
  computed before the clock runs. A result is what lies in memory when the ranks have been stopped
  again, so nothing can be computed afterwards.
* The clock is the grader's own. A patched ``time`` in the rank is nobody's clock.

A GPU goes on with what it was given when a process is stopped, so with GPUs there is one world at a
time, made anew for each turn (``autograder.grade.measured.measurement``). No GPU was there to run
that part on.

The worlds share nothing: each has its own process, network, file and memory namespaces. Real ranks
of one world are not confined one from another (see ``autograder.grade.real_ranks.job``).
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import secrets
import selectors
import signal
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from autograder.course.limits import Limits
from autograder.grade.measured import driver as measured_driver
from autograder.grade.measured.driver import CALL, ECHO, ERROR, ORDER, REPLY
from autograder.grade.measured.hardware import cores, driver_folder, gpu_files
from autograder.grade.real_ranks import gloo_nursery, mpi_nursery, mpi_stand_in
from autograder.grade.real_ranks.job import command_inside, environment_inside
from autograder.sandbox.sandbox import Sandbox, Tier
from autograder.sandbox.watchdog import ProcessId, descendants
from ringside.errors import CodecError
from ringside.network import codec

__all__ = ["CallFailed", "Disturbed", "Unavailable", "Window", "World", "room"]

_TICK_S = 0.1
_SLACK = 1 << 16
_TOLERATED_NS = 200_000  # what threads need to come to rest after they are called stopped
_PAGE = mmap.ALLOCATIONGRANULARITY


class Unavailable(RuntimeError):
    """No sandbox of this machine can hold real ranks."""


class CallFailed(RuntimeError):
    """A call raised, hung, or sent back something that is no value."""


class Disturbed(RuntimeError):
    """A world was active while it was stopped."""


@dataclass(frozen=True)
class Window:
    """One timed call.

    Attributes:
        seconds: from the order to the last rank's reply, on the grader's clock.
        values: the result of each rank.
    """

    seconds: float
    values: list[Any]


def room(arguments: Sequence[tuple[Any, ...]]) -> int:
    """How many bytes arguments like these, and as many of results, take at most on a rank."""
    return _pages(max(len(codec.encode(args)) for args in arguments) + _SLACK)


def _pages(nbytes: int) -> int:
    return -(-nbytes // _PAGE) * _PAGE


class World:
    """The ranks of one module.

    Args:
        modules: the folder of the module and of all that it imports.
        target: ``module:function``.
        world_size: how many ranks; also how many cores they get, the first of this process's.
        launcher: "mpiexec", "gloo", or "nccl" with a GPU a rank.
        room: bytes of a rank's arguments; results may be twice as large.
    """

    def __init__(
        self,
        modules: Path,
        target: str,
        world_size: int,
        *,
        launcher: str,
        room: int,
        trust_submissions: bool = False,
    ) -> None:
        self.target = target
        self._room = room
        nursery = mpi_nursery if launcher == "mpiexec" else gloo_nursery
        sources = {"driver": measured_driver, "nursery": nursery, "stand_in": mpi_stand_in}
        limits = Limits(memory_bytes=(2 << 30) + 8 * world_size * room)
        if launcher == "nccl":  # CUDA maps all memory that there is, and needs more of the host's
            more = limits.memory_bytes + (world_size << 32)
            limits = replace(limits, memory_bytes=more, address_space_bytes=1 << 50)
        self._driver = driver_folder() if launcher == "nccl" else None
        self._sandbox = Sandbox(
            modules,
            extra={f"{name}.py": Path(str(m.__file__)).read_bytes() for name, m in sources.items()},
            limits=limits,
            devices=gpu_files() if launcher == "nccl" else (),
            binds={str(self._driver): self._driver} if self._driver else {},
            trust_submissions=trust_submissions,
        )
        if self._sandbox.tier == Tier.LANDLOCK:
            self._sandbox.close()
            raise Unavailable("real ranks need bubblewrap: they start processes and open sockets.")
        self.tier = self._sandbox.tier
        self._channels: list[socket.socket] = []
        self._memories: list[mmap.mmap] = []
        try:
            self._start(world_size, launcher)
        except BaseException:
            self.close()
            raise

    def _start(self, world_size: int, launcher: str) -> None:
        with contextlib.ExitStack() as stack:
            pairs = []
            for _ in range(world_size):
                ours, theirs = socket.socketpair()
                # Closed here once the ranks have them: else a rank's end would not end its socket.
                stack.callback(theirs.close)
                self._channels.append(ours)
                # One part for the arguments, two for the result.
                memory = _sealed_memory(3 * self._room)
                stack.callback(os.close, memory)
                self._memories.append(mmap.mmap(memory, 0))
                pairs.append((theirs.fileno(), memory))
            environment = environment_inside(self._sandbox) | {
                "RINGSIDE_JOB_RANKS": ";".join(f"{a},{b}" for a, b in pairs),
                "RINGSIDE_JOB_ARGUMENTS": str(self._room),
                "RINGSIDE_JOB_TARGET": self.target,
                "RINGSIDE_JOB_BACKEND": launcher,
                "RINGSIDE_JOB_GPUS": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
            }
            mine = ",".join(map(str, cores()[:world_size]))
            command = ["/usr/bin/taskset", "-c", mine]
            if self._driver:  # no program looks there by itself
                command = ["/usr/bin/env", f"LD_LIBRARY_PATH={self._driver}", *command]
            command += command_inside([world_size], self._sandbox, launcher)
            fds = [fd for pair in pairs for fd in pair]
            self._process = self._sandbox.popen(command, pass_fds=fds, env=environment)
        self._root = ProcessId.of(self._process.pid)
        self.processes: list[ProcessId] = []  # all of them, when they were stopped last
        self._clock_ns = 0

    def begin(self, timeout_s: float) -> None:
        """Wait until every rank has imported the module, then stop them all.

        Raises:
            CallFailed: the import failed, or did not end in time.
        """
        self._replies(0, time.monotonic() + timeout_s)
        self._stop()

    def call(self, arguments: Sequence[tuple[Any, ...]], timeout_s: float) -> Window:
        """Let the ranks run until each has its result; they are stopped before and after.

        Raises:
            CallFailed: a rank raised, or not all answered in time; the world is of no more use.
            Disturbed: the world had run since it was stopped.
        """
        return self._window(arguments, timeout_s, CALL)

    def echo(self, arguments: Sequence[tuple[Any, ...]], timeout_s: float) -> float:
        """Seconds of what surrounds a call: the same way there and back, with the last result."""
        return self._window(arguments, timeout_s, ECHO).seconds

    def _window(self, arguments: Sequence[tuple[Any, ...]], timeout_s: float, what: int) -> Window:
        # Unknown inside until the order comes: a reply that was sent ahead of it is refused.
        orders, nonce = [], secrets.randbits(64)
        for memory, args in zip(self._memories, arguments, strict=True):
            data = codec.encode(args)
            memory[: len(data)] = data
            orders.append(ORDER.pack(nonce, what, len(data)))
        self.check_still()
        deadline = time.monotonic() + timeout_s
        started = time.perf_counter_ns()
        # The clock runs before the first byte is sent: a byte that arrives can wake its reader.
        for channel, order in zip(self._channels, orders, strict=True):
            self._send(channel, order)
        self._signal(signal.SIGCONT)
        sizes = self._replies(nonce, deadline)
        # Before the clock is read: a rank that works on after its reply does so in the window.
        self._signal(signal.SIGSTOP)
        seconds = (time.perf_counter_ns() - started) / 1e9
        self._stop()
        return Window(seconds, [self._value(rank, size) for rank, size in enumerate(sizes)])

    def check_still(self) -> None:
        """See that nothing in this world has run since it was stopped.

        Raises:
            Disturbed: something has.
        """
        # A process that came since then is missing in this sum, so they are counted, too.
        used_ns = sum(_cpu_ns(process) for process in self.processes) - self._clock_ns
        if used_ns > _TOLERATED_NS or len(descendants(self._root)) != len(self.processes):
            raise Disturbed(
                f"while its ranks were stopped, {used_ns / 1e6:.3g} ms of CPU time were used"
            )

    def _send(self, channel: socket.socket, order: bytes) -> None:
        try:
            channel.sendall(order)
        except OSError as error:
            raise CallFailed("a rank has closed its end") from error

    def _replies(self, nonce: int, deadline: float) -> list[int]:
        """How many bytes each rank's result has; returns with the last one."""
        sizes: dict[int, int] = {}
        with selectors.DefaultSelector() as selector:
            for rank, channel in enumerate(self._channels):
                selector.register(channel, selectors.EVENT_READ, rank)
            while selector.get_map():
                remaining_s = deadline - time.monotonic()
                if remaining_s <= 0:
                    late = sorted(set(range(len(self._channels))) - sizes.keys())
                    raise CallFailed(f"it did not end in time (rank {', '.join(map(str, late))})")
                for key, _ in selector.select(min(remaining_s, _TICK_S)):
                    sizes[key.data] = self._reply(key.data, nonce)
                    selector.unregister(key.fileobj)
                if selector.get_map() and self._process.poll() is not None:
                    why = self._process.killed_for or "a rank ended without a word"
                    raise CallFailed(why)
        return [sizes[rank] for rank in range(len(self._channels))]

    def _reply(self, rank: int, nonce: int) -> int:
        channel = self._channels[rank]
        # There is something to read, but a rank that sends half a reply must not hold us up.
        channel.settimeout(1.0)
        try:
            data = channel.recv(REPLY.size, socket.MSG_WAITALL)
            echoed, kind, nbytes = REPLY.unpack(data)
        except (OSError, struct.error) as error:
            raise CallFailed(f"rank {rank} ended, or answered with nonsense") from error
        if echoed != nonce or nbytes > 2 * self._room:
            raise CallFailed(f"rank {rank} answered what it was not asked, or too much")
        if kind == ERROR:
            raise CallFailed(f"rank {rank} raised {str(self._value(rank, nbytes))[:300]}")
        return int(nbytes)

    def _value(self, rank: int, nbytes: int) -> Any:
        try:
            # A slice of a mmap is a copy: a rank that still runs can't change it while it is read.
            return codec.decode(self._memories[rank][self._room : self._room + nbytes])
        except CodecError as error:
            raise CallFailed(f"rank {rank}'s result can't be read: {error}") from None

    def _signal(self, number: int) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)

    def _stop(self) -> None:
        """Stop every process and wait until none of their threads runs; note their clocks."""
        until = time.monotonic() + 5.0
        quiet = 0
        while quiet < 2:  # one that was looked at first could have been woken by a later one
            self.processes = descendants(self._root)
            running = [process_id for process_id in self.processes if not _still(process_id)]
            quiet = 0 if running else quiet + 1
            for process in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGSTOP)
            if time.monotonic() > until:
                raise Disturbed("its ranks can't be stopped")
        self._clock_ns = sum(_cpu_ns(process) for process in self.processes)

    def output(self) -> str:
        """The first bytes of what the ranks printed."""
        return self._process.output()

    def close(self) -> None:
        """End all ranks."""
        self._sandbox.close()
        for channel in self._channels:
            channel.close()
        for memory in self._memories:
            memory.close()

    def __enter__(self) -> World:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _sealed_memory(nbytes: int) -> int:
    """Memory to share; whoever has it can't change its size under the other's feet."""
    descriptor = os.memfd_create("call", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, nbytes)
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def _tasks(process: ProcessId, name: str) -> Iterator[bytes]:
    """A file of each thread of a process."""
    folder = f"/proc/{process.pid}/task"
    with contextlib.suppress(OSError):
        for task in os.listdir(folder):
            with contextlib.suppress(OSError), open(f"{folder}/{task}/{name}", "rb") as stream:
                yield stream.read()


def _still(process: ProcessId) -> bool:
    # The state follows the program's name, which may hold brackets itself.
    states = [
        line[line.rindex(b")") + 2 : line.rindex(b")") + 3] for line in _tasks(process, "stat")
    ]
    return all(state in b"TtZX" for state in states)


def _cpu_ns(process: ProcessId) -> int:
    # schedstat: nanoseconds on a processor, nanoseconds in its queue, time slices.
    return sum(int(line.split()[0]) for line in _tasks(process, "schedstat") if line)
