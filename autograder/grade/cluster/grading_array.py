"""Submissions graded on a cluster: a Slurm job array, some submissions a task.

What a task does is ``autograder.grade.cluster.task``; which submissions are graded so, and what
becomes of those that the cluster lost, is ``autograder.grade.cluster.cluster_class``. In the
array's folder, which all nodes see and only its owner may read::

    grade.sbatch         the script; bash runs it where there is no scheduler
    tasks.json           the submissions, and which task grades which
    records/<k>.json     what `autograder grade --json` says of submission k; it appears whole
    nodes/<task>.json    where a task runs, in what sandbox, and which submission it has begun
    logs/                what the tasks print
"""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autograder.storage import private_folder
from ringside.errors import RingsideError
from ringside.files import write_atomically
from ringside.jobs.launch import jobscript, slurm, slurm_array
from ringside.jobs.launch.endings import Look
from ringside.jobs.launch.jobscript import Job
from ringside.jobs.launch.sites import Site, Value
from ringside.jobs.launch.slurm_array import Heard, TaskEnd

_WAVES = 4  # tasks for each that runs at a time, so that slow ones even out
_MINUTES_EACH = 2  # of the wall time, for a submission

Say = Callable[[str], None]


class ArrayError(RingsideError):
    """A class that can't be graded on the cluster as it was asked for."""


def in_tasks(count: int, each: int) -> list[list[int]]:
    """The numbers 0 to count - 1, `each` to a task.

    >>> in_tasks(5, 2)
    [[0, 1], [2, 3], [4]]
    """
    return [list(range(first, min(first + each, count))) for first in range(0, count, each)]


def submissions_per_task(count: int, settings: Mapping[str, Value], most_tasks: int) -> int:
    """How many submissions a task grades: the site's `array_chunk`; 0 lets the kit choose.

    The kit makes four tasks for each that runs at a time, but none of which a submission has
    less than two minutes. No array has more than `most_tasks` tasks.
    """
    chosen = int(str(settings["array_chunk"]))
    minutes = jobscript.seconds(str(settings["time"])) // 60
    waves = math.ceil(count / (_WAVES * int(str(settings["array_limit"]))))
    per_task = chosen or max(1, min(waves, minutes // _MINUTES_EACH))
    return max(per_task, math.ceil(count / most_tasks))


def most_tasks() -> int:
    """The tasks that an array may have here: Slurm's MaxArraySize, else Slurm's default of it."""
    try:
        answer = slurm.ask(["scontrol", "show", "config"])
    except FileNotFoundError:
        return 1001
    lines = (line.partition("=") for line in answer.stdout.splitlines())
    config = {name.strip(): value.strip() for name, _, value in lines}
    size = config.get("MaxArraySize", "")
    return int(size) if size.isdigit() and int(size) > 0 else 1001


@dataclass(frozen=True)
class GradingArray:
    """The array as it was asked for.

    Attributes:
        submissions: a notebook, an archive or a folder of modules each.
        course: the folder that ``autograder grade`` is run in.
        folder: for the script, the list of submissions, records and logs; the nodes see it.
        trusted: student code runs without a sandbox.
        words: more of ``autograder grade``'s command line.
        cores, gpus: what a task asks for; the site's ranks for each node, and none.
        at_a_time: how many tasks run at once; None: as the site says.
        tasks: the numbers of each task's submissions; empty: each has a task.
        job_name: Slurm's name of it; empty: after the assignment.
        directives: more #SBATCH lines, such as nodes that it stays away from.
    """

    site: Site
    settings: Mapping[str, Value]
    assignment: str
    submissions: Sequence[Path]
    course: Path
    folder: Path
    trusted: bool = False
    words: Sequence[str] = ()
    cores: int | None = None
    gpus: int = 0
    at_a_time: int | None = None
    tasks: Sequence[Sequence[int]] = ()
    job_name: str = ""
    directives: Sequence[str] = field(default=())

    @property
    def task_numbers(self) -> list[list[int]]:
        """The numbers of the submissions of each task."""
        return [list(task) for task in self.tasks] or in_tasks(len(self.submissions), 1)

    @property
    def name(self) -> str:
        return self.job_name or f"grade-{self.assignment}"

    @property
    def job(self) -> Job:
        """What each task asks for."""
        return Job(self.site, self.settings, "nccl" if self.gpus else "mpi4py", 1, self.gpus)

    def script(self) -> str:
        """The array's script; where there is no scheduler, it grades one after the other."""
        job = self.job
        cpus = self.cores or job.ranks_per_node * job.number("cpus_per_rank")
        log = "local.log" if job.local else "%A_%a.log"  # the numbers of the array and the task
        values = jobscript.service_values(job, cpus, 1)
        # A job starts from a clean environment; these say where the course is.
        names = ("RINGSIDE_KIT", "RINGSIDE_COURSE", "RINGSIDE_RESULTS")
        folders = {name: Path(os.environ[name]).resolve() for name in names if name in os.environ}
        values["exports"] += [f"{name}={folder}" for name, folder in folders.items()]
        handed_in = [path.resolve().parent for path in self.submissions]
        options = [*(["--trust-submissions"] if self.trusted else []), *self.words]
        values |= {
            "job_name": self.name,
            "folder": str(self.course.resolve()),
            "log": str(self.folder.resolve() / "logs" / log),
            "array_folder": str(self.folder.resolve()),
            "inside": job.inside(self.course, self.folder, *folders.values(), *handed_in),
            "num_tasks": len(self.task_numbers),
            "per_task": max(map(len, self.task_numbers), default=1),
            "grading_options": "".join(f" {shlex.quote(word)}" for word in options),
            "directives": [*values["directives"], *self.directives],
        }
        if self.at_a_time:
            values["array_limit"] = self.at_a_time
        return self.site.render("grading_array.sbatch.j2", values)

    def write(self) -> Path:
        """Write the script and what its tasks read; what an earlier one left is removed."""
        folder = self.folder.resolve()
        for name in ("records", "nodes", "logs"):
            shutil.rmtree(folder / name, ignore_errors=True)
        private_folder(folder)
        folder.chmod(0o700)  # scores and students' names lie here
        for name in ("records", "nodes", "logs"):
            (folder / name).mkdir()
        content = {
            "assignment": self.assignment,
            "submissions": [str(path.resolve()) for path in self.submissions],
            "tasks": self.task_numbers,
        }
        write_atomically(folder / "tasks.json", json.dumps(content, indent=1).encode())
        script = folder / "grade.sbatch"
        write_atomically(script, self.script().encode(errors="surrogateescape"))
        return script

    def record(self, number: int) -> Path:
        """Where submission `number`'s record is, once it is graded."""
        return self.folder / "records" / f"{number}.json"

    def records(self) -> list[int]:
        """The submissions that have a record."""
        return [int(path.stem) for path in (self.folder / "records").glob("[0-9]*.json")]

    def log(self, job_id: str, task: int) -> Path:
        return self.folder / "logs" / f"{job_id}_{task}.log"

    def check(self) -> None:
        """Refuse what could not work.

        Raises:
            ArrayError: the course's secret, or the array's folder, would not reach the nodes.
            LaunchError: there is no such container.
        """
        self.job.check()
        if self.site.scheduler == "none":
            return
        if "RINGSIDE_COURSE_SECRET" in os.environ:
            raise ArrayError(
                "RINGSIDE_COURSE_SECRET does not reach the nodes, and a job script is no place for "
                "a secret: write it into course_secret.txt, and unset the variable."
            )
        if self.folder.resolve().is_relative_to("/tmp"):
            raise ArrayError(
                f"{self.folder} lies under /tmp, and every node has a /tmp of its own: keep the "
                "course (RINGSIDE_COURSE) on a file system that the nodes see."
            )

    def submit(self) -> str:
        """Write all of it and submit it; return the job's number.

        Raises:
            SlurmError: it was refused.
        """
        return slurm.submit(self.write())

    def follow(self, job_id: str, say: Say, heard: Heard | None = None) -> dict[int, TaskEnd]:
        """Wait until all tasks have ended.

        Raises:
            SlurmError: Slurm has been silent for too long.
        """
        count = len(self.task_numbers)
        return slurm_array.follow(
            job_id,
            count,
            lambda task: self.log(job_id, task),
            say,
            heard or _nothing,
            job_name=self.name,
        )

    def run_here(self) -> None:
        """Where there is no scheduler: bash runs the script."""
        subprocess.run(["bash", str(self.write())], stdin=subprocess.DEVNULL, check=False)

    def run(self, say: Say) -> int:
        """Run the array to its end, once; return how many submissions have a record.

        Raises:
            SlurmError: the array was refused.
            ArrayError: as `check`.
        """
        self.check()
        if self.site.scheduler == "none":
            self.run_here()
        else:
            job_id = self.submit()
            say(f"job {job_id}: {len(self.task_numbers)} tasks submitted to {self.site.name}")
            ends = self.follow(job_id, say)
            for task, end in sorted(ends.items()):
                if end.end != "done":
                    say(f"job {job_id}, task {task}: {end.end}: {end.meaning}")
        return len(self.records())


def _nothing(_: Mapping[int, Look]) -> None:
    """What is heard of the tasks is of no use here."""
