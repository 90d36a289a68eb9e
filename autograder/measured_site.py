"""`autograder grade --measured --site CLUSTER`: a job array, each submission measured on one node.

    build/measured/<assignment>/<time>/
        grade.sbatch         the job (cluster/templates/grading_array.sbatch.j2)
        submissions.txt      a path a line
        records/<k>.json     what `autograder grade --measured` said of line k, inside the job
        task-<k>.log

A task is the same command on a node: it checks cores, sandbox and noise there, and runs under the
account of whoever grades, the student's code in the sandbox. The records are ours, since nothing
inside the sandbox can write to this folder. A task without a record is nobody's fault but the
cluster's, and never a zero.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from autograder.assignment import Assignment
from autograder.course import Course
from autograder.measured import Record
from autograder.outcome import Outcome
from autograder.pipeline import Submission
from ringside import jobscript, slurm
from ringside.errors import RingsideError
from ringside.sites import Site, Value

__all__ = ["measure_on_site", "records", "render"]

Say = Callable[[str], None]
_MOST_S = 10.0  # between two looks at the queue


class SiteJobError(RingsideError):
    """The job can't be submitted as it is asked for."""


def measure_on_site(
    plan: Assignment,
    outcomes: Sequence[Outcome],
    submissions: Sequence[Submission],
    course: Course,
    site: Site,
    settings: dict[str, Value],
    *,
    nodes: int,
    say: Say,
    ranks: int | None = None,
    gpus: bool = False,
) -> None:
    """Submit the array, wait for its end, and note in each outcome what its task found.

    Args:
        outcomes, submissions: in the same order.
        nodes: how many nodes measure at a time.

    Raises:
        RingsideError: the job was refused.
    """
    folder = course.build.resolve() / "measured" / plan.name / time.strftime("%Y%m%dT%H%M%S")
    if folder.is_relative_to("/tmp"):
        raise SiteJobError(
            f"{folder} lies under /tmp, and every node has a /tmp of its own: keep the course "
            "(RINGSIDE_COURSE) on a file system that the nodes see."
        )
    (folder / "records").mkdir(parents=True)
    paths = [str(submission.path.resolve()) for submission in submissions]
    (folder / "submissions.txt").write_text("".join(f"{path}\n" for path in paths))
    script = folder / "grade.sbatch"
    script.write_text(render(plan, len(paths), course, site, settings, folder, nodes, ranks, gpus))
    job_id = slurm.submit(script)
    say(f"job {job_id}: {len(paths)} submissions, {nodes} at a time, on {site.name}; {folder}")
    try:
        _wait(job_id, folder / "records", len(paths), say)
    except KeyboardInterrupt:
        say(f"job {job_id} goes on: `scancel {job_id}` ends it.")
        raise
    for number, outcome in enumerate(outcomes):
        path = folder / "records" / f"{number}.json"
        outcome.measured = records(plan, path, ranks, f"task {number} of job {job_id}")
        for record in outcome.measured:
            say(f"{outcome.student}, {record['module']}: {record['status']}: {record['message']}")


def render(
    plan: Assignment,
    count: int,
    course: Course,
    site: Site,
    settings: dict[str, Value],
    folder: Path,
    nodes: int,
    ranks: int | None,
    gpus: bool = False,
) -> str:
    """The array's script: a node's worth of cores for each task, and one process that grades."""
    cores = ranks or max((spec.ranks for spec in plan.measured), default=1)
    # One core more, for the process that holds the clock.
    job = jobscript.Job(site, settings, "nccl" if gpus else "mpi4py", 1, cores if gpus else 0)
    values = jobscript.service_values(job, cores + 1)
    options = ["--measured", *(["--ranks", str(ranks)] if ranks else [])]
    options += ["--gpus"] if gpus else []
    values |= {
        "job_name": f"measure-{plan.name}",
        "folder": str(course.kit),
        "log": str(folder / "task-%a.log"),
        "records": str(folder / "records"),
        "submissions": str(folder / "submissions.txt"),
        "assignment": plan.name,
        "num_submissions": count,
        "array_limit": nodes,
        "grade_options": f" {shlex.join(options)}",
        "exports": [*values["exports"], f"RINGSIDE_COURSE={course.root.resolve()}"],
    }
    return site.render("grading_array.sbatch.j2", values)


def _wait(job_id: str, written: Path, count: int, say: Say) -> None:
    """Until no task of the array waits or runs any more."""
    done, wait_s, gone = -1, 0.5, 0
    while gone < 2:  # a task that is put back in the queue is in no list for a moment
        look = subprocess.run(
            ["squeue", "-h", "-j", job_id, "-o", "%T"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        known = look.returncode == 0 or "Invalid job id" in look.stderr
        gone = gone + 1 if known and not look.stdout.strip() else 0
        now = len(list(written.glob("*.json")))
        if now != done:
            say(f"job {job_id}: {now} of {count} submissions are measured")
            done, wait_s = now, 0.5
        time.sleep(wait_s)
        wait_s = min(wait_s * 1.3, _MOST_S)


def records(plan: Assignment, path: Path, ranks: int | None, where: str) -> list[dict[str, Any]]:
    """What a task wrote, or the news that it wrote nothing."""
    known = {field.name for field in fields(Record)}
    try:
        (submission,) = json.loads(path.read_text(encoding="utf-8"))["submissions"]
        found: list[dict[str, Any]] = submission["measured"]
        assert all(record.keys() == known for record in found)
    except (OSError, ValueError, KeyError, TypeError, AssertionError):
        found = [
            asdict(
                Record(
                    spec.module,
                    spec.function,
                    ranks or spec.ranks,
                    spec.n,
                    spec.points,
                    message=f"{where} left no record; its log says more. Measure again.",
                )
            )
            for spec in plan.measured
        ]
    return found
