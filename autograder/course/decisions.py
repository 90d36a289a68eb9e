"""What a person decided of a grade, with who, when and why: ``build/decisions/<assignment>.csv``.

    student,part,points,by,when,why,request
    ada,ring,30,prof,2026-03-09T10:12:00+00:00,The bound counts an allowed message.,1f0c22aa

`autograder decide` adds lines, and changes none. The newest line of a student and a part counts:
its points take the place of the suite's or the formgrader's, whenever the mark is read. A line
without points takes an earlier one back; one without a part says why nothing changes. `request` is
the start of a hash of the student's text that the line answers.

The part ``all`` closes a whole assignment with its points, such as one that can't be graded: each
part but the extra ones has the same share of them.
"""

from __future__ import annotations

import csv
import datetime
import fcntl
import hashlib
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder import storage, tables
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course
from autograder.tables import TableError

__all__ = [
    "ALL",
    "Decision",
    "add",
    "answered",
    "of_student",
    "read",
    "request_id",
    "standing",
]

ALL = "all"  # stands for the part where a decision is on the whole assignment
COLUMNS = ("student", "part", "points", "by", "when", "why", "request")


@dataclass(frozen=True)
class Decision:
    """One line."""

    student: str
    part: str  # a module, a run, a text, or ALL; empty: of none
    points: float | None  # None: those that the suite gave
    by: str
    when: datetime.datetime  # UTC
    why: str
    request: str = ""  # `request_id` of the text that it answers

    @property
    def sentence(self) -> str:
        """What was decided, for the student: no name is in it but what `why` says."""
        whole = "the whole assignment: " if self.part == ALL else f"{self.part}: "
        what = whole if self.part else ""
        if self.points is not None:
            what += f"{self.points:g} points. "
        elif self.part:
            what += "the points of the tests. "
        else:
            what += "The points stay. "
        return f"{self.when:%Y-%m-%d}: {what}{self.why}"


def request_id(text: str) -> str:
    """What tells one request from another."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8] if text else ""


def read(course: Course, plan: Assignment) -> list[Decision]:
    """All decisions on an assignment, the oldest first.

    Raises:
        AssignmentError: a line can't be understood; it is named.
    """
    path = course.decisions(plan.name)
    if not path.is_file():
        return []
    try:
        rows = tables.rows(path, COLUMNS, also=())
        decisions = [_of_row(plan, path, line, row) for line, row in rows]
    except TableError as error:
        raise AssignmentError(str(error)) from None
    return sorted(decisions, key=lambda each: each.when)  # lines of one moment stay in their order


def _of_row(plan: Assignment, path: Path, line: int, row: dict[str, str]) -> Decision:
    where = f"{path}, line {line}"
    if not row["student"] or not row["why"]:
        raise TableError(f"{where}: the {'reason' if row['student'] else 'student'} is missing.")
    check(plan, row["part"], _points(where, row["points"]), where)
    try:
        when = tables.moment(datetime.datetime.fromisoformat(row["when"]))
    except ValueError:
        raise TableError(f"{where}: {row['when']!r} is no moment, like {tables.EXAMPLE}.") from None
    return Decision(
        row["student"],
        row["part"],
        _points(where, row["points"]),
        row["by"],
        when.astimezone(datetime.UTC),
        row["why"],
        row["request"],
    )


def _points(where: str, text: str) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise TableError(f"{where}: {text!r} is no number of points.") from None


def check(plan: Assignment, part: str, points: float | None, where: str) -> None:
    """Refuse points that can't be given.

    Raises:
        TableError: the assignment has no such part, or it is of fewer points.
    """
    most = {**_parts(plan), ALL: plan.max_score}
    if part and part not in most:
        raise TableError(f"{where}: {plan.name} has no {part!r}; {tables.meant(part, most)}")
    if points is None:
        return
    if not part:
        raise TableError(f"{where}: {points:g} points of which part? {', '.join(most)}.")
    if not (math.isfinite(points) and 0 <= points <= most[part]):
        raise TableError(f"{where}: {part} is of 0 to {most[part]:g} points, not of {points:g}.")


def add(course: Course, plan: Assignment, decisions: Sequence[Decision]) -> Path:
    """Add lines to the file; those that are there stay, byte for byte."""
    path = course.decisions(plan.name)
    storage.private_folder(path.parent)
    with (path.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = path.read_bytes() if path.is_file() else (",".join(COLUMNS) + "\n").encode()
        stream = io.StringIO(newline="")
        csv.writer(stream, lineterminator="\n").writerows(
            [
                decision.student,
                decision.part,
                "" if decision.points is None else f"{decision.points:g}",
                decision.by,
                decision.when.isoformat(timespec="seconds"),
                decision.why,
                decision.request,
            ]
            for decision in decisions
        )
        gap = b"" if before.endswith(b"\n") else b"\n"
        storage.write(path, before + gap + stream.getvalue().encode(), mode=0o600)
    return path


def of_student(found: Iterable[Decision], student: str) -> list[Decision]:
    """One student's, the oldest first."""
    return [decision for decision in found if decision.student == student]


def standing(plan: Assignment, found: Iterable[Decision]) -> dict[str, float]:
    """The points that are decided for each part, of one student's decisions in their order.

    Of a decision on the part and one on the whole assignment the newer one counts.
    """
    ordered = list(enumerate(found))
    newest = {decision.part: (at, decision.points) for at, decision in ordered if decision.part}
    parts = _parts(plan)
    whole_at, whole = newest.get(ALL, (-1, None))
    standing = {}
    for part, of in parts.items():
        at, points = newest.get(part, (-1, None))
        if whole is not None and (points is None or whole_at > at):
            points = 0.0 if plan.is_extra(part) else round(whole * of / plan.max_score, 6)
        if points is not None:
            standing[part] = points
    return standing


def _parts(plan: Assignment) -> dict[str, float]:
    """Each part of an assignment, and of how many points it is."""
    parts = {module.name: module.weight for module in plan.modules}
    parts |= {run.name: run.points for run in plan.runs}
    return parts | {paragraph.name: paragraph.points for paragraph in plan.paragraphs}


def answered(found: Iterable[Decision], request: str) -> bool:
    """Whether one of the decisions answers a student's text."""
    return not request or request_id(request) in {decision.request for decision in found}
