"""One rank of a real run over MPI: what ``mpiexec`` or ``srun`` starts, once a rank.

    mpiexec -n 4 python -m ringside.jobs.real.mpi_main ring.py:all_reduce --world-size 4 --n 1000

A function gets the machine's own ``MPI.COMM_WORLD``, a script finds it; ``ringside.jobs.real.run``
says what is measured and what stays behind.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

from ringside.jobs.real import facts as cluster_facts
from ringside.jobs.real import run as real_run
from ringside.jobs.real.watch import Watch, report_start
from ringside.session.recorder import Recorder, recording_here
from ringside.session.target import Target


class MpiRanks(real_run.RealRanks):
    """The ranks of ``MPI.COMM_WORLD``.

    Args:
        world: the communicator itself.
        comm: the same as one that writes down its calls.
    """

    kind = "mpi4py"

    def __init__(self, world: Any, comm: Any, recorder: Recorder) -> None:
        self.rank = world.rank
        self.world_size = world.size
        self._world = world
        self._comm = self._given_comm = comm
        self._recorder = recorder

    @property
    def first(self) -> Any:
        return self._given_comm

    def allgather(self, value: Any) -> list[Any]:
        return list(self._world.allgather(value))

    def gather(self, value: Any) -> list[Any]:
        return list(self._world.gather(value) or [])

    def together(self) -> None:
        self._world.Barrier()

    def given(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return arguments

    def value(self, result: Any, given: tuple[Any, ...]) -> Any:
        return result

    def time_s(self, call: Callable[[], Any]) -> float:
        self._given_comm = self._world  # writing down a call takes as long as a short message
        try:
            self.together()
            start_s = time.perf_counter()
            call()
            return time.perf_counter() - start_s
        finally:
            self._given_comm = self._comm

    def record_call(self, call: Callable[[], Any]) -> None:
        self.together()
        self._recorder.restart()
        self._recorder.enabled = True
        with recording_here(self._recorder, self.together):
            call()
        self._recorder.end()

    def about(self) -> dict[str, Any]:
        from mpi4py import MPI

        return {"mpi": MPI.Get_library_version().splitlines()[0].strip().rstrip("\0")}

    def abort(self, status: int) -> None:
        self._world.Abort(status)

    def is_echo(self, error: BaseException) -> bool:
        from mpi4py import MPI

        # A peer that is gone has no error class of its own in MPI 3: these two hold it.
        gone = (MPI.ERR_OTHER, MPI.ERR_INTERN)
        return isinstance(error, MPI.Exception) and error.Get_error_class() in gone


def main() -> int:
    """Be a rank; returns the exit status."""
    arguments = real_run.parse(real_run.parser("python -m ringside.jobs.real.mpi_main"))
    real_run.begin()
    cluster_facts.before_mpi_is_loaded()
    from mpi4py import MPI

    from ringside.jobs.real.recording_mpi import record

    world = MPI.COMM_WORLD
    if world.size != arguments.world_size:
        return real_run.refuse(arguments, world.rank, "size", _wrong_size(arguments, world.size))
    target = Target.parse(arguments.target)
    recorder = Recorder(most_calls=None if target.function else real_run.MOST_CALLS)
    recorder.enabled = False
    comm = record(world, recorder)
    ranks = MpiRanks(world, comm, recorder)
    started = time.time()
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    world.Barrier()
    # Behind the barrier, so all watches begin together: at the deadline each gives the others only
    # a second to write their line.
    watch = Watch(arguments.deadline_s, world.rank, world.size, arguments.scratch, recorder)
    report_start(arguments.scratch, world.rank)
    measurements: list[dict[str, Any]] = []
    with real_run.reported(arguments, ranks):
        if target.function:
            measurements = real_run.measure(target, arguments, ranks)
        else:
            MPI.COMM_WORLD = comm  # type: ignore[misc]  # what the script's import will find
            real_run.run_script(target, arguments, ranks, recorder)
    real_run.leave_record(arguments, target, ranks, recorder, measurements, started)
    watch.close()
    return 0


def _wrong_size(asked: argparse.Namespace, size: int) -> str:
    return (
        f"asked for {asked.world_size} ranks, but this rank is one of {size}: the launcher "
        "doesn't fit the MPI library, so the ranks didn't find each other. `srun --mpi=pmi2` or "
        "`mpiexec` fit the mpich wheel; `srun --mpi=pmix` or `mpirun` fit Open MPI "
        "(--set launcher=...)."
    )


if __name__ == "__main__":
    sys.exit(main())
