"""The script of a job, from what is launched, where, and the site's variables.

What runs decides the kind of job, and with the site's launcher the template::

    kind      what it is                                          template
    mpi4py    a function of comm, or a script that imports mpi4py   mpi4py
    gloo      a function of group, or a script that imports torch   torch_gloo | torch_torchrun
    nccl      the same on nodes with GPUs                           torch_nccl | torch_torchrun

A sweep, Jupyter on a node and a grading array have templates of their own.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringside import kit, output_folder
from ringside.checking import inputs
from ringside.errors import RingsideError
from ringside.jobs.launch.sites import Site, Value
from ringside.mpi_there import found_mpiexec
from ringside.session.target import Target, front_end_of

KINDS = ("mpi4py", "gloo", "nccl")


class LaunchError(RingsideError):
    """A run that could not be started, or left no record for a reason that is not the student's."""


def kind_of(target: Target, gpus_per_node: int = 0) -> str:
    """Return the kind of job that a function or a script needs; the file is only read.

    Raises:
        TargetError: there is no such file or function.
        NotPythonError: Python can't read the file.
    """
    torch = _function_is_torch(target) if target.function else _script_is_torch(target)
    if not torch:
        return "mpi4py"
    return "nccl" if gpus_per_node else "gloo"


def _function_is_torch(target: Target) -> bool:
    assert target.function
    path = target.folder / target.file
    inputs.parameters(path, target.function)  # the function is there, and takes ranks
    return inputs.takes_group(path, target.function) or front_end_of(target) == "torch"


def _script_is_torch(target: Target) -> bool:
    names: set[str] = set()
    for node in ast.walk(inputs.parsed(target.folder / target.file)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    if any(f"{name}.".startswith("torch.distributed.") for name in names):
        return True
    packages = {name.split(".")[0] for name in names}
    return "torch" in packages and "mpi4py" not in packages


@dataclass(frozen=True)
class Job:
    """Ranks on nodes of a site, and what the script of their job is to say."""

    site: Site
    settings: Mapping[str, Value]
    kind: str
    nodes: int
    gpus_per_node: int = 0

    @property
    def ranks_per_node(self) -> int:
        return self.gpus_per_node or self.number("ranks_per_node")

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node

    @property
    def local(self) -> bool:
        """Whether the script runs on this machine, without a scheduler."""
        return self.site.scheduler == "none"

    @property
    def torchrun(self) -> bool:
        return self.kind != "mpi4py" and self.settings["torch_launcher"] == "torchrun"

    @property
    def container(self) -> Path | None:
        """The image that everything of the job runs in; None: it runs in an environment."""
        image = str(self.settings["container"])
        return Path(image).expanduser().resolve() if image else None

    def inside(self, *folders: Path) -> str:
        """The words before `python` or `bash` in the script; empty without a container.

        Args:
            folders: what the program reads and writes, which the container must show.

        Raises:
            LaunchError: Apptainer can't be told of such a folder.
        """
        if self.container is None:
            return ""
        mounts: list[str] = []
        for folder in sorted(str(folder.resolve()) for folder in folders):
            if not any(Path(folder).is_relative_to(other) for other in mounts):
                mounts.append(folder)
            if "," in folder or ":" in folder:
                raise LaunchError(
                    f"{folder}: in a container (container={self.container}) no folder may have a "
                    "comma or a colon in its name, since Apptainer's --bind divides at them."
                )
        command = ["apptainer", "exec", *(["--nv"] if self.gpus_per_node else [])]
        command += ["--bind", ",".join(mounts)]
        scratch = '--bind "$RINGSIDE_SCRATCH" ' if self.settings["scratch"] else ""
        return f"{shlex.join(command)} {scratch}{shlex.quote(str(self.container))} "

    def number(self, name: str) -> int:
        return int(str(self.settings[name]))

    def check(self) -> None:
        """Refuse now what the site can't do, wherever it is started.

        Raises:
            LaunchError: GPUs of several nodes, on one machine without a scheduler.
        """
        if self.local and self.gpus_per_node and self.nodes > 1:
            raise LaunchError(
                f"site {self.site.name} is one machine: --gpus-per-node {self.gpus_per_node} "
                f"stands for its GPUs, so --nodes ({self.nodes}) must be 1."
            )

    def check_here(self) -> None:
        """Refuse now what can't be done from this machine.

        Raises:
            LaunchError: a container that isn't there, or that the nodes can't see.
        """
        image = self.container
        if image and not image.exists():
            raise LaunchError(f"container={image}: there is no such file. `make sif` makes one.")
        if image and not self.local and image.is_relative_to("/tmp"):
            raise LaunchError(
                f"container={image} lies under /tmp, and every node has a /tmp of its own: "
                "keep it in your home or on the cluster's scratch file system."
            )

    def template(self) -> str:
        """The template of one run of this kind."""
        if self.torchrun:
            return "torch_torchrun.sbatch.j2"
        return "mpi4py.sbatch.j2" if self.kind == "mpi4py" else f"torch_{self.kind}.sbatch.j2"

    def values(self) -> dict[str, Any]:
        """What every template is filled with, beside names and folders."""
        with_gpus = self.gpus_per_node > 0
        settings = dict(self.settings)
        cpus = self.number("cpus_per_gpu" if with_gpus else "cpus_per_rank")
        tasks_per_node = 1 if self.torchrun else self.ranks_per_node
        also = ["modules", "exports"] if with_gpus else []
        for name in also:
            settings[name] = [*_items(settings, name), *_items(settings, f"gpu_{name}")]
        if with_gpus:
            settings["partition"] = settings["gpu_partition"]
            settings["account"] = settings["gpu_account"] or settings["account"]
            settings["directives"] = settings["gpu_directives"]
        request = str(settings["gpu_request"]).replace("{gpus}", str(self.gpus_per_node))
        return {
            **settings,
            "gpu_request": request if with_gpus else "",
            "backend": self.kind,
            "nodes": self.nodes,
            "world_size": self.world_size,
            "ranks_per_node": self.ranks_per_node,
            "tasks_per_node": tasks_per_node,
            "cpus_per_task": cpus * (self.ranks_per_node // tasks_per_node),
            "threads_per_rank": cpus,
        }

    def signal_s(self) -> int:
        """Seconds before the end at which ranks are told; 0 where the job is too short for it."""
        signal_s = self.number("checkpoint_signal_s")
        return signal_s if not self.local and seconds(str(self.settings["time"])) > signal_s else 0

    def deadline_s(self, *, script: bool) -> int:
        """Seconds after which ranks say where they are and end: so a hang explains itself.

        A script may train for hours: it has its wall time for it, unless ``deadline_s`` was set.
        """
        limit_s = self.number("deadline_s")
        was_set = limit_s != self.site.variables["deadline_s"].value
        if self.local or was_set:
            return limit_s
        time_s = seconds(str(self.settings["time"]))
        # To be heard before Slurm ends the job, and behind the signal that asks for a checkpoint.
        in_time = time_s - min(30, time_s // 6, self.signal_s() // 2 or 30)
        return in_time if script else min(limit_s, in_time)


def _items(settings: Mapping[str, Value], name: str) -> list[str]:
    value = settings[name]
    assert isinstance(value, list)
    return value


def seconds(time: str) -> int:
    """Read Slurm's minutes, minutes:seconds, hours:minutes:seconds, with "days-" before hours.

    >>> seconds("10"), seconds("1:30"), seconds("00:10:00"), seconds("1-12")
    (600, 90, 600, 129600)
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", time.strip())
    if match is None:
        raise LaunchError(f"time={time}: hours:minutes:seconds are wanted, such as 00:10:00.")
    days, *parts = (int(part) if part is not None else None for part in match.groups())
    numbers = [part for part in parts if part is not None]
    if days is not None:
        hours, minutes, rest = [*numbers, 0, 0][:3]
        return ((days * 24 + hours) * 60 + minutes) * 60 + rest
    if len(numbers) == 1:
        return numbers[0] * 60
    hours, minutes, rest = numbers if len(numbers) == 3 else (0, *numbers)
    return (hours * 60 + minutes) * 60 + rest


def sizes(job: Job) -> list[int]:
    """Numbers of ranks of a sweep: 1, 2, 4, ... and all, those that fill their nodes evenly."""
    powers = [1 << k for k in range(job.world_size.bit_length())]
    candidates = sorted({*powers, job.ranks_per_node, job.world_size})
    even = [size for size in candidates if size % -(-size // job.ranks_per_node) == 0]
    return [size for size in even if size <= job.world_size]


def launcher(job: Job) -> tuple[str, str]:
    """What starts MPI ranks: for all of the job, and what a sweep adds for fewer of them."""
    command = shlex.split(str(job.settings["launcher"]))
    if Path(command[0]).name == "srun":  # the number of all ranks is the job's
        fewer = '--nodes="$nodes" --ntasks="$ranks" --ntasks-per-node="$per_node"'
        return shlex.join([*command, "--kill-on-bad-exit=1"]), fewer
    if command[0] == "mpiexec" and not job.settings["environment"]:
        command[0] = mpiexec()  # this environment's; another one's is on the job's PATH
    return shlex.join(command), '-n "$ranks"'


def run_values(job: Job, *, script: bool) -> dict[str, Any]:
    """What the templates of one run are filled with, beside names and folders.

    A script may write a checkpoint and go on from it, so its ranks are told before the time is up.
    """
    start, _ = launcher(job) if job.kind == "mpi4py" else ("", "")
    if start and Path(shlex.split(start)[0]).name != "srun":
        start = f"{start} -n {job.world_size}"
    signal_s = job.signal_s() if script else 0
    overrides = {"launcher": start, "checkpoint_signal_s": signal_s}
    return {**job.values(), **python_here(job), **overrides}


def sweep_values(job: Job) -> dict[str, Any]:
    """What the template of a sweep is filled with, beside names and folders."""
    fewer = '--nodes="$nodes" --ntasks="$ranks" --ntasks-per-node="$per_node"'
    start, count = launcher(job) if job.kind == "mpi4py" else ("", fewer)
    added = {"kind": job.kind, "torchrun": job.torchrun, "sizes": sizes(job)}
    return {
        **job.values(),
        **python_here(job),
        **added,
        "launcher": start,
        "rank_count": count,
    }


def service_values(job: Job, cpus: int, threads: int) -> dict[str, Any]:
    """What templates of one process on one node are filled with: Jupyter, grading."""
    overrides = {"tasks_per_node": 1, "cpus_per_task": cpus, "threads_per_rank": threads}
    return {**job.values(), **python_here(job), **overrides}


def mpiexec() -> str:
    """The launcher beside this Python, where the mpich wheel puts it, else the one on PATH.

    Raises:
        LaunchError: there is none.
    """
    path = found_mpiexec()
    if not path:
        raise LaunchError("no mpiexec here: `pip install mpich`, or load the cluster's MPI module.")
    return path


MADE = "# Written by ringside, which replaces this file the next time."


def make_room(script: Path, log: Path, say: Callable[[str], None]) -> None:
    """Give a script and a log that no launch has written other names: they would be replaced."""
    if script.is_file() and MADE in script.read_text(encoding="utf-8", errors="replace"):
        return  # an earlier launch's, and so is the log
    for path in (script, log):
        if os.path.lexists(path):
            new_path = output_folder.set_aside(path)
            say(f"{path} was not written by ringside: it was renamed to {new_path.name}.")


def own_environment() -> str:
    """Folder of the environment that this Python runs in; empty: the system's."""
    in_venv = sys.prefix if sys.prefix != sys.base_prefix else ""
    return os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX") or in_venv


def python_here(job: Job) -> dict[str, Any]:
    """Python, environment and exports for a script: those that run this, unless asked otherwise.

    A container brings its own Python and its own kit.
    """
    environment = str(job.settings["environment"])
    exports = list(job.values()["exports"])
    if job.local and not job.container:  # the kit may be only on this process's path
        entries = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
        exports.append(f"PYTHONPATH={os.pathsep.join(dict.fromkeys([str(kit.ROOT), *entries]))}")
    return {
        "environment": "" if job.container else environment or own_environment(),
        "python": "python" if environment or job.container else sys.executable,
        "exports": exports,
    }
