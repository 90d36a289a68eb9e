"""The class at a glance: scores, the tests that fail most, who is alike, a CSV for the LMS."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autograder import gradebook, similarity
from autograder.assignment import Assignment
from autograder.course import Course
from autograder.outcome import Outcome
from autograder.rebuild import WRITEFILE, release_notebook, solution_cells

SOLUTION = "(shipped solution)"
MAX_GROUPS = 40


@dataclass(frozen=True)
class FailedTest:
    """A test, and how many of the submissions that have its module lose points in it."""

    module: str
    name: str
    failed: int
    of: int


def scores_table(plan: Assignment, outcomes: Sequence[Outcome]) -> Table:
    """One row per submission: points by module, total, lateness."""
    table = Table(title=plan.title, title_justify="left", header_style="bold")
    table.add_column("student", no_wrap=True)
    for module in plan.modules:
        weight = f"+{module.weight:g}" if module.extra else f"{module.weight:g}"
        table.add_column(f"{module.name}\n{weight}", justify="right")
    table.add_column(f"score\nof {plan.max_score:g}", justify="right", style="bold")
    table.add_column("late", justify="right")
    for outcome in outcomes:
        table.add_row(*_score_cells(plan, outcome))
    tiers = sorted({str(o.result["sandbox"]) for o in outcomes if o.result.get("sandbox")})
    if tiers:
        table.caption, table.caption_justify = f"graded in: {', '.join(tiers)}", "left"
    return table


def _score_cells(plan: Assignment, outcome: Outcome) -> list[Text]:
    name = Text(printable(outcome.student))
    if outcome.status != "graded":
        cells = [Text("-", style="dim") for _ in plan.modules]
        return [name, *cells, Text(outcome.status, style="red"), Text(_late(outcome))]
    cells = []
    for module in plan.modules:
        points = outcome.points(module)
        style = "green" if points >= module.weight else "red" if points == 0 else "yellow"
        cells.append(Text(f"{points:.4g}", style=style))
    return [name, *cells, Text(f"{outcome.score(plan):.4g}"), Text(_late(outcome))]


def measured_table(plan: Assignment, outcomes: Sequence[Outcome]) -> Table:
    """One row per measurement: student's time over the reference's, its interval, its credit."""
    table = Table(title="Measured on real ranks", title_justify="left", header_style="bold")
    table.add_column("student", no_wrap=True)
    table.add_column("function", no_wrap=True)
    for name in ("ranks", "ratio", "interval", "credit"):
        table.add_column(name, justify="right")
    table.add_column("what it says")
    for outcome in outcomes:
        for record in outcome.measured or []:
            done = record["status"] == "measured"
            table.add_row(
                Text(printable(outcome.student)),
                f"{record['module']}:{record['function']}",
                str(record["ranks"]),
                f"{record['ratio']:.3g}" if done else "",
                f"{record['low']:.3g} to {record['high']:.3g}" if done else "",
                f"{record['credit']:.0%}" if done else record["status"],
                Text("" if done else printable(record["message"])),
            )
    return table


def _late(outcome: Outcome) -> str:
    hours = outcome.late_seconds / 3600
    return "" if hours == 0 else f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} d"


def printable(text: str) -> str:
    """A name without control characters: terminals obey some of them."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def most_failed(plan: Assignment, outcomes: Sequence[Outcome], most: int = 12) -> list[FailedTest]:
    """The tests that cost the most submissions points, untouched modules left out."""
    counted: dict[tuple[str, str], list[int]] = {}
    for outcome in outcomes:
        for module in plan.modules:
            if module.name in outcome.untouched or module.name not in outcome.modules:
                continue
            for test in outcome.tests(module.name):
                tally = counted.setdefault((module.name, str(test["name"])), [0, 0])
                tally[0] += test["earned"] < test["points"]
                tally[1] += 1
    failed = [FailedTest(*key, *tally) for key, tally in counted.items() if tally[0]]
    return sorted(failed, key=lambda each: (-each.failed / each.of, -each.failed, each.name))[:most]


def alike(plan: Assignment, outcomes: Sequence[Outcome], course: Course) -> list[similarity.Match]:
    """Pairs of submissions that are alike, and submissions that are like what we ship."""
    authors: dict[str, dict[str, str]] = {
        outcome.student: {
            name: text for name, text in outcome.modules.items() if name not in outcome.untouched
        }
        for outcome in outcomes
    }
    shipped = _shipped(plan, course)
    found = similarity.matches({**authors, **shipped}, given=_given(plan, course))
    return [match for match in found if not {match.first, match.second} <= shipped.keys()]


def _given(plan: Assignment, course: Course) -> dict[str, str]:
    path = course.release(plan.name)
    if not (path / plan.notebook).is_file():
        return {}
    return {
        cell.metadata.nbgrader.grade_id: WRITEFILE.sub("", cell.source, count=1)
        for cell in solution_cells(release_notebook(plan, path))
    }


def _shipped(plan: Assignment, course: Course) -> dict[str, dict[str, str]]:
    """What anybody can read in the kit: the solutions, and the other right ways of the mutants."""
    folder = course.solution(plan.name)
    shipped = {
        SOLUTION: {
            module.name: (folder / module.filename).read_text(encoding="utf-8")
            for module in plan.modules
            if (folder / module.filename).is_file()
        }
    }
    others = course.kit / "autograder" / "mutants" / plan.name / "right"
    for path in sorted(others.glob("*__*.py")):
        module = path.stem.split("__")[0]
        shipped[f"(shipped {path.stem})"] = {module: path.read_text(encoding="utf-8")}
    return shipped


def print_report(
    console: Console, plan: Assignment, outcomes: Sequence[Outcome], course: Course
) -> None:
    """Everything about the class, to the terminal."""
    console.print(scores_table(plan, outcomes))
    graded = [outcome for outcome in outcomes if outcome.status == "graded"]
    if graded:
        scores = [outcome.score(plan) for outcome in graded]
        console.print(
            f"{len(graded)} graded of {len(outcomes)}; median {statistics.median(scores):.4g}, "
            f"lowest {min(scores):.4g}, highest {max(scores):.4g} of {plan.max_score:g}."
        )
    console.print()
    costly = most_failed(plan, graded)
    if costly:
        console.print(_costly_table(costly))
    else:
        console.print("In the modules that were written, no test cost anybody points.")
    matches = alike(plan, outcomes, course)
    console.print()
    if not matches:
        console.print("No two submissions are alike in shape.")
        return
    table = Table(title="Alike in shape: read them", title_justify="left", header_style="bold")
    for name in ("module", "at least", "submissions"):
        table.add_column(name)
    for group in similarity.groups(matches)[:MAX_GROUPS]:
        names = ", ".join(printable(author) for author in group.authors)
        table.add_row(group.module, f"{group.ratio:.0%}", Text(names))
    console.print(table)


def _costly_table(costly: Sequence[FailedTest]) -> Table:
    failed = Table(title="Where points are lost", title_justify="left", header_style="bold")
    for name, justify in (("module", "left"), ("test", "left"), ("lose points", "right")):
        failed.add_column(name, justify="right" if justify == "right" else "left")
    for test in costly:
        failed.add_row(test.module, test.name, f"{test.failed} of {test.of}")
    return failed


def write_csv(path: Path, plan: Assignment, outcomes: Sequence[Outcome]) -> None:
    """Scores for a learning platform: one row per student, a column per module."""
    columns = (
        "student", "status", "score", "max_score", "late_seconds",
        *(module.name for module in plan.modules), "message",
    )  # fmt: skip
    if any(outcome.measured is not None for outcome in outcomes):
        columns += tuple(f"measured_{s.module}_{s.function}_{s.n}" for s in plan.measured)
        columns += ("measured_points",)
    table: list[dict[str, object]] = [
        {
            "student": outcome.student,
            "status": outcome.status,
            # An empty score is no zero: the grader failed, and the submission is to be graded.
            "score": "" if outcome.status == "grader_error" else outcome.score(plan),
            "max_score": plan.max_score,
            "late_seconds": int(outcome.late_seconds),
            "message": outcome.message,
            **{module.name: outcome.points(module) for module in plan.modules},
            **_measured_cells(outcome),
        }
        for outcome in outcomes
    ]
    gradebook.write_csv(path, columns, table)


def _measured_cells(outcome: Outcome) -> dict[str, object]:
    """Ratios where there are any, and the points beside the score."""
    records = outcome.measured or []
    done = [record for record in records if record["status"] == "measured"]
    return {
        **{f"measured_{r['module']}_{r['function']}_{r['n']}": round(r["ratio"], 4) for r in done},
        "measured_points": sum(record["points"] for record in records),
    }
