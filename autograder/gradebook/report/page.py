"""The class report as one HTML page: no script, nothing to load, every student behind a link.

What the page shows is computed in `summary`; here it gets positions, colours and short forms.
Whatever a student wrote or was told (names, sentences, exceptions) is escaped and capped.
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
import nh3

from autograder.course.assignment import Assignment, ModuleSpec
from autograder.grade.outcome import Outcome
from autograder.grade.points import Account, Part
from autograder.gradebook.report import feedback, rendering, similarity
from autograder.gradebook.report.report import moment, provenance
from autograder.gradebook.report.summary import BINS, SameMistake, Spread, Summary
from ringside.course.predictions.boxes import words_html
from ringside.files import write_atomically

if TYPE_CHECKING:
    from autograder.course.late import Late

MAX_MESSAGE, MAX_DETAIL = 700, 400  # characters of what a page of 300 students repeats
STATUS = {"rejected": "rejected", "grader_error": "grader failed"}


@dataclass(frozen=True)
class Bar:
    """One bin of a histogram, in percent of the drawing."""

    left: float
    width: float
    height: float
    number: int
    label: str


@dataclass(frozen=True)
class ModuleCell:
    """A module, a run or a text in the row of a student."""

    points: float | None  # None: a text that nobody has graded
    state: str  # "full", "part", "none"; "untouched"


@dataclass(frozen=True)
class ModulePart:
    """A module in the details of a student."""

    module: ModuleSpec
    cell: ModuleCell
    tests: int
    failures: tuple[feedback.Failure, ...]


@dataclass(frozen=True)
class StudentRow:
    """A student, in the table and in the details."""

    anchor: str
    outcome: Outcome
    score: float | None
    account: Account
    cells: tuple[ModuleCell, ...]
    parts: tuple[ModulePart, ...]
    late: Late | None
    similar: bool

    @property
    def failed(self) -> int:
        return sum(1 + len(failure.others) for part in self.parts for failure in part.failures)

    @property
    def tests(self) -> int:
        return sum(part.tests for part in self.parts)


def bars(spread: Spread) -> list[Bar]:
    """The bins as bars, the highest of them as high as the drawing."""
    most, width = max(spread.bins), 100 / BINS
    return [
        Bar(
            left=at * width,
            width=width,
            height=100 * number / most,
            number=number,
            label=f"{at * 100 // BINS} to {(at + 1) * 100 // BINS} %: {number}",
        )
        for at, number in enumerate(spread.bins)
    ]


def render(summary: Summary) -> str:
    """The page as one HTML document."""
    anchors = {o.student: f"s{number}" for number, o in enumerate(summary.outcomes, start=1)}
    similar = {author for group in summary.similar for author in group.authors}
    page = _environment().get_template("report.html.j2")
    return page.render(
        summary=summary,
        plan=summary.plan,
        spread=summary.spread,
        columns=_columns(summary.plan),
        anchors=anchors,
        students=[_student(summary, work, anchors, similar) for work in summary.outcomes],
        errors=summary.with_status("grader_error"),
        rejected=summary.with_status("rejected"),
        empty=[outcome for outcome in summary.outcomes if outcome.empty],
        taken=[outcome for outcome in summary.outcomes if outcome.intake],
        no_proof=similarity.NO_PROOF,
        clusters=[(m, summary.clusters[m.name]) for m in summary.plan.modules],
        provenance=provenance(summary),
        written=moment(time.time()),
        widest=_widest(summary),
    )


def _columns(plan: Assignment) -> list[tuple[str, str]]:
    """The columns of the class's table: a name, and the points it is of."""
    columns = [
        (module.name.replace("_", " "), f"{'+' if module.extra else ''}{_number(module.weight)}")
        for module in plan.modules
    ]
    columns += [("run", _number(run.points)) for run in plan.runs]
    return columns + [("text", _number(paragraph.points)) for paragraph in plan.paragraphs]


def write(path: Path, summary: Summary) -> None:
    """Write the page whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, render(summary).encode())


def _widest(summary: Summary) -> int:
    mistakes: list[SameMistake] = [
        mistake for group in summary.clusters.values() for mistake in group
    ]
    return max((len(mistake.students) for mistake in mistakes), default=1)


def _student(
    summary: Summary, outcome: Outcome, anchors: dict[str, str], similar: set[str]
) -> StudentRow:
    plan = summary.plan
    graded = outcome.status == "graded"
    account = outcome.account(plan)
    parts = tuple(_part(module, account, outcome) for module in plan.modules) if graded else ()
    others = account.of_kind("run", "text") if graded else ()
    return StudentRow(
        anchor=anchors[outcome.student],
        outcome=outcome,
        score=account.score if graded else None,
        account=account,
        cells=(*(part.cell for part in parts), *map(_cell, others)),
        parts=parts,
        late=summary.late.get(outcome.student),
        similar=outcome.student in similar,
    )


def _cell(part: Part) -> ModuleCell:
    points = part.points or 0.0
    full = points >= part.of - 1e-9
    return ModuleCell(part.points, "full" if full else "part" if points > 0 else "none")


def _part(module: ModuleSpec, account: Account, outcome: Outcome) -> ModulePart:
    cell = _cell(account.part(module.name))
    if module.name in outcome.untouched or module.name not in outcome.modules:
        begun = "untouched" if not cell.points else cell.state
        return ModulePart(module, ModuleCell(cell.points, begun), 0, ())
    rows = feedback.test_rows(outcome, module)
    return ModulePart(module, cell, len(rows), feedback.failures(rows))


def _number(value: float, digits: int = 2) -> str:
    """A number of points: at most two decimals, none that say nothing.

    >>> _number(97.50), _number(8), _number(1 / 3)
    ('97.5', '8', '0.33')
    """
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def _short(text: str, most: int) -> str:
    """At most `most` characters of `text`, on at most 8 lines."""
    return feedback.shown(text, most, 8)


def _rubric(markdown: str) -> str:
    """A section of the kit's own answers as HTML, without its heading."""
    from nbconvert.filters import markdown2html  # takes a second

    return nh3.clean(str(markdown2html(markdown.partition("\n")[2])))


@functools.cache
def _environment() -> jinja2.Environment:
    environment = rendering.environment()
    environment.globals["bars"] = bars
    environment.globals["status_words"] = STATUS
    environment.filters["points"] = _number
    environment.filters["words"] = words_html  # it escapes: safe
    environment.filters["rubric"] = _rubric
    environment.filters["long"] = lambda text: feedback.shown(text, 20_000, 400)
    environment.filters["message"] = lambda text: _short(str(text), MAX_MESSAGE)
    environment.filters["detail"] = lambda text: _short(str(text), MAX_DETAIL)
    return environment
