"""Run a module on real ranks, here or on a cluster: `ringside launch`.

A launch leaves in the folder that it was asked to (``--out``, else the current one)

    run.json        what ran, where, how long, and of which module (see `ringside.real_rank`)
    run.trace.gz    the calls of one run, which `ringside replay` and the lecture can draw
    run.sbatch      on a cluster: the job's script
    run.log         on a cluster: what the job printed
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from ringside import inputs, outcome, slurm
from ringside.errors import RingsideError, TargetError
from ringside.outcome import Outcome
from ringside.sites import Site, Value
from ringside.world import Target

LENGTHS = (1_000, 100_000, 1_000_000)  # from the latency's share of the time to the bandwidth's


class LaunchError(RingsideError):
    """A run that could not be started, or left no record for a reason that is not the student's."""


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

    @property
    def world_size(self) -> int:
        return self.nodes * int(str(self.settings["ranks_per_node"]))

    @property
    def path(self) -> Path:
        return self.target.folder / self.target.file

    @property
    def scratch(self) -> Path:
        return outcome.scratch(self.out)

    def check(self) -> None:
        """Refuse now what would fail only on the cluster.

        Raises:
            TargetError: no such function, or one that can't be run on ranks.
            LaunchError: a folder that the nodes can't see.
        """
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
        """What each rank is given; see `ringside.real_rank`."""
        words = [f"{self.path}:{self.target.function}" if self.target.function else str(self.path)]
        words += ["--world-size", str(self.world_size), "--site", self.site.name]
        words += ["--out", str(self.out.resolve()), "--scratch", str(self.scratch)]
        words += ["--deadline-s", str(self.settings["deadline_s"])]
        if self.target.function:
            words += ["--dtype", self.dtype]
            words += [word for n in self.lengths for word in ("--n", str(n))]
        return [*words, *(["--", *self.words] if self.words else [])]

    def launcher(self) -> list[str]:
        """What starts the ranks, with their number."""
        words = shlex.split(str(self.settings["launcher"]))
        if Path(words[0]).name == "srun":
            return [*words, "--kill-on-bad-exit=1"]  # the number is the job's
        if words[0] == "mpiexec" and not self.settings.get("environment"):
            words[0] = mpiexec()  # this environment's; another one's is on the job's PATH
        return [*words, "-n", str(self.world_size)]

    def script(self) -> str:
        """The job's script for the site's scheduler."""
        own = os.environ.get("VIRTUAL_ENV") or (sys.prefix if sys.prefix != sys.base_prefix else "")
        values: dict[str, Any] = {
            **self.settings,
            "environment": self.settings.get("environment") or own,
            "job_name": f"ringside-{self.path.stem}",
            "nodes": self.nodes,
            "world_size": self.world_size,
            "folder": str(self.target.folder),
            "log": str(self.out.resolve() / "run.log"),
            "python": "python" if self.settings.get("environment") else sys.executable,
            "launcher_line": shlex.join(self.launcher()),
            "arguments": shlex.join(self.arguments()),
        }
        return self.site.render(values)


def mpiexec() -> str:
    """The launcher beside this Python, where the mpich wheel puts it, else the one on PATH.

    Raises:
        LaunchError: there is none.
    """
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if not found:
        raise LaunchError("no mpiexec here: `pip install mpich`, or load the cluster's MPI module.")
    return found


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


def command(launch: Launch) -> list[str]:
    """The command that runs a launch on this machine."""
    return [*launch.launcher(), sys.executable, "-m", "ringside.real_rank", *launch.arguments()]


def shown_command(launch: Launch) -> str:
    """The same, as it can be typed."""
    return shlex.join(command(launch))


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
    _refuse_beside_another_job(launch.out)
    shutil.rmtree(launch.scratch, ignore_errors=True)
    launch.scratch.mkdir()
    before = outcome.stamp(launch.out)
    if launch.site.scheduler == "none":
        try:
            meaning = _run_here(launch, say, printed)
        except BaseException:
            shutil.rmtree(launch.scratch, ignore_errors=True)
            raise
        return _finish(launch.out, before, outcome.here(launch.out, before, meaning), say)
    job_id = _submit(launch)
    outcome.Submitted(job_id, before).save(launch.out)
    say(f"job {job_id}: submitted to {launch.site.name}")
    if not wait:
        return Outcome("submitted", _how_to_come_back(job_id, launch.out), None, job_id)
    return follow(job_id, launch.out, say)


def follow(job_id: str, out: Path, say: Callable[[str], None]) -> Outcome:
    """Wait for the end of a job that was launched with ``out`` as its folder.

    Raises:
        RingsideError: no such job was launched from there, or Slurm can't be asked.
    """
    submitted = outcome.Submitted.load(out)
    if submitted is None or submitted.job_id != job_id:
        other = f"; job {submitted.job_id} was" if submitted else ""
        raise LaunchError(
            f"job {job_id} was not launched from {out.resolve()}, or has been followed to its "
            f"end{other}. `--out FOLDER` names the folder that it was launched with."
        )
    try:
        ended = slurm.follow(job_id, out / "run.log", say)
    except KeyboardInterrupt:
        say(f"job {job_id} goes on. {_how_to_come_back(job_id, out)}")
        raise
    return _finish(out, submitted.before, outcome.of_job(out, submitted.before, ended), say)


def _how_to_come_back(job_id: str, out: Path) -> str:
    folder = "" if out.resolve() == Path.cwd() else f" --out {shlex.quote(str(out))}"
    return (
        f"`ringside launch --follow {job_id}{folder}` follows it (again), `squeue -j {job_id}` "
        f"shows it, `scancel {job_id}` ends it."
    )


def _finish(
    out: Path, before: outcome.Stamp, result: Outcome, say: Callable[[str], None]
) -> Outcome:
    if result.record is None and before is not None:
        say(f"{out / 'run.json'} is still that of an earlier run.")
    shutil.rmtree(outcome.scratch(out), ignore_errors=True)
    return result


def _refuse_beside_another_job(out: Path) -> None:
    """Two jobs can't leave their records in one folder."""
    submitted = outcome.Submitted.load(out)
    if submitted is not None and slurm.goes_on(submitted.job_id):
        raise LaunchError(
            f"job {submitted.job_id} was launched with the same folder and hasn't ended. "
            f"{_how_to_come_back(submitted.job_id, out)} `--out FOLDER` gives the new one a "
            "folder of its own."
        )


def _submit(launch: Launch) -> str:
    """Write the job's script and submit it; a refused job leaves nothing."""
    script = launch.out.resolve() / "run.sbatch"
    script.write_text(launch.script())
    (launch.out / "run.log").unlink(missing_ok=True)
    try:
        return slurm.submit(script)
    except slurm.SlurmError:
        script.unlink()
        shutil.rmtree(launch.scratch, ignore_errors=True)
        raise


def _run_here(launch: Launch, say: Callable[[str], None], printed: TextIO | None) -> str:
    deadline_s = float(str(launch.settings["deadline_s"]))
    say(
        f"{launch.world_size} ranks on this machine, for at most {deadline_s:g} s "
        "(--set deadline_s=...) ..."
    )
    process = subprocess.Popen(
        command(launch),
        cwd=launch.target.folder,
        env=here_environment(),
        stdin=subprocess.DEVNULL,
        stdout=printed,
        start_new_session=True,
    )
    try:
        process.wait(deadline_s + 20)  # the ranks end by themselves at the deadline, and say where
    except subprocess.TimeoutExpired:
        return "the ranks did not end, and could not say where they were."
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()
    return ""


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
