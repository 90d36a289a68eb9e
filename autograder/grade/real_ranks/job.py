"""Run a student's modules on real ranks, worlds of several sizes in one sandbox.

    outcome = run_mpi([4, 3], folder, inputs, Allowance(limits), driver=DRIVER)
    outcome.results[1][2]       # the bytes that rank 2 of the second world sent back

Ranks are those of ``mpiexec``, or (``launcher="gloo"``) of torch.distributed's gloo.

Real ranks share memory and files, so only values are taken from such a run, never counts. What
the driver finds in its environment:

    RINGSIDE_JOB_INPUTS     a file with the given bytes
    RINGSIDE_JOB_WORLD      which of the worlds this is, from 0
    RINGSIDE_JOB_PIPE       this rank's named pipe: it opens it for writing, once, writes what it
                            has to say, and closes it
    RINGSIDE_JOB_MODULES    the folder of the student's modules
    RINGSIDE_JOB_KIT        the folder that holds the package ringside

and the nurseries, where ranks may not share the seed of their hashes:

    RINGSIDE_JOB_OWN_HASHES any text

A pipe takes no room on a disk, and can't be a link to something else. ``mpi_nursery`` and
``gloo_nursery`` say how the ranks are started.
"""

from __future__ import annotations

import os
import selectors
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from autograder.grade.real_ranks import gloo_nursery, mpi_nursery, mpi_stand_in
from autograder.sandbox.allowance import Allowance
from autograder.sandbox.sandbox import Process, Sandbox, Tier
from autograder.sandbox.warm_sandbox import WarmNursery, WarmSandbox

__all__ = ["MpiOutcome", "command_inside", "environment_inside", "run_mpi"]

_TICK_S = 0.02


class _Brought(TypedDict):
    """What a job puts into its sandbox."""

    files: Sequence[str] | None
    extra: Mapping[str, bytes]
    pipes: int


@dataclass(frozen=True)
class MpiOutcome:
    """How an MPI job ended.

    Attributes:
        status: "ok" (exit status 0), "failed", "timeout", "limit" (too much memory or too many
            bytes sent back), or "unavailable" (no sandbox here can hold an MPI job).
        results: per world and rank the bytes that it sent back.
        output: the first bytes of what the ranks wrote, or the reason why nothing ran.
        seconds: wall time.
    """

    status: str
    results: list[list[bytes]]
    output: str
    seconds: float
    survivors: tuple[int, ...] = ()


def run_mpi(
    worlds: Sequence[int],
    modules_folder: Path,
    inputs: bytes,
    allowance: Allowance,
    *,
    driver: str,
    launcher: str = "mpiexec",
    files: Sequence[str] | None = None,
    trust_submissions: bool = False,
    nursery: WarmNursery | None = None,
    own_hashes: bool = False,
) -> MpiOutcome:
    """Start one ``mpiexec -n P`` after another and wait for the last.

    Args:
        worlds: P of each. Ranks may start threads, and no processes.
        inputs: given to every rank.
        allowance: what all of them together may use, with the limits of the sandbox; a job that
            sends back more than ``result_bytes`` is killed.
        driver: source of the program that each rank runs.
        launcher: "mpiexec" or "gloo".
        files: names of the modules to take from the folder; None for all ``*.py``.
        nursery: the warm sandbox to use; None for one of its own.
        own_hashes: start each rank as a Python of its own, with another seed of its hashes.
    """
    extra = {"inputs": inputs, "driver.py": driver.encode()}
    of_ranks = gloo_nursery if launcher == "gloo" else mpi_nursery
    extra["nursery.py"] = Path(str(of_ranks.__file__)).read_bytes()
    extra["stand_in.py"] = Path(mpi_stand_in.__file__).read_bytes()
    brought: _Brought = {"files": files, "extra": extra, "pipes": sum(worlds)}
    limits = allowance.limits
    with (
        Sandbox(modules_folder, trust_submissions=trust_submissions, limits=limits, **brought)
        if nursery is None
        else WarmSandbox(nursery, modules_folder, limits=limits, **brought)
    ) as sandbox:
        if sandbox.tier == Tier.LANDLOCK:
            reason = "an MPI job needs bubblewrap: its ranks start processes and open sockets"
            return MpiOutcome("unavailable", [], reason, 0.0)
        started = time.monotonic()
        variables = {"RINGSIDE_JOB_OWN_HASHES": "1"} if own_hashes else {}
        # Before any rank: one that opens its pipe for writing waits for a reader.
        pipes = [sandbox.open_pipe(number) for number in range(sum(worlds))]
        try:
            process = sandbox.popen(
                command_inside(worlds, sandbox, launcher),
                env=environment_inside(sandbox) | variables,
            )
            allowance.watch(sandbox.reading, sandbox.lower_priority)
            results, status = _collect(process, pipes, allowance)
        finally:
            sandbox.kill()
            for pipe in pipes:
                os.close(pipe)
        in_order = iter(results)
        return MpiOutcome(
            status=status,
            results=[[next(in_order) for _ in range(world_size)] for world_size in worlds],
            output=process.output(),
            seconds=time.monotonic() - started,
            survivors=tuple(sandbox.survivors()),
        )


def command_inside(worlds: Sequence[int], sandbox: Sandbox, launcher: str) -> list[str]:
    """The command, as it is inside, that starts worlds of so many ranks, one after another."""
    nursery = [sandbox.python, "-I", str(sandbox.job_path / "nursery.py"), "nursery"]
    if launcher in ("gloo", "nccl"):
        return [*nursery, *map(str, worlds)]
    path = str(Path(sandbox.python).parent / "mpiexec")
    mpiexec = path if os.path.exists(path) else shutil.which("mpiexec") or path
    return [*nursery, mpiexec, *map(str, worlds)]


def environment_inside(sandbox: Sandbox) -> dict[str, str]:
    """Where the nurseries and drivers find what they need."""
    return {
        "RINGSIDE_JOB_INPUTS": str(sandbox.job_path / "inputs"),
        "RINGSIDE_JOB_RESULTS": str(sandbox.job_path),
        "RINGSIDE_JOB_MODULES": str(sandbox.modules_path),
        "RINGSIDE_JOB_KIT": str(sandbox.kit_path),
    }


def _collect(
    process: Process, pipes: Sequence[int], allowance: Allowance
) -> tuple[list[bytes], str]:
    """Read all pipes until the job has ended, has used up what it may or has said too much."""
    results = [bytearray() for _ in pipes]
    look = time.monotonic() + allowance.every_s
    with selectors.DefaultSelector() as selector:
        for rank, pipe in enumerate(pipes):
            selector.register(pipe, selectors.EVENT_READ, rank)
        while True:
            ended = process.poll() is not None  # asked first, so that the last read sees all
            # A pipe without a writer, before the first or after the last, is always readable.
            came = _read_ready(selector, results, 0 if ended else _TICK_S)
            if not came and ended:
                break
            if not came:
                time.sleep(_TICK_S)
            if sum(map(len, results)) > allowance.limits.result_bytes:
                return _ended(results, "limit")
            if time.monotonic() > look:
                asleep = not allowance.awake() and not came
                if allowance.over(asleep):
                    return _ended(results, "timeout")
                look = time.monotonic() + allowance.every_s
    if process.killed_for is not None:
        return _ended(results, "limit")
    return _ended(results, "ok" if process.returncode == 0 else "failed")


def _read_ready(selector: selectors.BaseSelector, results: list[bytearray], wait_s: float) -> bool:
    """Whether any bytes came."""
    came = False
    for key, _ in selector.select(wait_s):
        try:
            piece = os.read(key.fd, 1 << 16)
        except BlockingIOError:
            continue
        results[key.data] += piece
        came = came or bool(piece)
    return came


def _ended(results: list[bytearray], status: str) -> tuple[list[bytes], str]:
    return [bytes(result) for result in results], status
