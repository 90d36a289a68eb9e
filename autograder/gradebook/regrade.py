r"""``autograder regrade``: a suite was mended: who gets other points?

    build/graded/*.json  what the gradebook was given  \
                                                        >  differences  ->  asked  ->  autograde
    submissions, store   what they are worth now       /                    of those students only

A result's hash covers its own suite only, so what is run again is what the change can affect.
Nothing is written before the differences are shown and a person says yes (or ``--yes``). Writing
is nbgrader's own ``autograde``, for the students whose points change: scores and comments that
people gave stay, and a paragraph that somebody has read does not wait to be read again. Feedback
pages of these students are made anew, where there are any.

Points are those before lateness, which follows from the dates whenever a mark is read. A submission
that is not in the gradebook yet is left to ``nbgrader autograde``; one where the
grader fails keeps what it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autograder.course import nbgrader_steps
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade.outcome import Outcome
from autograder.gradebook.nbgrader import grading_record
from autograder.gradebook.nbgrader.grading_record import GradedPart, GradeRecord
from autograder.terminal import printable
from ringside.checking.requirements import ALL_POINTS
from ringside.units import format_count

__all__ = ["PointsChange", "Differences", "compare", "show", "write"]

_SAME = 5e-4  # of a point: scores are rounded to four places


@dataclass(frozen=True)
class PointsChange:
    """A grade cell that is worth something else now.

    Attributes:
        part: the module, or the run.
        reasons: a line a test: what it earns, and the sentence that says why.
    """

    student: str
    part: str
    old: float
    new: float
    reasons: tuple[str, ...]


@dataclass
class Differences:
    """A class before and after."""

    changes: list[PointsChange] = field(default_factory=list)
    same: list[str] = field(default_factory=list)  # students
    new: list[str] = field(default_factory=list)  # not in the gradebook yet
    failed: list[Outcome] = field(default_factory=list)  # by our fault

    def students(self) -> list[str]:
        """Those whose points change."""
        return list(dict.fromkeys(change.student for change in self.changes))


def compare(plan: Assignment, outcomes: Iterable[Outcome], course: Course) -> Differences:
    """What the gradebook was given, beside what the submissions are worth now."""
    differences = Differences()
    for outcome in outcomes:
        before = grading_record.read(course, plan.name, outcome.student)
        if outcome.status == "grader_error":
            differences.failed.append(outcome)
        elif before is None:
            differences.new.append(outcome.student)
        else:
            folder = course.submitted(outcome.student, plan.name)
            after = grading_record.record_of(plan, outcome, folder / plan.notebook)
            changes = _changes(plan, before, after)
            differences.changes += changes
            if not changes:
                differences.same.append(outcome.student)
    return differences


def _changes(plan: Assignment, before: GradeRecord, after: GradeRecord) -> list[PointsChange]:
    weights = {module.name: module.weight for module in plan.modules}
    changes = []
    for name in dict.fromkeys([*after.parts, *before.parts]):
        old, new = (record.parts.get(name, GradedPart(0.0)) for record in (before, after))
        if abs(old.points - new.points) > _SAME:
            reasons = _reasons(old, new, weights.get(name, ALL_POINTS) / ALL_POINTS)
            if before.status != after.status or before.message != after.message:
                reasons.insert(0, f"{after.status}: {after.message}".removesuffix(": "))
            if before.submission != after.submission:
                reasons.insert(0, "another notebook was handed in since")
            if not reasons:
                reasons = ["no test changed: it weighs other points now"]
            changes.append(
                PointsChange(after.student, name, old.points, new.points, tuple(reasons))
            )
    return changes


def _reasons(old: GradedPart, new: GradedPart, scale: float) -> list[str]:
    """A line for each test that earns something else, was added or removed."""
    lines = []
    for name in dict.fromkeys([*new.tests, *old.tests]):
        before, now = old.tests.get(name), new.tests.get(name)
        if now is None:
            lines.append(f"{name}: there is no such test any more")
            continue
        earned = now["earned"] * scale
        if before is None:
            lines.append(f"{name}: new, {earned:.4g} points. {now['says']}".rstrip())
        elif abs(before["earned"] - now["earned"]) * scale > _SAME:
            why = now["says"] or f"it passes now; it said: {before['says']}"
            lines.append(f"{name}: {before['earned'] * scale:.4g} -> {earned:.4g}. {why}")
        elif before["points"] != now["points"]:
            lines.append(f"{name}: of {before['points']:g}, now of {now['points']:g} in a hundred")
    return lines


def show(screen: Console, plan: Assignment, found: Differences) -> None:
    """The table of changes, and how many are as they were."""
    if found.changes:
        screen.print(_table(plan, found.changes))
    phrases = [
        format_count(len(found.students()), "student") + " with other points",
        f"{len(found.same)} as before",
    ]
    if found.new:
        phrases.append(f"{len(found.new)} not in the gradebook yet (nbgrader autograde)")
    if found.failed:
        phrases.append(f"{len(found.failed)} where the grader failed")
    screen.print("; ".join(phrases) + ".")


def _table(plan: Assignment, changes: Sequence[PointsChange]) -> Table:
    table = Table(title=f"{plan.title}: a regrade", title_justify="left", header_style="bold")
    table.add_column("student", no_wrap=True)
    table.add_column("module", no_wrap=True)
    for name in ("old", "new"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why")
    last_student = ""
    for change in changes:
        if change.student != last_student and last_student:
            table.add_section()
        table.add_row(
            Text(printable(change.student) if change.student != last_student else ""),
            change.part,
            f"{change.old:.4g}",
            Text(f"{change.new:.4g}", style="green" if change.new > change.old else "red"),
            Text("\n".join(printable(" ".join(line.split())) for line in change.reasons)),
        )
        last_student = change.student
    return table


def write(plan: Assignment, students: Sequence[str], course: Course) -> list[str]:
    """nbgrader's autograde for these students; what people did to their grades stays.

    Feedback pages that are there are made anew.

    Returns:
        Those whose pages were.
    """
    renewed = []
    for student in students:
        nbgrader_steps.autograde(course, plan.name, student)
        if course.feedback(student, plan.name).is_dir():
            nbgrader_steps.generate_feedback(course, plan.name, student)
            renewed.append(student)
    return renewed
