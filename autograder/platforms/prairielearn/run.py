"""What ``grade.sh`` runs in PrairieLearn's container.

    /grade/student                 what was handed in
          /data/data.json          PrairieLearn's data of the question
          /tests/kit               ours
          /results/results.json    what we write: a score from 0 to 1, and the tests

Where nothing counts, ``"gradable": false`` says so: no score, and no attempt is used up.
PrairieLearn itself knows who handed in and when, and what lateness costs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from autograder.collect.submissions import Submission
from autograder.course import assignment as plans
from autograder.course.course import Course
from autograder.grade.command_errors import FAULTS
from autograder.grade.outcome import Outcome
from autograder.platforms import container
from autograder.platforms.settings import Settings
from ringside.files import write_atomically

GRADE = Path("/grade")
MAX_OUTPUT = 2_000  # characters of a test: results.json may have 1 MB
OURS = (
    "The grader could not run, so nothing was graded and no attempt is used up. Tell your "
    "instructor: the grading job's log says why."
)


def main() -> int:
    """Grade the submission; the exit status is 0 if a score is written."""
    results = GRADE / "results" / "results.json"
    status = 0
    try:
        container.close(*(GRADE / name for name in ("tests", "student", "data")))
        container.fresh_results(results)
        report = graded()
    except FAULTS as error:
        container.tell([f"NOT GRADED, and no points are given: {error}"])
        report, status = not_gradable(OURS), 1
    write_atomically(results, json.dumps(report, indent=1).encode() + b"\n")
    return status


def graded() -> dict[str, Any]:
    """The results of what lies in the container.

    Raises:
        NoGrade, SandboxUnavailable: nothing counts.
    """
    course = Course.here()
    settings = Settings.read(course.kit)
    outcome = container.grade(settings, course, Submission("student", GRADE / "student"))
    container.tell(outcome.flags)
    if outcome.status == "rejected":
        return not_gradable(f"What was handed in can't be read: {outcome.message}")
    return results(settings, course, outcome)


def not_gradable(message: str) -> dict[str, Any]:
    """No score, and why."""
    return {"gradable": False, "format_errors": [message], "message": message}


def results(settings: Settings, course: Course, outcome: Outcome) -> dict[str, Any]:
    """What PrairieLearn is told; points of tests that could not run are not part of it."""
    # Now that the ranks' memory is free: nbgrader takes some.
    from autograder.gradebook import marks
    from autograder.platforms.gradescope import results as gradescope

    plan = plans.load(settings.assignment, course)
    left_out = container.without_reality(plan, outcome, settings)
    [mark] = marks.from_outcomes(plan, [outcome], {})
    rows = gradescope.results(plan, mark, outcome, raw=True, visibility="visible")["tests"]
    earned, most = mark.raw_score or 0.0, mark.max_score - left_out
    lines = [f"{earned:g} of {most:g} points."]
    lines += [outcome.empty] if outcome.empty else []
    lines += [container.LEFT_OUT.format(left_out)] if left_out else []
    return {
        "gradable": True,
        "score": round(min(1.0, earned / most), 6),  # it takes no more than 1
        "message": "\n".join(lines),
        "tests": [
            {
                "name": row["name"],
                "points": row["score"],
                "max_points": row["max_score"],
                "output": str(row.get("output", ""))[:MAX_OUTPUT],
            }
            for row in rows
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
