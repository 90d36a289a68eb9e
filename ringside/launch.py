"""Run a module on real ranks, here or on a cluster: `ringside launch`.

A launch leaves in the folder that it was asked to (``--out``, else the current one)

    run.json        what ran, where, how long, and of which module (see `ringside.real_rank`)
    run.trace.gz    the calls of one run, which `ringside replay` and the lecture can draw
    run.sbatch      the job's script, which can be run again with `sbatch` (here: `bash`)
    run.log         on a cluster: what the job printed
    sweep.csv, .svg of a sweep: time over ranks (`ringside.sweep`); run.json is of the most ranks
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from ringside import inputs, jobscript, slurm, sweep
from ringside.draw.units import format_bytes, format_time
from ringside.errors import TargetError
from ringside.jobscript import Job, LaunchError, mpiexec
from ringside.sites import Site, Value
from ringside.trace import write_atomically
from ringside.world import Target

__all__ = [
    "LENGTHS",
    "Launch",
    "LaunchError",
    "Outcome",
    "here_environment",
    "mpiexec",
    "options_of",
    "run",
]

LENGTHS = (1_000, 100_000, 1_000_000)  # from the latency's share of the time to the bandwidth's


@dataclass(frozen=True)
class Outcome:
    """How a launch ended: its record, or what went wrong and whose fault it is."""

    status: str  # "complete" | "submitted" | "wrong values" | "failed" | "not run"
    message: str
    record: Mapping[str, Any] | None = None
    job_id: str | None = None

    @property
    def exit_status(self) -> int:
        statuses = {"complete": 0, "submitted": 0, "wrong values": 1, "failed": 1}
        return statuses.get(self.status, 2)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "status": self.status,
            "message": self.message,
            "job_id": self.job_id,
            "run": self.record,
        }

    def text(self) -> str:
        """For people: the measurements, or what went wrong."""
        if self.record is None:
            return f"{self.status}: {self.message}"
        record = self.record
        hosts = ", ".join(dict.fromkeys(record["hosts"]))
        lines = [f"{record['target']} on {record['world_size']} ranks of {hosts}"]
        for entry in record["measurements"]:
            lines.append(
                f"  n = {entry['n']:>9,}  {format_bytes(entry['nbytes']):>9}  "
                f"{format_time(entry['median_s']):>9}  values {entry['values']}"
            )
        return "\n".join([*lines, f"{self.status}: {self.message}"])


@dataclass(frozen=True)
class Launch:
    """One run as it was asked for."""

    target: Target
    site: Site
    settings: Mapping[str, Value]
    nodes: int = 1
    lengths: Sequence[int] = LENGTHS
    dtype: str = "float64"
    words: Sequence[str] = ()
    out: Path = Path()
    gpus_per_node: int = 0
    sweep: bool = False  # 1, 2, 4, ... ranks one after the other

    @property
    def job(self) -> Job:
        """The ranks, and the kind of job that the file or the function needs."""
        kind = jobscript.kind_of(self.target, self.gpus_per_node)
        return Job(self.site, self.settings, kind, self.nodes, self.gpus_per_node)

    @property
    def world_size(self) -> int:
        return self.job.world_size

    @property
    def path(self) -> Path:
        return self.target.folder / self.target.file

    @property
    def scratch(self) -> Path:
        return self.out.resolve() / ".ringside-run"

    @property
    def sweep_folder(self) -> Path:
        return self.out.resolve() / "sweep"

    def check(self) -> None:
        """Refuse now what would fail only on the cluster.

        Raises:
            TargetError: no such function, or one that can't be run on ranks.
            LaunchError: the site can't run such a job, or the nodes can't see a folder.
        """
        self.job.check()
        if self.target.function:
            options = inputs.parse_options([*self.words, "--n", "1"])
            inputs.arguments_of_rank(self.path, self.target.function, self.world_size, 0, options)
        for folder in (self.target.folder, self.out.resolve()):
            if self.site.scheduler != "none" and folder.is_relative_to("/tmp"):
                raise LaunchError(
                    f"{folder} lies under /tmp, and every node has a /tmp of its own: "
                    "work in your home or on the cluster's scratch file system."
                )

    def arguments(self) -> list[str]:
        """What each rank is given beside its number and its folders; see `ringside.real_rank`."""
        words = [f"{self.path}:{self.target.function}" if self.target.function else str(self.path)]
        deadline_s = self.job.deadline_s(script=self.target.function is None)
        words += ["--site", self.site.name, "--deadline-s", str(deadline_s)]
        if self.target.function:
            words += ["--dtype", self.dtype]
            words += [word for n in self.lengths for word in ("--n", str(n))]
        return [*words, *(["--", *self.words] if self.words else [])]

    def script(self) -> str:
        """The job's script: for the site's scheduler, or for bash where there is none."""
        job = self.job
        script = self.target.function is None
        values = (
            jobscript.sweep_values(job) if self.sweep else jobscript.run_values(job, script=script)
        )
        values |= {
            "job_name": f"ringside-{self.path.stem}",
            "folder": str(self.target.folder),
            "out": str(self.out.resolve()),
            "sweep": str(self.sweep_folder),
            "record": str(self.scratch),
            "log": str(self.out.resolve() / "run.log"),
            "arguments": shlex.join(self.arguments()),
        }
        return self.site.render("sweep.sbatch.j2" if self.sweep else job.template(), values)


def here_environment() -> dict[str, str]:
    """The environment for ranks on this machine, whose cores they share."""
    quiet = {
        "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1",  # waiting ranks leave the core to the others
        "UCX_LOG_LEVEL": "fatal",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *_python_path()]),
    }
    return {**os.environ, **quiet}


def _python_path() -> list[str]:
    return [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]


def run(
    launch: Launch,
    say: Callable[[str], None],
    *,
    wait: bool = True,
    printed: TextIO | None = None,
) -> Outcome:
    """Run a launch and wait for its end.

    Args:
        launch: what to run, and where.
        say: gets each line that a waiting person wants to see.
        wait: False: submit only.
        printed: gets what ranks on this machine print; None: standard output.

    Raises:
        RingsideError: it could not be started.
    """
    launch.check()
    launch.out.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(launch.scratch, ignore_errors=True)
    if launch.sweep:
        shutil.rmtree(launch.sweep_folder, ignore_errors=True)
    launch.scratch.mkdir()
    before = _stamp(launch.out)
    if launch.site.scheduler == "none":
        try:
            job_id, meaning = None, _run_here(launch, say, printed)
        except BaseException:
            shutil.rmtree(launch.scratch, ignore_errors=True)
            raise
    else:
        job_id = _submit(launch)
        say(f"job {job_id}: submitted to {launch.site.name}")
        if not wait:
            return Outcome("submitted", f"`squeue -j {job_id}` shows the job.", None, job_id)
        try:
            meaning = slurm.follow(job_id, launch.out / "run.log", say).meaning
        except KeyboardInterrupt:
            say(f"job {job_id} goes on: `squeue -j {job_id}` shows it, `scancel {job_id}` ends it.")
            raise
    outcome = _outcome(launch, before, job_id, meaning)
    if outcome.record is None and before is not None:
        say(f"{launch.out / 'run.json'} is still that of an earlier run.")
    shutil.rmtree(launch.scratch, ignore_errors=True)
    return outcome


def _write_script(launch: Launch) -> Path:
    script = launch.out.resolve() / "run.sbatch"
    write_atomically(script, launch.script().encode())
    return script


def _submit(launch: Launch) -> str:
    """Write the job's script and submit it; a refused job leaves nothing."""
    script = _write_script(launch)
    (launch.out / "run.log").unlink(missing_ok=True)
    try:
        return slurm.submit(script)
    except slurm.SlurmError:
        script.unlink()
        shutil.rmtree(launch.scratch, ignore_errors=True)
        raise


def _run_here(launch: Launch, say: Callable[[str], None], printed: TextIO | None) -> str:
    deadline_s = float(str(launch.settings["deadline_s"]))
    up_to = "up to " if launch.sweep else ""
    say(
        f"{up_to}{launch.world_size} ranks on this machine, for at most {deadline_s:g} s "
        "(--set deadline_s=...) ..."
    )
    num_runs = len(jobscript.sizes(launch.job)) if launch.sweep else 1
    process = subprocess.Popen(
        ["bash", str(_write_script(launch))],
        stdin=subprocess.DEVNULL,
        stdout=printed,
        start_new_session=True,
    )
    try:
        process.wait(
            num_runs * (deadline_s + 20)
        )  # the ranks end by themselves at the deadline, and say where
    except subprocess.TimeoutExpired:
        return "the ranks did not end, and could not say where they were."
    finally:
        _end(process)
    return ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a script and its launcher, which gets the time to end its ranks."""
    for number, grace_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, None)):
        if process.poll() is None:
            os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace_s)


def _stamp(folder: Path) -> tuple[int, int] | None:
    try:
        status = (folder / "run.json").stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def _outcome(
    launch: Launch, before: tuple[int, int] | None, job_id: str | None, meaning: str
) -> Outcome:
    failures = _failures(launch)
    if failures:
        first = failures[0]
        ours = first["kind"] in ("size", "asked")
        return Outcome("not run" if ours else "failed", first["message"], None, job_id)
    if _stamp(launch.out) in (None, before):
        detail = meaning or "the ranks ended without a word; the lines above may say why."
        return Outcome("failed" if "wall time" in meaning else "not run", detail, None, job_id)
    record = json.loads((launch.out / "run.json").read_text())
    wrong = _wrong_lengths(launch, record)
    if wrong:
        message = (
            f"the values are wrong at n = {', '.join(map(str, wrong))}; `ringside check` says more."
        )
        return Outcome("wrong values", message, record, job_id)
    missing = _sizes_without_a_record(launch)
    if missing:
        message = (
            f"no record of {', '.join(map(str, missing))} ranks; the lines above may say why. "
            f"{launch.out / 'sweep.csv'} has the others."
        )
        return Outcome("failed", message, record, job_id)
    written = f"{launch.out / 'run.json'} and run.trace.gz are written; hand them in."
    if launch.sweep:
        written = f"{launch.out / 'sweep.csv'} has all times; run.json is of the most ranks."
    return Outcome("complete", written, record, job_id)


def _failures(launch: Launch) -> list[dict[str, Any]]:
    """What ranks left who failed, the lowest rank first; of a sweep, that of the fewest ranks."""
    folders = [launch.scratch]
    if launch.sweep:
        each = [launch.sweep_folder / str(size) for size in jobscript.sizes(launch.job)]
        folders = [folder / launch.scratch.name for folder in each]
    for folder in folders:
        found = [json.loads(path.read_text()) for path in sorted(folder.glob("failure-*.json"))]
        found.sort(key=lambda failure: int(failure["rank"]))
        if found and launch.sweep:
            found[0]["message"] = f"on {folder.parent.name} ranks: {found[0]['message']}"
        if found:
            return found
    return []


def _sizes_without_a_record(launch: Launch) -> list[int]:
    if not launch.sweep:
        return []
    found = sweep.runs(launch.sweep_folder)
    return [size for size in jobscript.sizes(launch.job) if size not in found]


def _wrong_lengths(launch: Launch, record: Mapping[str, Any]) -> list[int]:
    records = list(sweep.runs(launch.sweep_folder).values()) if launch.sweep else [record]
    return sorted(
        {
            entry["n"]
            for each in records
            for entry in each["measurements"]
            if entry["values"] == "wrong"
        }
    )


def options_of(words: Sequence[str]) -> tuple[list[int], str, list[str]]:
    """Split what follows ``--`` into lengths (``--n``, several times if asked), dtype and the rest.

    Raises:
        TargetError: a length that is no whole number, or a dtype that is not offered.
    """
    lengths: list[int] = []
    dtype, rest, remaining = "float64", [], list(words)
    while remaining:
        word = remaining.pop(0)
        name, sign, text = word.partition("=")
        if name not in ("--n", "--dtype"):
            rest.append(word)
            continue
        value = text if sign else remaining.pop(0) if remaining else ""
        if name == "--dtype" and value not in inputs.DTYPES:
            raise TargetError(
                f"after `--`: --dtype ({value}) must be one of {', '.join(inputs.DTYPES)}."
            )
        if name == "--dtype":
            dtype = value
        elif value.isdigit():
            lengths.append(int(value))
        else:
            raise TargetError(f"after `--`: --n ({value}) must be a whole number of at least 0.")
    return lengths, dtype, rest
