"""Running a function or a script on ranks: sessions, worlds and results."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import socket
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from ringside.errors import CodecError, LimitError, RankError, RingsideError, RunError, TargetError
from ringside.factors import Factors
from ringside.failures import Failures
from ringside.network import codec, failure
from ringside.network.bounds import Limits
from ringside.network.deadlines import Patience
from ringside.network.deaths import Death, Deaths
from ringside.network.network import Network
from ringside.network.peers import Peer
from ringside.network.rank_memory import MemoryWatch
from ringside.network.recording import CollectiveRecord, Recording, RunEnd
from ringside.network.stacks import current_lines
from ringside.network.storage import Stores
from ringside.network.wire import split_result
from ringside.ranks import surroundings
from ringside.ranks.bytecode import compiled
from ringside.ranks.nursery import Launcher, Nursery, borrow, give_back
from ringside.scale.fake_ranks import TorchTrace, asked, from_logs, num_processes
from ringside.session.killing import check_flips, death_of, ranks_of
from ringside.session.target import Target, front_end_of
from ringside.timing import flight_recorder
from ringside.timing.flight_recorder import FlightRecorder
from ringside.timing.machine import Machine
from ringside.timing.ports import PS
from ringside.timing.replay import time_trace
from ringside.timing.timeline import Timeline
from ringside.torch_there import need_torch
from ringside.trace import Kind, Trace, transfers
from ringside.units import format_bytes, format_count, format_time

MAX_RANKS = 1024
_MOST_LOOKED_AT = 1000  # collectives of a rank, for who comes last to them
_MOST_REPLAYED = 200_000  # operations of a run that is looked at once more for it
FRONT_ENDS: dict[str, tuple[str, ...]] = {"mpi": (), "torch": ("ringside.pytorch.preload",)}


@dataclass(kw_only=True)
class Result:
    """What a run on ranks gave.

    Attributes:
        values: what the function returned, per rank of ``comm``; None where it didn't return.
        error: why the run failed, or None.
        output: per rank of the world, what it printed (bounded).
        machine: the machine that the run was timed on.
        inputs_changed: per rank of ``comm``, whether an array that was passed in was modified, or
            replaced in the list, tuple or dict that holds it.
        aliased: per rank of ``comm``, whether a returned array shares memory with one passed in.
        collectives: library collectives that were used, I-forms included.
        comm_calls: calls that made communicators.
        unreceived: messages that were sent and never received.
        notes: a sentence on a message that doesn't fit the buffer that took it in ``kind`` (of
            another dtype, or objects), and one on a message shorter in ``length``. MPI lets them
            pass, so they may explain what went wrong, and mean nothing where all is right. In
            ``nan``, that a rank which printed nan had buffers that hold NaN until they are filled;
            in ``room``, that a collective's part is shorter than its place.
        memory: per rank of ``comm`` of a torch run, bytes of tensors as the rank itself counted
            them: ``peak``, its kinds ``at_peak``, each kind's ``peak_by_kind``, what is ``live``
            at the last operator, and ``after_step``, after the last step of an optimizer. The
            kinds are parameters, gradients, optimizer, communication and activations. Empty for
            other runs.
        num_operations: of all ranks, messages of lowered collectives included: what the run has
            used of the network's limit.
        result_bytes: what all ranks returned, as it travelled.
        factors: of the passes that supplied layers announced; None where they announced nothing.
        deaths: of the ranks that were killed. ``error`` is None where all survivors returned.
        hangs: of the ranks that hang; such a run never ends, which is its error.
    """

    values: list[Any]
    error: RunError | None
    output: list[str]
    recording: Recording
    machine: Machine
    inputs_changed: list[bool]
    aliased: list[bool]
    collectives: list[CollectiveRecord]
    comm_calls: list[str]
    unreceived: list[str]
    seed: int | None = None
    members: tuple[int, ...] = field(default=())
    memory: list[dict[str, Any]] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    num_operations: int = 0
    result_bytes: int = 0
    factors: Factors | None = None
    deaths: Sequence[Death] = ()
    hangs: Sequence[Death] = ()

    def __repr__(self) -> str:
        """The sentence that a notebook shows; ``values``, ``timeline`` and the rest say more."""
        messages = format_count(sum(self.sent_messages()), "message")
        failed = f", {type(self.error).__name__}" if self.error is not None else ""
        return (
            f"Result({format_count(self.world_size, 'rank')} on {self.machine.name}, "
            f"makespan {format_time(self.makespan_s)}, "
            f"{format_bytes(sum(self.sent_bytes()))} in {messages}"
            f"{failed})"
        )

    @property
    def world_size(self) -> int:
        """Ranks of the world, members of ``comm`` or not."""
        return len(self.recording.ops)

    @cached_property
    def trace(self) -> Trace:
        """Every rank's operations."""
        return self.recording.trace()

    @cached_property
    def timeline(self) -> Timeline:
        """The run's virtual times."""
        return time_trace(self.trace, self.machine, latency_seed=self.seed)

    def recorder(self, last: int = 64) -> FlightRecorder:
        """What each rank's flight recorder holds at the end: its last collectives.

        Also of a run that ended in a deadlock, a hang or a death, as far as its ranks had come.
        Point-to-point messages, and calls that make a group of some ranks, aren't recorded.

        Args:
            last: records that a rank keeps; the older ones are gone.
        """
        return flight_recorder.recorded(
            self.trace,
            self.machine,
            self.recording.joined,
            self.recording.groups,
            gone=[death.rank for death in self.deaths],
            last=last,
            latency_seed=self.seed,
        )

    def straggler(self) -> str:
        """A sentence on the rank that comes last to nearly all its collectives; "" if none does.

        Of very long runs nothing is said: it needs a replay of its own.
        """
        if len(self.collectives) < flight_recorder.FEWEST or self.trace.num_ops > _MOST_REPLAYED:
            return ""
        return self.recorder(last=_MOST_LOOKED_AT).straggler(self.makespan_s)

    @property
    def makespan_s(self) -> float:
        """Virtual time from the start to the last rank's end."""
        return self.timeline.makespan_s

    def raise_for_error(self) -> Result:
        """Raise the run's error, if there is one; return the result otherwise."""
        if self.error is not None:
            raise self.error
        return self

    @cached_property
    def _traffic(self) -> tuple[np.ndarray, np.ndarray]:
        """Bytes and messages from row to column, point to point and to windows."""
        nbytes = np.zeros((self.world_size, self.world_size), dtype=np.int64)
        messages = np.zeros_like(nbytes)
        for rank, ops in enumerate(self.recording.ops):
            for op in ops:
                for source, dest, count in transfers(rank, op):
                    nbytes[source, dest] += count
                    messages[source, dest] += 1
        return nbytes, messages

    def bytes_matrix(self) -> np.ndarray:
        """Shape (world_size, world_size): point-to-point payload bytes from row to column."""
        return self._traffic[0].copy()

    def messages_matrix(self) -> np.ndarray:
        """Shape (world_size, world_size): point-to-point messages from row to column."""
        return self._traffic[1].copy()

    def sent_bytes(self) -> list[int]:
        """Per rank of the world, payload bytes sent point to point."""
        return [int(n) for n in self._traffic[0].sum(axis=1)]

    def received_bytes(self) -> list[int]:
        """Per rank of the world, payload bytes sent to it point to point."""
        return [int(n) for n in self._traffic[0].sum(axis=0)]

    def sent_messages(self) -> list[int]:
        """Per rank of the world, messages sent point to point."""
        return [int(n) for n in self._traffic[1].sum(axis=1)]

    def received_messages(self) -> list[int]:
        """Per rank of the world, messages sent to it point to point."""
        return [int(n) for n in self._traffic[1].sum(axis=0)]

    def _store_bytes(self, what: str) -> list[int]:
        return [
            sum(op.nbytes for op in ops if op.kind == Kind.STORE and op.detail[0] == what)
            for ops in self.recording.ops
        ]

    def put_bytes(self) -> list[int]:
        """Per rank of the world, bytes of the arrays that it put into stores."""
        return self._store_bytes("put")

    def got_bytes(self) -> list[int]:
        """Per rank of the world, bytes that it got from stores."""
        return self._store_bytes("get")

    def num_flops(self) -> list[float]:
        """Per rank of the world, floating-point operations counted or declared, by the rank."""
        return [
            sum(float(op.detail[0]) for op in ops if op.kind == Kind.COMPUTE)
            for ops in self.recording.ops
        ]

    def peers(self, rank: int) -> set[int]:
        """World ranks that a rank exchanged messages with."""
        messages = self._traffic[1]
        return {int(r) for r in np.flatnonzero(messages[rank] + messages[:, rank])}


class Session:
    """A zygote, and the worlds of ranks forked from it.

    Args:
        folder: where the modules lie.
        launcher: starts the zygote; the default starts it as a plain child process.
        folder_inside: the same folder as the ranks see it (in a sandbox); default: ``folder``.
        kit_inside: the kit's root as the zygote sees it; default: where this package lies.
        machine: the default machine of calls.
        preload: library modules that the zygote imports before it forks; nobody waits for it until
            then.
        strict: confine ranks as in grading.
        confined: ranks may read files and change nothing, as while a module is checked.
            Otherwise they may do what the caller may.
        pretend_cuda: torch on the ranks has a GPU, which is the CPU; see
            ``ringside.pytorch.pretend_cuda``.
        at_home: ranks live in the caller's folder, environment and import paths; never if they
            are strict or a launcher's.
        spawn: start every rank by exec instead of forking it; the default on macOS.
        patience: ends calls that take too much, beside their ``timeout_s``.
        debug_rank: the rank whose ``breakpoint()`` opens pdb at this terminal; the others' do
            nothing. Give the calls ``timeout_s=None``.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        launcher: Launcher | None = None,
        folder_inside: str | None = None,
        kit_inside: str | None = None,
        machine: Machine | str = "textbook",
        preload: Sequence[str] = (),
        strict: bool = False,
        confined: bool = False,
        pretend_cuda: bool = False,
        at_home: bool = True,
        spawn: bool = sys.platform == "darwin",
        limits: Limits | None = None,
        patience: Patience | None = None,
        debug_rank: int | None = None,
    ) -> None:
        self.folder = Path(folder).resolve()
        self.machine = Machine.load(machine)
        limits = limits or Limits()
        self.limits = dataclasses.replace(limits, windows=False) if confined or strict else limits
        self._patience = patience
        self._folder_inside = folder_inside or str(self.folder)
        self._strict = strict
        self._confined = confined or strict or launcher is not None
        own = at_home and launcher is None and not strict
        self._pretend_cuda = pretend_cuda
        self._surroundings = surroundings.of_caller() if own else None
        self._spawn = spawn
        self._debug_rank = debug_rank
        self._worlds: dict[tuple[str, int], _World] = {}
        self._lent = launcher is None
        self._nursery = borrow() if launcher is None else Nursery(launcher, kit_inside)
        try:
            self._nursery.preload(list(preload), wait=False)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def process(self) -> int:
        """The process that starts ranks, by number."""
        return self._nursery.pid

    def close(self) -> None:
        """End all ranks; the process that started them may serve the next session."""
        if self._lent:
            self.end_ranks()
            give_back(self._nursery)
        else:
            for world in self._worlds.values():
                world.close()
            self._worlds.clear()
            self._nursery.close()  # and with it all its ranks

    def end_ranks(self) -> None:
        """End all ranks; the next call starts new ones."""
        for front, world_size in list(self._worlds):
            self._discard(front, world_size)

    def call(
        self,
        target: str | Callable[..., Any] | Target,
        world_size: int,
        args: Any = (),
        *,
        members: Sequence[int] | None = None,
        machine: Machine | str | None = None,
        seed: int | None = None,
        timeout_s: float | None = 60.0,
        comm: bool = True,
        kwargs: dict[str, Any] | None = None,
        front_end: str | None = None,
        last: bool = False,
        factors: Factors | None = None,
        failures: Failures | None = None,
        stores: Stores | None = None,
    ) -> Result:
        """Call a function on ranks; student failures come back in ``Result.error``.

        Args:
            target: ``"ring:all_reduce"`` (a module of the session's folder), or a file: a script.
            world_size: ranks to start.
            args: a list with a tuple of arguments per rank of ``comm``, or one tuple for all;
                for a script its command-line words.
            members: world ranks that make up ``comm``, in its order; the others take no part.
            machine: a machine other than the session's.
            seed: permute latencies and draw wildcard choices.
            timeout_s: real seconds after which the run ends with a DeadlineError.
            comm: pass ``comm`` as the first argument.
            kwargs: keyword arguments for all ranks.
            front_end: ``"mpi"`` or ``"torch"``, see ``run``; None: what the file's text tells.
            last: these ranks end with this call; another call starts new ones.
            factors: observe the order of passes: supplied layers announce each one, and these
                factors scale its input (see ``ringside.factors``).
            failures: ranks that die, hang or are slow, and bits that are flipped.
            stores: what their ``ringside.Store`` objects hold, before and after the call; None:
                folders, where these ranks may touch files, and otherwise there are none.

        Raises:
            TargetError: no such file, or impossible sizes, or a failure of nobody.
            CodecError: an argument that can't travel.
        """
        if not 1 <= world_size <= MAX_RANKS:
            raise TargetError(f"world_size ({world_size}) must be between 1 and {MAX_RANKS}.")
        where = target if isinstance(target, Target) else Target.parse(target, self.folder)
        everyone = tuple(range(world_size))
        group = tuple(members) if members is not None else everyone
        if len(set(group)) != len(group) or not set(group) <= set(everyone) or not group:
            raise TargetError(
                f"members {group} must be distinct ranks below world_size ({world_size})."
            )
        per_rank = _per_rank(args, len(group), where)
        front = front_end or front_end_of(where)
        if front == "torch":
            need_torch(where.file)
        students_own = self._lent and not self._strict  # nobody else's files
        # Ranks import a module once: what comes with later calls would not be looked at.
        first = (front, world_size) not in self._worlds
        code = compiled(where.folder, where.file) if students_own and first else {}
        bodies = {}
        for member, rank in enumerate(group):
            call = {
                "file": where.file,
                "function": where.function,
                "module": where.module,
                "args": per_rank[member],
                "kwargs": kwargs or {},
                "comm": comm,
                "code": code,
            }
            bodies[rank] = codec.encode_parts(call)
        used = Machine.load(machine) if machine is not None else self.machine
        carry = partial(
            self._carry,
            bodies,
            world_size,
            front=front,
            members=members,
            machine=used,
            seed=seed,
            timeout_s=timeout_s,
            factors=factors,
        )
        if stores is None and self._surroundings is not None and not self._confined:
            stores = Stores(on_disk=True)
        failures = failures or Failures()
        if failures.slow and max(failures.slow) >= world_size:
            raise TargetError(
                f"there is no rank {max(failures.slow)} to be slow: {world_size} run."
            )
        carry = partial(carry, slow=failures.slow, flips=failures.flips)
        deaths: list[Death] = []
        for stop in failures.stops:  # each on the clock of a run with those before it
            copied = None if stores is None else stores.copy()
            before = carry(stores=copied, deaths=_deaths(deaths, failures, used))
            dying = ranks_of(stop, world_size, used)
            try:
                deaths += [death_of(rank, stop, before.timeline, failures) for rank in dying]
            except TargetError:
                if before.error is None:
                    raise
                break  # it doesn't come so far by itself
        try:
            result = carry(stores=stores, deaths=_deaths(deaths, failures, used), last=last)
            if failures.flips:
                check_flips(failures.flips, result.trace, ended=result.error is None)
            return result
        finally:
            if stores is not None:
                stores.write()

    def trace_torch(
        self,
        target: str | Callable[..., Any],
        world_size: int,
        args: tuple[Any, ...] = (),
        *,
        grid: Mapping[str, int] | None = None,
        alike: Sequence[str] | None = (),
        witnesses: bool = True,
        comm: bool = True,
        kwargs: dict[str, Any] | None = None,
        timeout_s: float | None = 600.0,
    ) -> TorchTrace:
        """Trace a torch function on fake tensors; see ``ringside.trace_torch``.

        The function runs in ranks of this session, confined as all its ranks are; what comes
        back is checked before it is used.
        """
        where = Target.parse(target, self.folder)
        fakes = asked(world_size, grid, alike, witnesses)
        need_torch(where.file)
        if where.function is None:
            raise TargetError(f"name a function of {where.file} to trace: FILE:FUNCTION.")
        call = {
            "file": where.file,
            "function": where.function,
            "args": args,
            "kwargs": kwargs or {},
            "comm": comm,
            "code": {},
        }
        processes = num_processes(fakes, os.cpu_count() or 1)
        bodies = {
            number: codec.encode_parts({**call, "fakes": {**fakes, "share": (number, processes)}})
            for number in range(processes)
        }
        result = self._carry(
            bodies, processes, front="torch", machine=self.machine, timeout_s=timeout_s
        )
        traced = from_logs(result.raise_for_error().values, fakes)
        return dataclasses.replace(traced, memory=[_memory(report) for report in traced.memory])

    def _carry(
        self,
        bodies: dict[int, list[codec.Part]],
        world_size: int,
        *,
        front: str,
        machine: Machine,
        timeout_s: float | None,
        members: Sequence[int] | None = None,
        seed: int | None = None,
        last: bool = False,
        factors: Factors | None = None,
        deaths: Deaths | None = None,
        slow: Mapping[int, float] | None = None,
        flips: Mapping[tuple[int, int], int] | None = None,
        stores: Stores | None = None,
    ) -> Result:
        """Send every rank in ``bodies`` its call and see the run through."""
        group = tuple(members) if members is not None else tuple(range(world_size))
        world = self._world(front, world_size)

        def locate(computing: list[Peer]) -> dict[int, str]:
            with contextlib.suppress(RingsideError):
                ranks = [peer.rank for peer in computing]
                return current_lines(
                    computing,
                    self._folder_inside,
                    lambda: self._nursery.locate(world.number, ranks),
                )
            return {}

        network = Network(
            world.peers, machine, seed=seed, limits=self.limits, first_comm=world.next_comm,
            front_end=world.front_end, locate=locate, memory=self._memory_of(world, world_size),
            factors=factors,
            patience=self._patience, deaths=deaths, flips=flips, slow=slow, stores=stores,
        )  # fmt: skip
        try:
            outcome = network.call(bodies, group if members is not None else None, timeout_s, last)
        except BaseException:  # the reader stopped it: these ranks are in the midst of something
            self._discard(front, world_size)
            raise
        # Numbers go on: a communicator that a rank has kept must not pass for one of another call.
        world.next_comm = network.next_comm
        # Behind an error other ranks may still be in the call, and can't take the next one.
        if outcome.error is not None or outcome.deaths or outcome.hangs or last:
            self._discard(front, world_size)
        return result_of(
            outcome,
            group,
            machine,
            seed=seed,
            factors=factors,
            most_bytes=self.limits.decoded_bytes,
        )

    def _memory_of(self, world: _World, world_size: int) -> MemoryWatch | None:
        """Who looks at what a student's own ranks hold; in a sandbox others do."""
        if not self._lent or self._strict:
            return None
        nursery = self._nursery

        def ranks() -> list[int]:
            with contextlib.suppress(RingsideError, ValueError):  # too busy; the run may go on
                return nursery.processes(world.number)
            return []

        return MemoryWatch(world_size, nursery.pid, ranks)

    # -- worlds ----------------------------------------------------------------------------------

    def _world(self, front: str, world_size: int) -> _World:
        world = self._worlds.get((front, world_size))
        if world is None:
            self._preload(front)
            world = self._worlds[front, world_size] = _World(self._nursery.new_world(), front)
            try:
                self._fork(world, world_size)
            except BaseException:
                self._discard(front, world_size)
                raise
        return world

    def _preload(self, front: str) -> None:
        """Let the zygote import what the front end needs, before the first rank that needs it."""
        modules = FRONT_ENDS.get(front)
        if modules is None:
            raise TargetError(f"front_end ({front!r}) must be one of {', '.join(FRONT_ENDS)}.")
        if not self._spawn:
            self._nursery.preload(list(modules))

    def _discard(self, front: str, world_size: int) -> None:
        world = self._worlds.pop((front, world_size), None)
        if world is not None:
            # Killed before their sockets close, which would wake every one of them first.
            with contextlib.suppress(RingsideError):
                self._nursery.kill(world.number)
            world.close()

    def _fork(self, world: _World, world_size: int) -> None:
        for rank in range(world_size):
            ours, theirs = socket.socketpair()
            read, write = os.pipe()
            ours.setblocking(False)
            os.set_blocking(read, False)
            # Before the start, which may fail: what is listed is closed then.
            world.peers.append(Peer(rank, ours, read))
            command = {
                "spawn": self._spawn,
                "front_end": world.front_end,
                "world": world.number,
                "rank": rank,
                "world_size": world_size,
                "folder": self._folder_inside,
                "surroundings": self._surroundings,
                "confine": self._confined,
                "strict": self._strict,
                "pretend_cuda": self._pretend_cuda,
                "debug_rank": self._debug_rank,
                "stdin": rank == 0 and bool(self._surroundings) and surroundings.has_input(),
            }
            try:
                stdin = [0] if command["stdin"] else []
                self._nursery.start(command, [theirs.fileno(), write, *stdin])
            finally:
                # While we hold the rank's ends too, we don't see them close when it ends.
                theirs.close()
                os.close(write)


class _World:
    """Connected ranks that take one call after another."""

    def __init__(self, number: int, front_end: str) -> None:
        self.number = number
        self.front_end = front_end
        self.peers: list[Peer] = []
        self.next_comm = 1

    def close(self) -> None:
        for peer in self.peers:
            peer.sock.close()
            os.close(peer.output)


def run(
    target: str | Callable[..., Any],
    world_size: int,
    args: Any = (),
    *,
    machine: Machine | str = "textbook",
    members: Sequence[int] | None = None,
    seed: int | None = None,
    timeout_s: float | None = 60.0,
    check: bool = True,
    comm: bool = True,
    kwargs: dict[str, Any] | None = None,
    front_end: str | None = None,
    failures: Failures | None = None,
) -> Result:
    """Run a module's function, or a script, on simulated ranks and return what happened.

    Args:
        target: ``"ring.py:all_reduce"``, a function imported from a file, or ``"script.py"``.
        world_size: number of ranks.
        args: a list with one tuple of arguments per rank, or one tuple for all ranks; the
            function is called as ``function(comm, *args)``. For a script, its command-line words.
        machine: a preset's name ("textbook", "laptop", "zaratan"), a TOML file or a Machine.
        members: world ranks that make up ``comm``, in its order.
        seed: permute latencies and draw wildcard choices.
        timeout_s: real seconds that the run may take; None: no limit.
        check: raise the run's error; with False it is in ``Result.error``.
        front_end: what ranks speak. ``"torch"``: the function is called as
            ``function(group, *args)`` with tensors in the place of arrays, and torch.distributed
            works; ``"mpi"``: mpi4py alone. None: "torch" if the file imports torch, unless the
            function's first parameter is ``comm``.
        failures: ranks that die, hang or are slow, and bits that are flipped; see
            ``ringside.Failures``.

    Raises:
        DeadlockError, RankError, DeadlineError, LimitError: how student code failed.
        TargetError: nothing there to run.
    """
    where = Target.parse(target)
    with Session(where.folder, machine=machine) as session:
        result = session.call(
            where,
            world_size,
            args,
            members=members,
            seed=seed,
            timeout_s=timeout_s,
            comm=comm,
            kwargs=kwargs,
            front_end=front_end,
            failures=failures,
            last=True,
        )
    return result.raise_for_error() if check else result


def trace_torch(
    target: str | Callable[..., Any],
    world_size: int,
    args: tuple[Any, ...] = (),
    *,
    grid: Mapping[str, int] | None = None,
    alike: Sequence[str] | None = (),
    witnesses: bool = True,
    comm: bool = True,
    kwargs: dict[str, Any] | None = None,
    timeout_s: float | None = 600.0,
) -> TorchTrace:
    """Trace a torch function at a size that can't be run: on fake tensors, without data.

    The function is run once for each rank, one after another in a process or a few, by torch's
    FakeTensorMode: shapes are worked out, FLOPs and bytes counted, calls of torch.distributed
    written down, and nothing is computed or sent. The trace is what the network would have
    recorded of real ranks, and can be replayed on any machine; ranks that are alike are then
    timed once, where that is exact::

        traced = ringside.trace_torch("gpt.py:step", 512, (config,),
                                      grid={"pp": 8, "dp": 16, "tp": 4}, alike=("dp", "tp"))
        ringside.replay(traced, "zaratan").makespan_s

    Args:
        target: ``"gpt.py:step"``, or a function imported from a file.
        world_size: number of ranks.
        args: passed to all ranks, as ``function(group, *args)``. Make what differs between ranks
            from ``group.rank()``.
        grid: axes and their extents, the last one fastest: rank = (pp * 16 + dp) * 4 + tp.
        alike: axes of the grid along which all ranks do the same in another place; then one rank
            of each kind is traced and stands for the others. None: find out which.
        witnesses: of each kind trace a second rank, the farthest, and compare.
        comm: pass the group of all ranks as the first argument.
        timeout_s: real seconds that it may take.

    Raises:
        RankError: the function failed, or needs what fake tensors don't have (values, the order in
            which messages come, DistributedDataParallel); tells the line and what to do instead.
        TraceError: ranks are not as alike as was said, a message is sent and not received, members
            of a group disagree; or the trace is too large.
    """
    where = Target.parse(target)
    with Session(where.folder) as session:
        return session.trace_torch(
            f"{where.file}:{where.function}" if where.function else where.file, world_size, args,
            grid=grid, alike=alike, witnesses=witnesses, comm=comm, kwargs=kwargs,
            timeout_s=timeout_s,
        )  # fmt: skip


def _deaths(deaths: Sequence[Death], failures: Failures, machine: Machine) -> Deaths:
    """What the network carries out of ``failures``."""
    detect_s = machine.failure_detect_s if failures.detect_s is None else failures.detect_s
    return Deaths(
        deaths,
        detect_ps=round(detect_s * PS),
        collectives=failures.collectives,
        seed=failures.seed,
    )


def _per_rank(args: Any, size: int, where: Target) -> list[Any]:
    if where.function is None:
        return [[str(word) for word in args]] * size
    if isinstance(args, tuple):
        return [args] * size
    if isinstance(args, np.ndarray):  # would be cut into one number, or one row, per rank
        raise TargetError(
            "args is an array: give a tuple for all ranks, such as (x,), or a list with one "
            "tuple per rank."
        )
    per_rank = [item if isinstance(item, tuple) else (item,) for item in args]
    if len(per_rank) != size:
        raise TargetError(
            f"args has {len(per_rank)} entries for {size} ranks: give one tuple per rank."
        )
    return per_rank


def result_of(
    outcome: RunEnd,
    group: tuple[int, ...],
    machine: Machine,
    *,
    seed: int | None = None,
    factors: Factors | None = None,
    most_bytes: int | None = None,
) -> Result:
    """What has come of a run.

    Args:
        most_bytes: of memory that the objects of all results may take.
    """
    values: list[Any] = []
    changed, aliased, memory = [], [], []
    error, free_bytes, notes = outcome.error, most_bytes, dict(outcome.notes)
    for rank in group:
        body = outcome.bodies[rank]
        attested: dict[str, Any] = {}
        value = None
        # A student's process made the body: what is wrong with it is the rank's failure, not ours.
        if body is not None:
            try:
                attested, value, nbytes = split_result(body, free_bytes)
                free_bytes = None if free_bytes is None else free_bytes - nbytes
            except codec.TooLargeError:
                error = error or LimitError(
                    rank,
                    "returns objects that take too much memory: those of all ranks may take "
                    f"{format_bytes(most_bytes or 0)} together. An array takes less than a list "
                    "of as many numbers.",
                )
            except (CodecError, TypeError, ValueError, struct.error) as bad:
                attested, value = {}, None
                error = error or RankError(rank, "CodecError", f"the result can't be read: {bad}")
        values.append(value)
        changed.append(bool(attested.get("changed")))
        aliased.append(bool(attested.get("aliased")))
        memory.append(_memory(attested.get("memory")))
        for name, remark in _remarks(attested.get("remarks")):
            notes.setdefault(name, f"rank {rank}'s {remark}")
        awaited = attested.get("awaited")
        if awaited and re.search(r"\bnan\b", outcome.output[rank]) and "nan" not in notes:
            notes["nan"] = (
                f"rank {rank} printed nan. The buffer of {failure.text(awaited, 200)} holds NaN "
                "until it is waited for: see that nothing reads it before."
            )
    if notes.pop("columns", None):  # columns that are received as columns
        notes.pop("order", None)
    for note in notes.values():
        if error is not None:
            error.add_note(note)
    return Result(
        values=values,
        error=error,
        output=outcome.output,
        recording=outcome.recording,
        machine=machine,
        inputs_changed=changed,
        aliased=aliased,
        collectives=outcome.collectives,
        comm_calls=outcome.comm_calls,
        unreceived=outcome.unreceived,
        seed=seed,
        members=group,
        memory=memory if any(memory) else [],
        notes=notes,
        num_operations=outcome.num_operations,
        result_bytes=sum(len(body) for body in outcome.bodies if body is not None),
        deaths=outcome.deaths,
        hangs=outcome.hangs,
        factors=None if factors is None else factors.among(group),
    )


# What ranks may say of their own calls: that a buffer's numbers are taken for others, that a place
# has more room than comes, that nothing was started, that an access is in the midst of a number,
# that two calls fill one buffer, that a function's result isn't used, that columns are sent; and of
# averages and training in torch.
_REMARKS = (
    *("kind", "room", "start", "step", "shared", "unused", "order", "columns"),
    *("average", "no gradient", "passed by", "not wrapped", "same order"),
)


def _remarks(told: Any) -> list[tuple[str, str]]:
    """What a rank remarks on its own calls, if it has the form that a rank of ours gives it."""
    if not isinstance(told, dict):
        return []
    return [(name, failure.text(told[name], 400)) for name in _REMARKS if name in told]


def _memory(report: Any) -> dict[str, Any]:
    """What a rank says of its memory, if it has the form that a rank of ours gives it."""

    def is_size(value: Any) -> bool:
        return type(value) is int and 0 <= value < 1 << 63

    if not isinstance(report, dict) or not is_size(report.get("peak")):
        return {}
    kinds = [report.get(name) for name in ("at_peak", "peak_by_kind", "live", "after_step")]
    good = all(isinstance(kind, dict) and all(map(is_size, kind.values())) for kind in kinds)
    return report if good else {}
