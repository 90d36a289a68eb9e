"""One rank of a real run: what ``mpiexec`` or ``srun`` starts, once a rank.

    mpiexec -n 4 python -m ringside.real_rank ring.py:all_reduce --world-size 4 --n 1000

calls the function with the machine's own ``MPI.COMM_WORLD`` on inputs of each length,
compares the values, measures, and lets rank 0 write ``run.json`` and a trace:

    format, version     "ringside-run", 1
    target, module, function, module_sha256
    site, job_id, world_size, nodes, hosts (of each rank), mpi, kit_version, started_utc, wall_s
    measurements        for each length: n, dtype, nbytes, times_s (slowest rank, each repetition),
                        median_s, checksum (of all ranks' results) and values: "right", "wrong"
                        or "not compared"
    script              what a script leaves in its global ``__record__`` (JSON); else null
    makespan_s, calls_s of the traced run: its length, and by kind of call the seconds that a
                        rank spent in it, the mean of the ranks
    trace, trace_sha256 the file beside it: one call at the greatest length
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import hashlib
import importlib
import io
import json
import os
import runpy
import socket
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ringside import __version__, inputs
from ringside.errors import Frame, RankError, RingsideError
from ringside.measured import RecordedCall, assemble, seconds_by_call
from ringside.notebook import module_sha256
from ringside.trace import write_atomically
from ringside.watch import Watch, report_failure
from ringside.world import Target

FORMAT = "ringside-run"
VERSION = 1


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ringside.real_rank")
    parser.add_argument("target")
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--scratch", type=Path, default=Path(".ringside-run"))
    parser.add_argument("--site", default="local")
    parser.add_argument("--deadline-s", type=float, default=120.0)
    parser.add_argument("--n", type=int, action="append", default=[])
    parser.add_argument("--dtype", choices=inputs.DTYPES, default="float64")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repetitions", type=int, default=5)
    given = list(sys.argv[1:] if words is None else words)
    cut = given.index("--") if "--" in given else len(given)
    asked = parser.parse_args(given[:cut])
    asked.words = given[cut + 1 :]
    return asked


def main() -> int:
    asked = parse()
    _write_whole_lines()
    from mpi4py import MPI

    from ringside.recording import Recorder, record

    world = MPI.COMM_WORLD
    if world.size != asked.world_size:
        return _wrong_size(asked, world.rank, world.size)
    recorder = Recorder()
    comm = record(world, recorder)
    started = time.time()
    asked.scratch.mkdir(parents=True, exist_ok=True)
    world.Barrier()
    watch = Watch(asked.deadline_s, world.rank, world.size, asked.scratch, recorder)
    target = Target.parse(asked.target)
    measurements: list[dict[str, Any]] = []
    left = None
    with _reported(asked, world):
        if target.function:
            measurements = _measure(target, asked, world, comm, recorder)
        else:
            left = _run_script(target, asked, comm, recorder)
    _leave_record(asked, target, world, recorder, measurements, started, left)
    watch.close()
    return 0


def _write_whole_lines() -> None:
    """With PYTHONUNBUFFERED set, print writes each word by itself, and lines of ranks mix."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)


def _wrong_size(asked: argparse.Namespace, rank: int, size: int) -> int:
    message = (
        f"asked for {asked.world_size} ranks, but this rank is one of {size}: the launcher "
        "doesn't fit the MPI library, so the ranks didn't find each other. `srun --mpi=pmi2` or "
        "`mpiexec` fit the mpich wheel; `srun --mpi=pmix` or `mpirun` fit Open MPI "
        "(--set launcher=...)."
    )
    report_failure(asked.scratch, "size", rank, message)
    print(f"ringside: {message}", file=sys.stderr)
    return 2


@contextlib.contextmanager
def _reported(asked: argparse.Namespace, world: Any) -> Iterator[None]:
    """Turn an exception on one rank into a report, and the end of all ranks."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, SystemExit) and not error.code:
            return  # a script's own sys.exit(0)
        kind = "asked" if isinstance(error, RingsideError) else "exception"
        message = str(error) if kind == "asked" else str(_rank_error(world.rank, error))
        report_failure(asked.scratch, kind, world.rank, message)
        print(f"ringside: {message}", file=sys.stderr, flush=True)
        status = 2 if kind == "asked" else 1
        world.Abort(status)
        os._exit(status)  # Abort may come back before the launcher's signal


def _rank_error(rank: int, error: BaseException) -> RankError:
    from ringside.recording import is_student_file

    frames = [
        Frame(Path(entry.filename).name, entry.lineno or 0, entry.name, entry.line or "")
        for entry in traceback.extract_tb(error.__traceback__)
        if is_student_file(entry.filename)
    ]
    if isinstance(error, SyntaxError) and error.filename:
        name, text = Path(error.filename).name, (error.text or "").strip()
        frames.append(Frame(name, error.lineno or 0, "<module>", text))
    return RankError(rank, type(error).__name__, str(error), tuple(frames))


def _measure(
    target: Target, asked: argparse.Namespace, world: Any, comm: Any, recorder: Any
) -> list[dict[str, Any]]:
    assert target.function
    path = target.folder / target.file
    sys.path.insert(0, str(target.folder))
    function = getattr(importlib.import_module(path.stem), target.function)
    others = inputs.parse_options(asked.words).others
    measurements = []
    for n in sorted(set(asked.n)) or [16]:
        options = inputs.Options(n, asked.dtype, asked.seed, others)
        arguments = inputs.arguments_of_rank(path, target.function, world.size, world.rank, options)
        wanted = inputs.expected(target.function, world.size, world.rank, options, path)
        recorder.enabled = False
        value = function(comm, *arguments)
        verdict = "not compared" if wanted is None else _verdict(value, wanted)
        verdicts = world.allgather(verdict)
        checksum = _checksum(world.allgather(_digest(value)))
        times_s = [
            world.allreduce(_timed(function, world, comm, arguments), op=_maximum())
            for _ in range(asked.repetitions)
        ]
        measurements.append(
            {
                "n": n,
                "dtype": asked.dtype,
                "nbytes": n * np.dtype(asked.dtype).itemsize,
                "times_s": times_s,
                "median_s": statistics.median(times_s) if times_s else None,
                "checksum": checksum,
                "values": "wrong" if "wrong" in verdicts else verdicts[0],
            }
        )
    # One more call at the greatest length, for the trace.
    world.Barrier()
    recorder.restart()
    recorder.enabled = True
    function(comm, *arguments)
    recorder.enabled = False
    return measurements


def _verdict(value: Any, wanted: Any) -> str:
    return "right" if inputs.matches(value, wanted) else "wrong"


def _timed(
    function: Callable[..., Any], world: Any, comm: Any, arguments: tuple[Any, ...]
) -> float:
    world.Barrier()
    start_s = time.perf_counter()
    function(comm, *arguments)
    return time.perf_counter() - start_s


def _maximum() -> Any:
    from mpi4py import MPI

    return MPI.MAX


def _digest(value: Any) -> str:
    data = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
    return hashlib.sha256(data).hexdigest()


def _checksum(digests: Sequence[str]) -> str:
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _run_script(target: Target, asked: argparse.Namespace, comm: Any, recorder: Any) -> Any:
    from mpi4py import MPI

    path = str(target.folder / target.file)
    sys.argv = [path, *asked.words]
    sys.path.insert(0, str(target.folder))
    MPI.COMM_WORLD = comm  # type: ignore[misc]  # what the script's import will find
    recorder.restart()
    left = runpy.run_path(path, run_name="__main__").get("__record__")
    recorder.enabled = False
    return left


def _leave_record(
    asked: argparse.Namespace,
    target: Target,
    world: Any,
    recorder: Any,
    measurements: list[dict[str, Any]],
    started: float,
    left: Any,
) -> None:
    from mpi4py import MPI

    calls = [
        (call.name, call.file, call.line, call.start_s, call.end_s, call.ops)
        for call in recorder.calls
    ]
    everybody = world.gather((socket.gethostname(), calls))
    if world.rank != 0:
        return
    hosts = [host for host, _ in everybody]
    trace, timeline = assemble(
        [[RecordedCall(*call) for call in own] for _, own in everybody], f"site {asked.site}"
    )
    trace_path = trace.save(asked.out / "run.trace.gz")
    record = {
        "format": FORMAT,
        "version": VERSION,
        "target": f"{target.file}:{target.function}" if target.function else target.file,
        "module": Path(target.file).stem,
        "function": target.function,
        "module_sha256": module_sha256((target.folder / target.file).read_bytes()),
        "site": asked.site,
        "job_id": os.environ.get("SLURM_JOB_ID"),
        "world_size": world.size,
        "nodes": len(set(hosts)),
        "hosts": hosts,
        "mpi": MPI.Get_library_version().splitlines()[0].strip().rstrip("\0"),
        "kit_version": __version__,
        "started_utc": datetime.datetime.fromtimestamp(started, datetime.UTC).isoformat(),
        "wall_s": round(time.time() - started, 6),
        "measurements": measurements,
        "script": left,
        "makespan_s": timeline.makespan_s,
        "calls_s": seconds_by_call(timeline),
        "trace": trace_path.name,
        "trace_sha256": hashlib.sha256(trace_path.read_bytes()).hexdigest(),
    }
    write_atomically(asked.out / "run.json", json.dumps(record, indent=1).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
