"""What was written into the gradebook, a file a student: the old side of a regrade.

    build/graded/<assignment>/<student>.json

nbgrader keeps points and no reasons. Here is why they were given: each test with what it earned
and what it said. The file is written after the points are, as the last step of ``autograde``: a
grading that is killed in between leaves the older one, and a regrade does it again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autograder import storage
from autograder.collect.own_folder import is_placeholder
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade.outcome import Outcome, Status

__all__ = [
    "GradedPart",
    "GradeRecord",
    "file_hash",
    "read",
    "record_of",
    "submission_hash",
    "write",
]


@dataclass(frozen=True)
class GradedPart:
    """One grade cell: a module, or a run."""

    points: float
    tests: dict[str, dict[str, Any]] = field(default_factory=dict)  # name -> earned, points, says


@dataclass(frozen=True)
class GradeRecord:
    """What one submission was given.

    Attributes:
        submission: a hash of the notebook that was handed in.
        key: a hash of all that the results depend on; see ``cache``.
    """

    student: str
    status: str
    message: str
    submission: str
    key: str
    parts: dict[str, GradedPart]

    @property
    def outcome(self) -> Outcome:
        """Status and message as they were then, without results."""
        status: Status = "rejected" if self.status == "rejected" else "graded"
        return Outcome(self.student, status, message=self.message, key=self.key)


def record_of(plan: Assignment, outcome: Outcome, notebook: Path) -> GradeRecord:
    """The record of an outcome as it stands in the gradebook, or would."""
    graded = outcome.status == "graded"
    parts = {
        module.name: GradedPart(
            outcome.points(module) if graded else 0.0,
            {
                test.name: {"earned": test.earned, "points": test.points, "says": test.message}
                for test in outcome.tests(module.name)
            },
        )
        for module in plan.modules
    }
    parts |= {run.name: GradedPart(run.points) for run in outcome.runs}
    return GradeRecord(
        student=outcome.student,
        status=outcome.status,
        message=outcome.message,
        submission=submission_hash(notebook),
        key=outcome.key,
        parts=parts,
    )


def submission_hash(notebook: Path) -> str:
    """What tells a submission from the next one: its notebook, else the files that count for it."""
    if not is_placeholder(notebook):
        return file_hash(notebook)
    folder = notebook.parent
    files = [path for path in folder.rglob("*") if path.suffix in (".ipynb", ".py", ".zip")]
    hashes = [f"{path.relative_to(folder)} {file_hash(path)}" for path in sorted(files)]
    return hashlib.sha256("\n".join(hashes).encode("utf-8", "surrogateescape")).hexdigest()


def file_hash(path: Path) -> str:
    """The hash of a file's content; empty where there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    except OSError:
        return ""


def write(course: Course, assignment: str, record: GradeRecord) -> None:
    """Keep `record`, in the place of an older one."""
    text = json.dumps(asdict(record), indent=1)
    storage.write(course.graded(record.student, assignment), text.encode() + b"\n", mode=0o600)


def read(course: Course, assignment: str, student: str) -> GradeRecord | None:
    """What was last written for a student; None if nothing was, or nobody can read it."""
    try:
        content = json.loads(course.graded(student, assignment).read_bytes())
        parts = {
            str(name): GradedPart(float(part["points"]), dict(part["tests"]))
            for name, part in content["parts"].items()
        }
        content.pop("late_percent", None)  # an earlier kit's
        return GradeRecord(**{**content, "parts": parts})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
