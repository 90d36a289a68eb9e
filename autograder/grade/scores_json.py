"""What the grader found, as `autograder grade --json` writes it for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from autograder.course.assignment import Assignment
from autograder.grade.outcome import Outcome
from ringside import kit


def as_json(plan: Assignment, outcomes: Sequence[Outcome]) -> dict[str, object]:
    """The report of a grading."""
    tiers = sorted({outcome.sandbox for outcome in outcomes if outcome.sandbox})
    return {
        "assignment": plan.name,
        "kit_version": kit.VERSION,
        "sandbox": ", ".join(tiers),
        "submissions": [outcome.as_json(plan) for outcome in outcomes],
    }


def text(plan: Assignment, outcomes: Sequence[Outcome]) -> str:
    """The report as it stands in a file."""
    return json.dumps(as_json(plan, outcomes), indent=1, allow_nan=False) + "\n"
