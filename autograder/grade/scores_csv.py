"""What the grader found, as a plain CSV: one row per student, a column for each part."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autograder.course.assignment import Assignment
from autograder.grade.outcome import Outcome
from autograder.grade.points import Account
from autograder.safe_csv import write_csv


def write(path: Path, plan: Assignment, outcomes: Sequence[Outcome]) -> None:
    """Scores for a learning platform: one row per student, a column for each part."""
    names = ("name",) if any(outcome.name for outcome in outcomes) else ()
    columns: tuple[str, ...] = (
        "student", *names, "status", "score", "max_score", "late_seconds",
        *(module.name for module in plan.modules), *(run.name for run in plan.runs),
        *(paragraph.name for paragraph in plan.paragraphs), "to_grade_by_hand", "message",
    )  # fmt: skip
    if any(outcome.waived(plan) for outcome in outcomes):
        columns += ("waived",)
    if any(outcome.measured is not None for outcome in outcomes):
        columns += tuple(f"measured_{s.module}_{s.function}_{s.n}" for s in plan.measured)
        columns += ("measured_points",)
    table: list[dict[str, object]] = [
        {
            "student": outcome.student,
            "name": outcome.name,
            "status": "excused" if outcome.excused else outcome.status,
            # An empty score is no zero: the grader failed, and the submission is to be graded.
            "score": "" if outcome.status == "grader_error" else outcome.score(plan),
            "max_score": plan.max_score,
            "late_seconds": int(outcome.late_seconds),
            "message": " ".join(filter(None, [outcome.message, *outcome.intake])),
            **_parts(outcome.account(plan)),
            "waived": "; ".join(outcome.waived(plan)),
            **_measured_cells(outcome),
        }
        for outcome in outcomes
    ]
    for row, outcome in zip(table, outcomes, strict=True):
        if outcome.excused:  # sums of the columns leave it out
            row |= {"score": "", "max_score": "", "to_grade_by_hand": 0.0}
    write_csv(path, columns, table)


def _parts(account: Account) -> dict[str, object]:
    """The points of each part; a text that nobody has graded has none."""
    cells: dict[str, object] = {
        part.name: "" if part.points is None else part.points for part in account.parts
    }
    return cells | {"to_grade_by_hand": account.by_hand}


def _measured_cells(outcome: Outcome) -> dict[str, object]:
    """Ratios where there are any, and the points beside the score."""
    records = outcome.measured or []
    done = [record for record in records if record["status"] == "measured"]
    return {
        **{f"measured_{r['module']}_{r['function']}_{r['n']}": round(r["ratio"], 4) for r in done},
        "measured_points": sum(record["points"] for record in records),
    }
