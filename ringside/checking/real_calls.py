"""The fixtures ``mpi`` and ``gloo`` of the public tests: calls on real ranks of this machine.

    (run,) = mpi.call_all([("ring:all_reduce", 3, [(x,), (y,), (z,)])])

All calls on p ranks are made by one ``mpiexec -n p``, one after another. Graders make the same
calls in a sandbox, under the same names (``autograder.grade.suite.calls``).

    python -m ringside.checking.real_calls FOLDER SCRATCH [RANK P]      what each rank runs
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from ringside import kit
from ringside.checking.assertions import Verdict, buffered, one_line, open_request, rendezvous
from ringside.errors import RunError
from ringside.network import codec, failure
from ringside.network.storage import Stores
from ringside.targets import find
from ringside.timing.machine import Machine

TIMEOUT_S = 60.0  # of all calls on p ranks
PATIENCE_S = 30.0  # of a rank that waits for another
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


class MpiCalls:
    """Calls under ``mpiexec``."""

    name = "mpiexec"

    def __init__(self, folder: Path, ranks: Any, mpiexec: str = "") -> None:
        self._folder = folder.resolve()
        self._ranks = ranks
        self._mpiexec = mpiexec

    def call_all(self, calls: Calls) -> list[RealRun]:
        """Make the calls, and give the result of each.

        Raises:
            Verdict: a call fails on the network, or a rank ended without an answer; or they did not
                end, as on the network where sends wait.
            subprocess.TimeoutExpired: they did not end, for another reason.
        """
        for call in calls:
            rehearsed(self._ranks, call, buffered(), self.name)
        runs: dict[int, list[RealRun]] = {}
        try:
            for p in dict.fromkeys(p for _, p, _ in calls):
                mine = [(target, args) for target, size, args in calls if size == p]
                runs[p] = self._world(p, mine)
        except subprocess.TimeoutExpired:
            # Perhaps the network knows the reason, where sends wait for their receives.
            for call in calls:
                rehearsed(self._ranks, call, rendezvous(), self.name)
            raise
        return [runs[p].pop(0) for _, p, _ in calls]

    def _world(self, p: int, calls: list[Any]) -> list[RealRun]:
        with tempfile.TemporaryDirectory(prefix="ringside-real-") as scratch:
            path = Path(scratch)
            (path / "calls").write_bytes(codec.encode(calls))
            self._start(p, path)
            answers = [self._answers(path / str(rank)) for rank in range(p)]
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

    def _start(self, p: int, scratch: Path) -> None:
        words = [self._mpiexec, "-n", str(p), *self._rank_words(scratch)]
        subprocess.run(
            words, cwd=self._folder, env=_environment(), capture_output=True,
            timeout=TIMEOUT_S, check=False,
        )  # fmt: skip

    def _rank_words(self, scratch: Path) -> list[str]:
        return [
            sys.executable, "-m", "ringside.checking.real_calls", str(self._folder), str(scratch)
        ]  # fmt: skip

    @staticmethod
    def _answers(path: Path) -> list[Any]:
        if not path.is_file():
            return []
        answers, stream = [], path.read_bytes()
        while len(stream) >= 4:
            size = int.from_bytes(stream[:4], "little")
            answers.append(codec.decode(stream[4 : 4 + size]))
            stream = stream[4 + size :]
        return answers


class GlooCalls(MpiCalls):
    """Calls on real processes that torch's gloo connects."""

    name = "gloo"

    def _start(self, p: int, scratch: Path) -> None:
        words = self._rank_words(scratch)
        processes = [
            subprocess.Popen([*words, str(rank), str(p)], cwd=self._folder, env=_environment())
            for rank in range(p)
        ]
        try:
            for process in processes:
                process.wait(TIMEOUT_S)
        finally:
            for process in processes:
                process.kill()
                process.wait()


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


def main(folder: str, scratch: str, *gloo: str) -> None:
    """What a rank does: all calls, its answers into a file of its own."""
    sys.path.insert(0, folder)
    calls = codec.decode(Path(scratch, "calls").read_bytes())
    prepare = _on_gloo if gloo else _on_mpi
    rank, communicator, convert, convert_back, end = prepare(scratch, *map(int, gloo))
    with Path(scratch, str(rank)).open("wb") as results:
        for target, arguments in calls:
            comm = communicator()  # of this call alone: who keeps it for later ones fails there
            try:
                value = find(target)(comm, *convert(arguments[rank]))
                frame = codec.encode(("value", convert_back(value)))
            except BaseException as error:
                frame = codec.encode(("error", failure.encode_caught(error, folder)))
            results.write(len(frame).to_bytes(4, "little") + frame)
            results.flush()
            if codec.decode(frame)[0] == "error":  # the others may wait for this one
                end()
            if not gloo:
                comm.Free()


def _on_mpi(scratch: str) -> tuple[Any, ...]:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    return world.Get_rank(), world.Dup, tuple, lambda value: value, lambda: world.Abort(1)


def _on_gloo(scratch: str, rank: int, p: int) -> tuple[Any, ...]:
    import torch.distributed as dist

    from ringside.pytorch import tensors

    store = dist.FileStore(f"{scratch}/store", p)  # type: ignore[attr-defined]
    patience = timedelta(seconds=PATIENCE_S)
    dist.init_process_group("gloo", store=store, world_size=p, rank=rank, timeout=patience)
    return rank, dist.new_group, tensors.from_arrays, tensors.to_arrays, lambda: os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
