"""Run a module on real ranks, here or on a cluster: `ringside launch`.

A launch leaves in the folder that it was asked to (``--out``, else the current one)

    run.json        what ran, where, how long, and of which module (`ringside.jobs.real.mpi_main`)
    run.trace.gz    the calls of one run, which `ringside replay` and the lecture can draw
    run.sbatch      the job's script, which can be run again with `sbatch` (here: `bash`)
    run.log         on a cluster: what the job printed
    sweep.csv, .svg of a sweep: time over ranks (`ringside.jobs.launch.sweep`); run.json is of
                    the most ranks
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from ringside import kit, output_folder
from ringside.checking import inputs
from ringside.errors import TargetError
from ringside.files import keep, write_atomically
from ringside.jobs.launch import jobscript, outcome, slurm
from ringside.jobs.launch.jobscript import Job, LaunchError, mpiexec
from ringside.jobs.launch.lengths import USUAL
from ringside.jobs.launch.outcome import Awaited, Outcome
from ringside.jobs.launch.sites import Site, Value
from ringside.progress import waiting
from ringside.session.target import Target
from ringside.torch_there import need_torch
from ringside.units import format_count

__all__ = [
    "Launch",
    "LaunchError",
    "Outcome",
    "here_environment",
    "mpiexec",
    "options_of",
    "run",
]

_PATIENCE_S = 5.0  # with ranks that are to end


@dataclass(frozen=True)
class Launch:
    """One run as it was asked for."""

    target: Target
    site: Site
    settings: Mapping[str, Value]
    nodes: int = 1
    lengths: Sequence[int] = USUAL
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
        return outcome.scratch(self.out)

    @property
    def sweep_folder(self) -> Path:
        return self.out.resolve() / "sweep"

    def check(self) -> None:
        """Refuse now what could run nowhere.

        Raises:
            TargetError: no such function, or one that takes no ranks.
            LaunchError: the site can't run such a job.
        """
        self.job.check()
        if self.target.function:
            inputs.parameters(self.path, self.target.function)

    def check_here(self) -> None:
        """Refuse now what would fail only on the cluster, or on this machine's ranks.

        Raises:
            TargetError: torch is missing, or inputs for the function can't be made.
            LaunchError: the nodes can't see a folder, or the container.
        """
        self.job.check_here()
        if self.job.kind != "mpi4py" and self.site.scheduler == "none":  # nodes have their own
            need_torch(self.target.file)
        if self.target.function:
            options = inputs.parse_options([*self.words, "--n", "1"])
            inputs.arguments_of_rank(self.path, self.target.function, self.world_size, 0, options)
        for folder in (self.target.folder, self.out.resolve()):
            if kit.PACKAGE in folder.parents:
                continue  # `ringside fit`: a node that didn't see the kit could run nothing at all
            if self.site.scheduler != "none" and folder.is_relative_to("/tmp"):
                raise LaunchError(
                    f"{folder} lies under /tmp, and every node has a /tmp of its own: "
                    "work in your home or on the cluster's scratch file system."
                )

    def arguments(self) -> list[str]:
        """What each rank is given beside its number and its folders: see `real.mpi_main`."""
        argv = [f"{self.path}:{self.target.function}" if self.target.function else str(self.path)]
        deadline_s = self.job.deadline_s(script=self.target.function is None)
        argv += ["--site", self.site.name, "--deadline-s", str(deadline_s)]
        if self.target.function:
            argv += ["--dtype", self.dtype]
            argv += [word for n in self.lengths for word in ("--n", str(n))]
        return [*argv, *(["--", *self.words] if self.words else [])]

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
            "inside": job.inside(self.target.folder, self.out),
        }
        return self.site.render("sweep.sbatch.j2" if self.sweep else job.template(), values)


def here_environment() -> dict[str, str]:
    """The environment for ranks on this machine, whose cores they share."""
    quiet = {
        "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1",  # waiting ranks leave the core to the others
        "UCX_LOG_LEVEL": "fatal",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(kit.ROOT), *_python_path()]),
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
    launch.check_here()
    launch.out.mkdir(parents=True, exist_ok=True)
    # Before the scratch folder is removed, in which the other job's number stands.
    _refuse_beside_another_job(launch.out)
    if launch.sweep:
        output_folder.begin(launch.sweep_folder, "ringside launch --sweep")
    jobscript.make_room(launch.out / "run.sbatch", launch.out / "run.log", say)
    _keep_another_record(launch, say)
    shutil.rmtree(launch.scratch, ignore_errors=True)
    launch.scratch.mkdir()
    sizes = tuple(jobscript.sizes(launch.job)) if launch.sweep else ()
    # Before anything runs: a record counts as this run's where its stamp differs from this one.
    awaited = Awaited(launch.out, outcome.stamp(launch.out), sizes)
    if launch.site.scheduler == "none":
        try:
            meaning = _run_here(launch, say, printed)
        except BaseException as error:
            shutil.rmtree(launch.scratch, ignore_errors=True)
            if isinstance(error, KeyboardInterrupt):
                say("stopped: the ranks are ended, and no run.json is written.")
            raise
        return _finish(awaited, awaited.here(meaning), say)
    awaited = replace(awaited, job_id=_submit(launch))
    awaited.save()
    say(f"job {awaited.job_id}: submitted to {launch.site.name}")
    if not wait:
        return Outcome("submitted", _how_to_come_back(awaited), None, awaited.job_id)
    return _follow(awaited, say)


def follow(job_id: str, out: Path, say: Callable[[str], None]) -> Outcome:
    """Wait for the end of a job that was launched with ``out`` as its folder.

    Raises:
        RingsideError: no such job was launched from there, or Slurm can't be asked.
    """
    awaited = Awaited.load(out)
    if awaited is None or awaited.job_id != job_id:
        other = f"; job {awaited.job_id} was" if awaited else ""
        raise LaunchError(
            f"job {job_id} was not launched from {out.resolve()}, or has been followed to its "
            f"end{other}. `--out FOLDER` names the folder that it was launched with."
        )
    return _follow(awaited, say)


def _follow(awaited: Awaited, say: Callable[[str], None]) -> Outcome:
    assert awaited.job_id
    try:
        ended = slurm.follow(awaited.job_id, awaited.out / "run.log", say)
    except KeyboardInterrupt:
        say(f"job {awaited.job_id} goes on. {_how_to_come_back(awaited)}")
        raise
    return _finish(awaited, awaited.of_job(ended), say)


def _how_to_come_back(awaited: Awaited) -> str:
    needs_out = awaited.out.resolve() != Path.cwd()
    folder = f" --out {shlex.quote(str(awaited.out))}" if needs_out else ""
    return (
        f"`ringside launch --follow {awaited.job_id}{folder}` follows it, "
        f"`squeue -j {awaited.job_id}` shows it, `scancel {awaited.job_id}` ends it."
    )


def _finish(awaited: Awaited, result: Outcome, say: Callable[[str], None]) -> Outcome:
    if result.record is None and awaited.before is not None:
        say(f"{awaited.out / 'run.json'} is still that of an earlier run.")
    shutil.rmtree(outcome.scratch(awaited.out), ignore_errors=True)
    return result


def _keep_another_record(launch: Launch, say: Callable[[str], None]) -> None:
    """Copy the record of another module's or another site's run, which may be handed in."""
    path = launch.out / "run.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        run = (record["module"], record["site"])
    except (OSError, ValueError, KeyError, TypeError):
        run = None  # none of ours
    if not path.is_file() or run == (launch.path.stem, launch.site.name):
        return
    backups = [
        keep(launch.out / name, "launch")
        for name in ("run.json", "run.trace.gz")
        if (launch.out / name).is_file()
    ]
    of = f"of {run[0]}.py at {run[1]}" if run else "not written by ringside"
    say(f"{path} is {of}: it is kept as {' and '.join(backups)}.")


def _refuse_beside_another_job(out: Path) -> None:
    """Two jobs can't leave their records in one folder."""
    other = Awaited.load(out)
    if other is not None and other.job_id and slurm.goes_on(other.job_id):
        raise LaunchError(
            f"job {other.job_id} was launched with the same folder and hasn't ended. "
            f"{_how_to_come_back(other)} `--out FOLDER` gives the new one a folder of its own."
        )


def _write_script(launch: Launch) -> Path:
    script = launch.out.resolve() / "run.sbatch"
    write_atomically(script, launch.script().encode())
    return script


def _submit(launch: Launch) -> str:
    """Write the job's script and submit it; a refused job leaves nothing."""
    script = _write_script(launch)
    # Slurm appends to it, and whoever follows the job reads it from the beginning.
    (launch.out / "run.log").unlink(missing_ok=True)
    try:
        return slurm.submit(script)
    except slurm.SlurmError:
        script.unlink()
        shutil.rmtree(launch.scratch, ignore_errors=True)
        raise


def _run_here(launch: Launch, say: Callable[[str], None], printed: TextIO | None) -> str:
    deadline_s = float(str(launch.settings["deadline_s"]))
    ranks = format_count(launch.world_size, "rank")
    if launch.sweep:
        sizes = ", ".join(map(str, jobscript.sizes(launch.job)))
        ranks = f"{sizes} rank{'' if sizes == '1' else 's'} one after the other"
    suffix = " each" if launch.sweep else ""
    say(f"{ranks} on this machine, for at most {deadline_s:g} s{suffix} (--set deadline_s=...) ...")
    num_runs = len(jobscript.sizes(launch.job)) if launch.sweep else 1
    # The ranks end by themselves at the deadline, and say where.
    limit_s = num_runs * (deadline_s + 20)
    with waiting(f"{launch.target.file} on {ranks}") as progress:
        # On a terminal what they print goes through here, for it shares that with the line.
        through = subprocess.PIPE if progress.shown else None
        process = subprocess.Popen(
            ["bash", str(_write_script(launch))],
            stdin=subprocess.DEVNULL,
            stdout=through or printed,
            stderr=through,
            start_new_session=True,
        )
        copying = []
        if through is not None:
            assert process.stdout is not None and process.stderr is not None
            to = (printed or sys.stdout).fileno()
            copying.append(progress.pass_on(process.stdout, to))
            copying.append(progress.pass_on(process.stderr, sys.stderr.fileno()))
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return "the ranks did not end, and could not say where they were."
        finally:
            _end(process)
            for thread in copying:
                thread.join(1.0)  # a process that was left behind may hold the pipe
        return ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a script and its launcher, which gets the time to end its ranks; then what is left.

    The script may be gone before its launcher, whose ranks may be deaf to SIGTERM: it is their
    group that must be empty. A second Ctrl-C meanwhile ends the patience, and leaves nothing.
    """
    if process.poll() is not None:
        return
    # Where nobody collects the dead (a container without an init), the group is never empty.
    for number, patience_s in ((signal.SIGTERM, _PATIENCE_S), (signal.SIGKILL, 0.5)):
        deadline_s = time.monotonic() + patience_s
        with contextlib.suppress(ProcessLookupError, KeyboardInterrupt):
            os.killpg(process.pid, number)
            while time.monotonic() < deadline_s:
                process.poll()
                os.killpg(process.pid, 0)  # raises once nobody is left
                time.sleep(0.02)


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
