"""The fixtures ``mpi`` and ``gloo`` of the public tests: calls on real ranks of this machine.

    (run,) = mpi.call_all([("ring:all_reduce", 3, [(x,), (y,), (z,)])])

All calls on p ranks are made by one world of p, one after another. Starting it takes longest, so
it may be started before its calls are known: it waits for them in a file. Graders make the same
calls in a sandbox, under the same names (``autograder.grade.suite.calls``).

    python -m ringside.checking.real_calls FOLDER SCRATCH       a rank under mpiexec
    python -m ringside.checking.real_calls FOLDER SCRATCH P     a world of torch's gloo
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from ringside import kit
from ringside.checking.assertions import Verdict, buffered, one_line, open_request, rendezvous
from ringside.errors import RunError
from ringside.files import write_atomically
from ringside.network import codec, failure
from ringside.network.storage import Stores
from ringside.targets import find
from ringside.timing.machine import Machine

TIMEOUT_S = 60.0  # of all calls on p ranks
SOON_S = 3.0  # in which calls nearly always end, once all ranks are there
PATIENCE_S = 15.0  # of a rank of gloo that waits for another
# The network is milder: it stands for other backends, too.
WAIT_ONCE = (
    "Perhaps one send or receive is waited for twice: on gloo a second wait() never ends, and "
    "is_completed() stays False before the first."
)
_UNUSED_S = 600.0  # after which ranks whose calls never come end by themselves
_POLL_S = 0.005
_START_METHOD = "spawn" if sys.platform == "darwin" else "fork"
Calls = Sequence[tuple[str, int, list[tuple[Any, ...]]]]


class NotRun(Verdict):
    """A call that isn't tried on real ranks, since it fails on the network.

    Attributes:
        call: which one.
    """

    def __init__(self, sentence: str, call: tuple[str, int, Any]) -> None:
        super().__init__(sentence)
        self.call = call


@dataclass(frozen=True)
class RealRun:
    """What a call gave: a value per rank, or why there is none."""

    values: list[Any]
    error: RunError | None = None


class RealCalls:
    """Calls under ``mpiexec``, or on real processes that torch's gloo connects.

    Args:
        launcher: "mpiexec" or "gloo".
        ranks: simulated ones, for rehearsals.
    """

    def __init__(self, launcher: str, ranks: Any, worlds: Worlds) -> None:
        self.name = launcher
        self._ranks = ranks
        self._worlds = worlds

    def call_all(self, calls: Calls) -> list[RealRun]:
        """Make the calls, and give the result of each.

        Raises:
            Verdict: a call fails on the network, or a rank ended without an answer; or they did not
                end, as on the network where sends wait.
            subprocess.TimeoutExpired: they did not end, for another reason.
        """
        for call in calls:
            rehearsed(self._ranks, call, buffered(), self.name)
        try:
            return self._on_real_ranks(calls, SOON_S)
        except subprocess.TimeoutExpired:
            # Perhaps the network knows the reason, where sends wait for their receives.
            for call in calls:
                rehearsed(self._ranks, call, rendezvous(), self.name)
        return self._on_real_ranks(calls, TIMEOUT_S)

    def _on_real_ranks(self, calls: Calls, patience_s: float) -> list[RealRun]:
        runs: dict[int, list[RealRun]] = {}
        for p in dict.fromkeys(p for _, p, _ in calls):
            mine = [(target, args) for target, size, args in calls if size == p]
            runs[p] = self._world(p, mine, patience_s)
        return [runs[p].pop(0) for _, p, _ in calls]

    def _world(self, p: int, calls: list[Any], patience_s: float) -> list[RealRun]:
        with contextlib.closing(self._worlds.take(self.name, p)) as world:
            answers = world.answers(calls, patience_s)
        runs: list[RealRun] = []
        for number, (target, _) in enumerate(calls):
            mine = [each[number] for each in answers if number < len(each)]
            errors = [value for kind, value in mine if kind == "error"]
            if errors:
                rank = next(i for i, (kind, _) in enumerate(mine) if kind == "error")
                error = failure.decode(rank, errors[0])
                return [*runs, *[RealRun([None], error)] * (len(calls) - number)]
            if len(mine) < p:
                raise Verdict(f"{target} under {self.name}: a rank ended without an answer.")
            runs.append(RealRun([value for _, value in mine]))
        return runs


class Worlds:
    """Real ranks that call what lies in a folder.

    Args:
        mpiexec: the launcher of this machine; empty: there is none.
    """

    def __init__(self, folder: Path, mpiexec: str) -> None:
        self._folder = folder.resolve()
        self._mpiexec = mpiexec
        self._waiting: dict[tuple[str, int], World] = {}

    def start(self, launcher: str, p: int) -> None:
        """Start ranks that a test will ask for."""
        if (launcher == "gloo" or self._mpiexec) and (launcher, p) not in self._waiting:
            self._waiting[launcher, p] = self._new(launcher, p)

    def take(self, launcher: str, p: int) -> World:
        """Ranks for one list of calls: those that wait, or new ones."""
        world = self._waiting.pop((launcher, p), None)
        if world is not None and not world.runs:  # it has waited too long
            world.close()
            world = None
        return world or self._new(launcher, p)

    def close(self) -> None:
        """End those that nobody has asked for."""
        for world in self._waiting.values():
            world.close()
        self._waiting.clear()

    def _new(self, launcher: str, p: int) -> World:
        start = [self._mpiexec, "-n", str(p)] if launcher == "mpiexec" else []
        return World(self._folder, p, start, [] if start else [str(p)])


class World:
    """p real ranks, which import what they need and wait for their calls.

    Args:
        start: what stands before the Python that is started.
        more: what its program is told besides the folders.
    """

    def __init__(self, folder: Path, p: int, start: Sequence[str], more: Sequence[str]) -> None:
        self._p = p
        self._folder = tempfile.TemporaryDirectory(prefix="ringside-real-")
        self._scratch = Path(self._folder.name)
        program = [sys.executable, "-m", "ringside.checking.real_calls", str(folder)]
        self._process = subprocess.Popen(
            [*start, *program, str(self._scratch), *more], cwd=folder, env=_environment(),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def answers(self, calls: list[Any], patience_s: float) -> list[list[Any]]:
        """What each rank answered to each call.

        Args:
            patience_s: seconds for the calls, from when all ranks are there.

        Raises:
            subprocess.TimeoutExpired: they did not end.
        """
        write_atomically(self._scratch / "calls", codec.encode(calls))
        paths = [self._scratch / str(rank) for rank in range(self._p)]
        until = time.monotonic() + TIMEOUT_S
        while self.runs and not all(path.is_file() for path in paths) and time.monotonic() < until:
            time.sleep(_POLL_S)
        self._process.wait(patience_s)
        return [list(self._answers(path)) for path in paths]

    def close(self) -> None:
        """End it; what was answered is gone."""
        self._process.terminate()  # mpiexec ends its ranks
        self._folder.cleanup()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @staticmethod
    def _answers(path: Path) -> Iterator[Any]:
        stream = path.read_bytes() if path.is_file() else b""
        while len(stream) >= 4:
            size = int.from_bytes(stream[:4], "little")
            yield codec.decode(stream[4 : 4 + size])
            stream = stream[4 + size :]


def rehearsed(ranks: Any, call: tuple[str, int, Any], machine: Machine, launcher: str) -> Any:
    """What the call gives on the network: what fails there is not tried on real ranks.

    Neither is what leaves a request open there: real ranks may wait for it for ever.

    Raises:
        NotRun: it fails on the network.
    """
    target, world_size, args = call
    result = ranks.call(target, world_size, args, machine=machine, stores=Stores())
    headline = str(result.error).splitlines()[0] if result.error else open_request(result)
    if headline:
        sentence = f"not run under {launcher}, since it fails on the network: {one_line(headline)}"
        raise NotRun(sentence, call)
    return result


def _environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(kit.ROOT), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def main(folder: str, scratch: str, p: str = "") -> None:
    """What a rank of MPI does, or what starts p ranks of gloo."""
    sys.path.insert(0, folder)
    if not p:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        _answer(folder, scratch, world.Get_rank(), world.Dup, lambda: world.Abort(1))
        return
    import ringside.pytorch.preload  # noqa: F401  what ranks import late, too

    gc.freeze()  # a module may look through what it has made: not through all of torch
    _awaited(scratch)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ranks that are daemons end with it
    context: Any = multiprocessing.get_context(_START_METHOD)
    processes = [
        context.Process(target=_on_gloo, args=(folder, scratch, rank, int(p)), daemon=True)
        for rank in range(int(p))
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def _on_gloo(folder: str, scratch: str, rank: int, p: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    import torch.distributed as dist

    from ringside.pytorch import tensors

    store = dist.FileStore(f"{scratch}/store", p)  # type: ignore[attr-defined]
    patience = timedelta(seconds=PATIENCE_S)
    dist.init_process_group("gloo", store=store, world_size=p, rank=rank, timeout=patience)
    convert = tensors.from_arrays, tensors.to_arrays

    def group() -> Any:
        return dist.new_group(timeout=patience)  # else it would wait for half an hour

    _answer(folder, scratch, rank, group, lambda: os._exit(1), convert)


def _answer(
    folder: str,
    scratch: str,
    rank: int,
    communicator: Callable[[], Any],
    end: Callable[[], Any],
    convert: tuple[Callable[[Any], Any], Callable[[Any], Any]] = (tuple, lambda value: value),
) -> None:
    """Make all calls, and write the answers into a file of this rank's."""
    forth, back = convert
    calls = _awaited(scratch)
    with Path(scratch, str(rank)).open("wb") as results:
        for target, arguments in calls:
            comm = communicator()  # of this call alone: who keeps it for later ones fails there
            try:
                value = find(target)(comm, *forth(arguments[rank]))
                frame = codec.encode(("value", back(value)))
            except BaseException as error:
                frame = codec.encode(("error", failure.encode_caught(error, folder)))
            results.write(len(frame).to_bytes(4, "little") + frame)
            results.flush()
            if codec.decode(frame)[0] == "error":  # the others may wait for this one
                end()
            if hasattr(comm, "Free"):
                comm.Free()


def _awaited(scratch: str) -> Any:
    """The calls, once they are there; who is no longer needed finds its folder gone, and ends."""
    path, until = Path(scratch, "calls"), time.monotonic() + _UNUSED_S
    while not path.is_file():
        if not path.parent.is_dir() or time.monotonic() > until:
            os._exit(0)
        time.sleep(_POLL_S)
    return codec.decode(path.read_bytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
