"""`autograder grade --measured --site CLUSTER`: a job array, each submission measured on one node.

A task is ``autograder grade --measured`` on a node (``autograder.grade.cluster.grading_array``): it
checks cores, sandbox and noise there, and runs under the account of whoever grades, the student's
code in the sandbox. The records are ours, since nothing inside the sandbox can write to this
folder::

    build/measured/<assignment>/records/<k>.json

A task without a record is nobody's fault but the cluster's, and never a zero.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade.cluster.grading_array import ArrayError, GradingArray
from autograder.grade.measured.measurement import Measurement
from autograder.grade.outcome import Outcome
from ringside.jobs.launch.sites import Site, Value

__all__ = ["array", "measure_on_site", "records"]


def array(
    plan: Assignment,
    submissions: Sequence[Path],
    course: Course,
    site: Site,
    settings: Mapping[str, Value],
    *,
    nodes: int | None = None,
    ranks: int | None = None,
    gpus: bool = False,
    trusted: bool = False,
) -> GradingArray:
    """The array: for each task a core a rank, and one more for the process that holds the clock.

    Args:
        nodes: how many tasks measure at a time; None: as the site says.

    Raises:
        ArrayError: the nodes would not see the course.
    """
    folder = course.build.resolve() / "measured" / plan.name
    if folder.is_relative_to("/tmp"):
        raise ArrayError(
            f"{folder} lies under /tmp, and every node has a /tmp of its own: keep the course "
            "(RINGSIDE_COURSE) on a file system that the nodes see."
        )
    most = ranks or max((spec.ranks for spec in plan.measured), default=1)
    options = ["--measured", *(["--ranks", str(ranks)] if ranks else [])]
    options += ["--gpus"] if gpus else []
    return GradingArray(
        site,
        settings,
        plan.name,
        submissions,
        Path.cwd(),
        folder,
        trusted,
        options,
        cores=most + 1,
        gpus=most if gpus else 0,
        at_a_time=nodes,
    )


def measure_on_site(
    plan: Assignment,
    outcomes: Sequence[Outcome],
    tasks: GradingArray,
    ranks: int | None,
    say: Callable[[str], None],
) -> None:
    """Run the array to its end, and note in each outcome what its task found.

    Args:
        outcomes: in the order of the array's submissions.

    Raises:
        RingsideError: the array was refused.
    """
    tasks.run(say)
    for number, outcome in enumerate(outcomes):
        path = tasks.folder / "records" / f"{number}.json"
        outcome.measured = records(plan, path, ranks)
        for record in outcome.measured:
            say(f"{outcome.student}, {record['module']}: {record['status']}: {record['message']}")


def records(plan: Assignment, path: Path, ranks: int | None) -> list[dict[str, Any]]:
    """What a task wrote, or the news that it wrote nothing."""
    names = {field.name for field in fields(Measurement)}
    try:
        (submission,) = json.loads(path.read_text(encoding="utf-8"))["submissions"]
        measurements: list[dict[str, Any]] = submission["measured"]
        if all(record.keys() == names for record in measurements):
            return measurements
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    nothing = f"Task {path.stem} of the job left no record; its log says more. Measure again."
    return [
        asdict(Measurement(s.module, s.function, ranks or s.ranks, s.n, s.points, message=nothing))
        for s in plan.measured
    ]
