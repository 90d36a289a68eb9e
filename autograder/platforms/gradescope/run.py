"""What ``run_autograder`` runs in Gradescope's container.

    /autograder/submission                 what was handed in
               submission_metadata.json    by whom, when, and until when
               results/results.json        what we write: whole, or not at all

Without a results.json Gradescope says "The autograder failed to execute correctly", gives no
points, and shows our output to the instructor alone. So a fault of ours ends.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.collect.submissions import Submission
from autograder.course import assignment as plans
from autograder.course.course import Course
from autograder.grade.command_errors import FAULTS
from autograder.grade.outcome import Outcome
from autograder.platforms import container
from autograder.platforms.gradescope import metadata
from autograder.platforms.gradescope.metadata import Handed
from autograder.platforms.settings import Settings
from ringside.files import write_atomically

if TYPE_CHECKING:
    from autograder.course.late import Late

AUTOGRADER = Path("/autograder")
MAX_NOTES = 5


def main() -> int:
    """Grade the submission; the exit status is 0 if results are written."""
    results = AUTOGRADER / "results" / "results.json"
    try:
        container.close(AUTOGRADER / "source", AUTOGRADER / "submission")
        container.fresh_results(results)
        report = graded()
    except FAULTS as error:
        container.tell([f"NOT GRADED, and no points are given: {error}"])
        return 1
    write_atomically(results, json.dumps(report, indent=1).encode() + b"\n")
    return 0


def graded() -> dict[str, Any]:
    """The results of what lies in the container.

    Raises:
        NoGrade, SandboxUnavailable: nothing counts.
    """
    course = Course.here()
    settings = Settings.read(course.kit)
    path = AUTOGRADER / "submission_metadata.json"
    container.close(path)
    handed = metadata.of_json(path.read_bytes(), str(path))
    student = handed.authors[0].student or "student"
    submission = Submission(student, AUTOGRADER / "submission", name=handed.authors[0].name)
    outcome = container.grade(settings, course, submission)
    container.tell(outcome.flags)
    return results(settings, course, outcome, handed)


def results(settings: Settings, course: Course, outcome: Outcome, handed: Handed) -> dict[str, Any]:
    """What Gradescope is told; points of tests that could not run are not part of it."""
    # Now that the ranks' memory is free: nbgrader takes some.
    from autograder.course.late import Policy, spend
    from autograder.gradebook import marks
    from autograder.platforms.gradescope import results as gradescope

    plan = plans.load(settings.assignment, course)
    if outcome.status == "rejected":
        return _unreadable(outcome.message)
    due = handed.due or plan.due
    outcome.late_seconds = max(0.0, (handed.received - due).total_seconds()) if due else 0.0
    policy = Policy(**dict(settings.late))  # type: ignore[arg-type]
    late = spend(policy, [(plan.name, outcome.late_seconds)]).get(plan.name)
    left_out = container.without_reality(plan, outcome, settings)
    by_student = {outcome.student: late} if late else {}
    [mark] = marks.from_outcomes(plan, [outcome], by_student)
    mark = replace(mark, max_score=round(mark.max_score - left_out, 4))
    report = gradescope.results(plan, mark, outcome, raw=False, visibility=settings.visibility)
    report["output"] = "\n".join([report["output"], *_said(outcome, late, left_out)])
    report["extra_data"]["students"] = [author.student for author in handed.authors]
    return report


def _said(outcome: Outcome, late: Late | None, left_out: float) -> list[str]:
    """What the student hears besides the points."""
    from autograder.gradebook.report import feedback

    sentences = [outcome.empty] if outcome.empty else []
    sentences += [feedback.shown(note) for note in outcome.notes[:MAX_NOTES]]
    if late:
        sentences.append(f"Late by {outcome.late_seconds / 3600:.1f} hours. {late.sentence}")
    if left_out:
        sentences.append(container.LEFT_OUT.format(left_out))
    return sentences


def _unreadable(message: str) -> dict[str, Any]:
    """For a submission that was not read: the student must hear why at once."""
    from autograder.gradebook.report import feedback

    return {
        "score": 0.0,
        "output": f"What was handed in can't be read, so nothing was graded: "
        f"{feedback.shown(message)}\nMend that and hand in again.",
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [],
    }


if __name__ == "__main__":
    sys.exit(main())
