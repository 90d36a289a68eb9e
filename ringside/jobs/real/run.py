"""What every rank of a real run does, whatever carries its messages: measure, compare, record.

``ringside.jobs.real.mpi_main`` is a rank of MPI, ``ringside.jobs.real.torch_main`` one of
torch.distributed. A function of the student's is called with the machine's own ranks on inputs of
each length, its values are compared, its time is measured, and one more call at the greatest length
is recorded; a script is run and recorded as it is. Then rank 0 writes ``run.json``, a trace and a
picture:

    format, version     "ringside-run", 1
    kind                "mpi4py", "gloo" or "nccl"
    target, module, function, module_sha256
    site, job_id, launcher, world_size, nodes, kit_version, started_utc, wall_s
    hosts, devices      of each rank: "cpu", "cuda:0 NVIDIA A100-SXM4-40GB"
    mpi, or torch and nccl: the libraries' versions
    measurements        for each length: n, dtype, nbytes, times_s (slowest rank, each repetition),
                        median_s, checksum (of all ranks' results) and values: "right", "wrong"
                        or "not compared"
    script              what a script leaves in its global ``__record__`` (JSON); else null
    makespan_s          of the recorded call or script
    calls_s             the same by kind of call: the mean of the ranks
    trace, trace_sha256 the file beside it
    asked_to_stop       some rank was told to leave a checkpoint (``ringside.checkpoint``)
    trace_is_cut        some rank stopped writing before the end: a script made too many calls
    timeline            the picture's file
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import hashlib
import io
import json
import os
import runpy
import socket
import statistics
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ringside import checkpoint, command_line, kit
from ringside.checking import inputs
from ringside.checking.notebook import module_sha256
from ringside.errors import Frame, RankError, RingsideError
from ringside.files import write_atomically
from ringside.jobs.real.measured import MeasuredTimeline, RecordedCall, assemble, seconds_by_call
from ringside.jobs.real.watch import UNFINISHED, report_failure
from ringside.session.recorder import Recorder, is_student_file, recording_here
from ringside.session.target import Target
from ringside.targets import find

FORMAT = "ringside-run"
VERSION = 1
MOST_CALLS = 10_000  # of a rank of a script; some 3 MB


class RealRanks(ABC):
    """The ranks of a real run, as one of them sees them."""

    kind: str
    rank: int
    world_size: int
    device = "cpu"
    left: Any = None  # by a script, for the record

    @property
    @abstractmethod
    def first(self) -> Any:
        """A function's first argument: the communicator or the process group."""

    @abstractmethod
    def allgather(self, value: Any) -> list[Any]:
        """Every rank's value, of what JSON can hold."""

    @abstractmethod
    def gather(self, value: Any) -> list[Any]:
        """The same on rank 0; an empty list on the others."""

    @abstractmethod
    def together(self) -> None:
        """Return when all ranks have called this."""

    @abstractmethod
    def given(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Arguments for one call."""

    @abstractmethod
    def value(self, result: Any, given: tuple[Any, ...]) -> Any:
        """What a call returned, to be compared: arrays."""

    @abstractmethod
    def time_s(self, call: Callable[[], Any]) -> float:
        """How long a call takes that all ranks begin together, on this rank."""

    @abstractmethod
    def record_call(self, call: Callable[[], Any]) -> None:
        """Make a call that the recorder writes down; all ranks begin together."""

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """The libraries' versions, for the record."""

    @abstractmethod
    def abort(self, status: int) -> None:
        """End all ranks."""

    def is_echo(self, error: BaseException) -> bool:
        """Whether an error only tells that another rank has failed."""
        return False


def parser(program: str) -> argparse.ArgumentParser:
    """The arguments of every kind of rank."""
    arg_parser = argparse.ArgumentParser(prog=program)
    arg_parser.add_argument("target")
    arg_parser.add_argument("--world-size", type=int, required=True)
    arg_parser.add_argument("--out", type=Path, default=Path())
    arg_parser.add_argument("--scratch", type=Path, default=Path(".ringside-run"))
    arg_parser.add_argument("--site", default="local")
    arg_parser.add_argument("--deadline-s", type=float, default=120.0)
    # torchrun reads --n, wherever it stands, as short for one of its own options.
    arg_parser.add_argument("--length", "--n", dest="n", type=int, action="append", default=[])
    arg_parser.add_argument("--dtype", choices=inputs.DTYPES, default="float64")
    arg_parser.add_argument("--seed", type=int, default=0)
    arg_parser.add_argument("--repetitions", type=int, default=5)
    return arg_parser


def parse(made: argparse.ArgumentParser, words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the arguments; those after ``--`` are the program's own."""
    own, program_words = command_line.split(words)
    arguments = made.parse_args(own)
    arguments.words = program_words
    return arguments


def begin() -> None:
    """What every rank does first."""
    checkpoint.listen()
    _write_whole_lines()


def _write_whole_lines() -> None:
    """With PYTHONUNBUFFERED set, print writes each word by itself, and lines of ranks mix."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)


def refuse(asked: argparse.Namespace, rank: int, kind: str, message: str) -> int:
    """Say why this rank can't take part; returns the exit status."""
    asked.scratch.mkdir(parents=True, exist_ok=True)
    report_failure(asked.scratch, kind, rank, message)
    print(f"ringside: {message}", file=sys.stderr, flush=True)
    return 2


@contextlib.contextmanager
def reported(asked: argparse.Namespace, ranks: RealRanks) -> Iterator[None]:
    """Turn an exception on one rank into a report, and the end of all ranks."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, SystemExit) and not error.code:
            return  # a script's own sys.exit(0)
        kind = "asked" if isinstance(error, RingsideError) else "exception"
        message = str(error) if kind == "asked" else str(_rank_error(ranks.rank, error))
        status = 2 if kind == "asked" else 1
        echo = ranks.is_echo(error)
        if not (echo and _another_has_failed(asked.scratch, ranks.rank)):
            report_failure(asked.scratch, kind, ranks.rank, message, echo=echo)
            print(f"ringside: {message}", file=sys.stderr, flush=True)
        ranks.abort(status)
        os._exit(status)  # abort may come back before the launcher's signal


def _another_has_failed(scratch: Path, rank: int) -> bool:
    """Whether another rank reports a failure: one that has only lost its peer waits for that."""
    until = time.monotonic() + 5.0
    while time.monotonic() < until:
        if any(path.name != f"failure-{rank}.json" for path in scratch.glob("failure-*.json")):
            return True
        time.sleep(0.1)
    return False


def _rank_error(rank: int, error: BaseException) -> RankError:
    frames = [
        Frame(Path(entry.filename).name, entry.lineno or 0, entry.name, entry.line or "")
        for entry in traceback.extract_tb(error.__traceback__)
        if is_student_file(entry.filename)
    ]
    if isinstance(error, SyntaxError) and error.filename:
        name, text = Path(error.filename).name, (error.text or "").strip()
        frames.append(Frame(name, error.lineno or 0, "<module>", text))
    return RankError(rank, type(error).__name__, str(error), tuple(frames))


# -- a function ----------------------------------------------------------------------------------


def measure(target: Target, asked: argparse.Namespace, ranks: RealRanks) -> list[dict[str, Any]]:
    """Call the function at each length; the last call, at the greatest, is recorded."""
    assert target.function
    path = target.folder / target.file
    sys.path.insert(0, str(target.folder))
    function = find(f"{target.file}:{target.function}")
    others = inputs.parse_options(asked.words).others
    measurements = []

    def call_with(given: tuple[Any, ...]) -> Callable[[], Any]:
        return lambda: function(ranks.first, *given)

    for n in sorted(set(asked.n)) or [16]:
        options = inputs.Options(n, asked.dtype, asked.seed, others)
        arguments = inputs.arguments_of_rank(
            path, target.function, ranks.world_size, ranks.rank, options
        )
        given = ranks.given(arguments)
        value = ranks.value(call_with(given)(), given)
        is_right = inputs.is_right(
            value, target.function, ranks.world_size, ranks.rank, options, path
        )
        verdicts = ranks.allgather(_VERDICTS[is_right])
        checksum = _checksum(ranks.allgather(_digest(value)))
        runs_s = [ranks.time_s(call_with(ranks.given(arguments))) for _ in range(asked.repetitions)]
        times_s = [max(of_ranks) for of_ranks in zip(*ranks.allgather(runs_s), strict=True)]
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
    ranks.record_call(call_with(ranks.given(arguments)))
    return measurements


_VERDICTS = {True: "right", False: "wrong", None: "not compared"}


def _digest(value: Any) -> str:
    if isinstance(value, tuple | list):
        return _checksum([_digest(item) for item in value])
    data = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
    return hashlib.sha256(data).hexdigest()


def _checksum(digests: Sequence[str]) -> str:
    return hashlib.sha256("".join(digests).encode()).hexdigest()


# -- a script ------------------------------------------------------------------------------------


def run_script(
    target: Target, asked: argparse.Namespace, ranks: RealRanks, recorder: Recorder
) -> None:
    """Run the file as ``python FILE WORDS`` would."""
    path = str(target.folder / target.file)
    sys.argv = [path, *asked.words]
    sys.path.insert(0, str(target.folder))
    recorder.restart()
    recorder.enabled = True
    try:
        with recording_here(recorder, ranks.together):
            ranks.left = runpy.run_path(path, run_name="__main__").get("__record__")
    finally:
        recorder.end()


# -- the record ----------------------------------------------------------------------------------


def leave_record(
    asked: argparse.Namespace,
    target: Target,
    ranks: RealRanks,
    recorder: Recorder,
    measurements: list[dict[str, Any]],
    started: float,
) -> None:
    """Bring together what all ranks wrote down, and let rank 0 write the files."""
    facts = [socket.gethostname(), ranks.device, recorder.full]
    facts += [checkpoint.was_told(), checkpoint.leaves_work()]
    everybody = ranks.gather([*facts, recorder.written()])
    if ranks.rank != 0:
        return
    hosts, devices, full, stops, leaves, calls = (
        list(part) for part in zip(*everybody, strict=True)
    )
    if any(leaves):
        (asked.scratch / UNFINISHED).touch()
    trace, timeline = assemble(
        [[RecordedCall(*call) for call in of_rank] for of_rank in calls],
        asked.site,
        cut=any(full),
    )
    if any(full):
        print(
            f"ringside: the trace holds the first {MOST_CALLS:,} calls of each rank; "
            "`with ringside.recorded():` round some steps picks those.",
            file=sys.stderr,
        )
    trace_path = trace.save(asked.out / "run.trace.gz")
    picture = _draw(timeline, asked.out / "run.svg")
    record = {
        "format": FORMAT,
        "version": VERSION,
        "kind": ranks.kind,
        "target": f"{target.file}:{target.function}" if target.function else target.file,
        "module": Path(target.file).stem,
        "function": target.function,
        "module_sha256": module_sha256((target.folder / target.file).read_bytes()),
        "site": asked.site,
        "job_id": os.environ.get("SLURM_JOB_ID"),
        "launcher": launcher(),
        "world_size": ranks.world_size,
        "nodes": len(set(hosts)),
        "hosts": hosts,
        "devices": devices,
        **ranks.about(),
        "kit_version": kit.VERSION,
        "started_utc": datetime.datetime.fromtimestamp(started, datetime.UTC).isoformat(),
        "wall_s": round(time.time() - started, 6),
        "measurements": measurements,
        "script": ranks.left,
        "makespan_s": timeline.makespan_s,
        "calls_s": seconds_by_call(timeline),
        "trace": trace_path.name,
        "trace_sha256": hashlib.sha256(trace_path.read_bytes()).hexdigest(),
        "trace_is_cut": any(full),
        "asked_to_stop": any(stops),
        "timeline": picture.name,
    }
    # The record last: who finds a new one may rely on the trace and the picture that it names.
    write_atomically(asked.out / "run.json", json.dumps(record, indent=1).encode() + b"\n")


def _draw(timeline: MeasuredTimeline, path: Path) -> Path:
    from ringside.draw import live_svg

    write_atomically(path, live_svg(timeline).encode())
    return path


def launcher() -> str:
    """What started this rank, by what it leaves in the environment."""
    for name, variable in (
        ("torchrun", "TORCHELASTIC_RUN_ID"),
        ("mpiexec", "HYDI_CONTROL_FD"),  # MPICH's
        ("mpirun", "OMPI_COMM_WORLD_RANK"),
        # Last: inside a job this variable is there whatever starts the ranks.
        ("srun", "SLURM_PROCID"),
    ):
        if variable in os.environ:
            return name
    return "unknown"
