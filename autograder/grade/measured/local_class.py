"""`autograder grade --measured`: which functions of which submissions are measured, here, in order.

One after another, since two measurements at a time would measure each other. A module is measured
only where the suite found its values right: wrong values have no speed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from autograder.course.assignment import Assignment, MeasuredSpec
from autograder.course.course import Course
from autograder.grade.measured.measurement import Measurement, measure
from autograder.grade.outcome import Outcome

__all__ = ["measure_class"]

Say = Callable[[str], None]


def measure_class(
    plan: Assignment,
    outcomes: Sequence[Outcome],
    course: Course,
    *,
    say: Say,
    trusted: bool = False,
    ranks: int | None = None,
    gpus: bool = False,
) -> None:
    """Measure what the assignment says, for every submission, and note it in each outcome."""
    reference = course.solution(plan.name)
    for outcome in outcomes:
        outcome.measured = []
        for spec in plan.measured if outcome.status == "graded" else ():
            record = _measured(plan, spec, outcome, reference, trusted, ranks, gpus)
            outcome.measured.append(asdict(record))
            say(f"{outcome.student}, {spec.module}: {record.status}: {record.message}")


def _measured(
    plan: Assignment,
    spec: MeasuredSpec,
    outcome: Outcome,
    reference: Path,
    trusted: bool,
    ranks: int | None,
    gpus: bool,
) -> Measurement:
    reason = _not_to_be_measured(spec, outcome)
    if reason:
        record = Measurement(spec.module, spec.function, ranks or spec.ranks, spec.n, spec.points)
        record.status, record.message = "not measured", reason
        return record
    return measure(plan, spec, outcome.modules, reference, trusted=trusted, ranks=ranks, gpus=gpus)


def _not_to_be_measured(spec: MeasuredSpec, outcome: Outcome) -> str:
    """Why a module has no time worth measuring; empty if it has."""
    if spec.module not in outcome.modules or spec.module in outcome.untouched:
        return f"{spec.module}.py was not written."
    if any(test.kind == "values" and not test.is_full for test in outcome.tests(spec.module)):
        return "Tests of its values fail, and wrong values have no speed."
    return ""
