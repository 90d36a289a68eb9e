"""``results.json`` for each submission, as a Gradescope autograder leaves it.

    FOLDER/<student>/results.json     {"score": ..., "output": ..., "tests": [{"name": ...}]}

Format: gradescope-autograders.readthedocs.io, "Autograder Specifications", output format.
``score`` goes before the sum of the tests there, so it is what counts; tests, the run and texts are
in points of the assignment and add up to the raw score; where a person has corrected a module, the
difference is a row of its own. A Gradescope autograder that only copies the file of its
submission to ``/autograder/results/results.json`` shows our lines there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autograder import file_names
from autograder.course.assignment import Assignment, ModuleSpec
from autograder.grade.outcome import Outcome
from autograder.gradebook.marks import Mark
from autograder.gradebook.report import feedback
from ringside import kit
from ringside.checking.requirements import ALL_POINTS
from ringside.files import write_atomically

SMALLEST = 1e-3  # of a point; what is less is rounding


def write(
    folder: Path,
    plan: Assignment,
    marks: Sequence[Mark],
    outcomes: Sequence[Outcome],
    *,
    raw: bool = False,
    visibility: str = "after_published",
) -> int:
    """Write a file for each submission that is graded or rejected; gives how many."""
    by_student: Mapping[str, Outcome] = {outcome.student: outcome for outcome in outcomes}
    count = 0
    for mark in marks:
        outcome = by_student.get(mark.student)
        if mark.raw_score is None or outcome is None:
            continue
        text = json.dumps(results(plan, mark, outcome, raw=raw, visibility=visibility), indent=1)
        subfolder = folder / file_names.of(mark.student)
        subfolder.mkdir(parents=True, exist_ok=True)
        write_atomically(subfolder / "results.json", text.encode() + b"\n")
        count += 1
    return count


def results(
    plan: Assignment, mark: Mark, outcome: Outcome, *, raw: bool, visibility: str
) -> dict[str, Any]:
    """One submission's results."""
    lines = [f"{mark.raw_score:g} of {mark.max_score:g} points."]
    if outcome.status != "graded":
        lines.append(f"What was handed in can't be read: {feedback.shown(outcome.message)}")
    if mark.late_penalty and raw:
        lines.append(f"Lateness would take {mark.late_penalty:g} off; it is not taken off here.")
    elif mark.late_penalty:
        lines.append(f"Lateness takes {mark.late_penalty:g} off: {mark.score:g} are left.")
    lines += [f"By hand: {mark.by_hand}."] if mark.by_hand else []
    lines += [feedback.shown(mark.hand_comment)] if mark.hand_comment else []
    seconds = sum(test.seconds for m in plan.modules for test in outcome.tests(m.name))
    return {
        "score": mark.value(raw=raw),
        "execution_time": round(seconds, 1),
        "output": "\n".join(lines),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": visibility,
        "stdout_visibility": "hidden",
        "extra_data": {
            "raw_score": mark.raw_score,
            "late_penalty": mark.late_penalty,
            "max_score": mark.max_score,
            "kit_version": kit.VERSION,
        },
        "tests": _tests(plan, outcome, visibility),
    }


def _tests(plan: Assignment, outcome: Outcome, visibility: str) -> list[dict[str, Any]]:
    """A row for each test, for the run, and for all that a person gave."""
    account = outcome.account(plan)
    rows: list[dict[str, Any]] = []
    for at, module in enumerate(plan.modules, start=1):
        tests = feedback.test_rows(outcome, module)
        module_rows = [
            _test(module, row, f"{at}.{number}", visibility)
            for number, row in enumerate(tests, start=1)
        ]
        part = account.part(module.name)
        more = round((part.points or 0.0) - sum(row["score"] for row in module_rows), 4)
        if abs(more) > SMALLEST or part.comment:
            name = f"{module.name}: by hand, beside the tests"
            if not part.by_hand and not part.comment:
                name = f"{module.name}: without the point of the exercise not all counts"
            module_rows.append(
                _row(name, f"{at}.{len(module_rows) + 1}", more, 0.0, part.comment, visibility)
            )
        rows += module_rows
    for at, part in enumerate(account.of_kind("run", "text"), start=len(plan.modules) + 1):
        checked = (run for run in outcome.runs if run.name == part.name)
        says = [sentence for run in checked for _, sentence in run.findings]
        output = "\n".join(filter(None, [*says, part.comment]))
        name = f"{'run.json' if part.kind == 'run' else 'text'}: {part.title}"
        if part.points is not None:
            rows.append(_row(name, f"{at}", part.points, part.of, output, visibility))
    return rows


def _row(
    name: str, number: str, score: float, of: float, output: str, visibility: str
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": name,
        "number": number,
        "score": score,
        "max_score": of,
        "status": "passed" if score >= of else "failed",
        "visibility": visibility,
    }
    return row | ({"output": feedback.shown(output)} if output else {})


def _test(
    module: ModuleSpec, row: feedback.TestRow, number: str, visibility: str
) -> dict[str, Any]:
    share = module.weight / ALL_POINTS
    output = "\n".join(filter(None, [row.message, row.detail, row.reproduce]))
    test: dict[str, Any] = {
        "name": f"{module.name}: {row.name}",
        "number": number,
        "score": round(row.earned * share, 4),
        # Extra modules are on top of the maximum: points of theirs are a bonus.
        "max_score": 0.0 if module.extra else round(row.points * share, 4),
        "status": "passed" if row.state == "full" else "failed",
        "tags": [tag for tag in (module.name, row.kind) if tag],
        "visibility": visibility,
    }
    return test | ({"output": output} if output else {})
