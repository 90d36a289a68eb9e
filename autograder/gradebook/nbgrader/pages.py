"""Pages for students and graders: ours in the place of nbgrader's, and names as text."""

from __future__ import annotations

import html
from typing import Any, cast

from nbconvert.exporters import Exporter
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode
from nbgrader.api import Gradebook

from autograder.course import assignment as plans
from autograder.course import decisions, excused, late, teams
from autograder.course.course import Course
from autograder.gradebook.nbgrader import grades, settled
from autograder.gradebook.nbgrader.outdated import PagesNow, clear_unfinished, grade_stamp
from autograder.gradebook.nbgrader.results import MARK, outcome_of
from autograder.gradebook.report import feedback, rendering


class EscapeNames(Preprocessor):
    """Escapes names for nbgrader's formgrader, which writes them into its page as they are."""

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        for name in ("student", "first_name", "last_name"):
            if resources.get(name):
                resources[name] = html.escape(str(resources[name]))
        return nb, resources


class FeedbackExporter(Exporter):
    """Our page in the place of nbgrader's, which shows what students wrote unsanitised."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)  # type: ignore[no-untyped-call]
        if hasattr(self.parent, "assignments"):
            where = cast(Any, self.parent).coursedir
            course = Course.of_root(where.root)
            settled.settle(course, [str(where.assignment_id)])
            pages = PagesNow(course)
            clear_unfinished(self, pages.why_not)

    def _file_extension_default(self) -> str:
        return ".html"

    def from_notebook_node(
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[Any, dict[str, Any]]:
        # The preprocessors (GetGrades) bring scores and comments that people gave.
        nb, resources = super().from_notebook_node(nb, resources, **kw)
        course = Course.of_root(cast(Any, self.parent).coursedir.root)
        plan = plans.load(nb.metadata[MARK]["assignment"], course)
        totals = resources["nbgrader"]
        outcome = outcome_of(nb)
        with Gradebook(totals["db_url"]) as book:
            outcome.cells = grades.cell_marks(book, plan, outcome.student) or {}
            all_decisions = decisions.read(course, plan)
            outcome.decisions = decisions.of_student(all_decisions, outcome.student)
            outcome.excused = outcome.student in excused.of_assignment(course, plan.name)
            team = teams.of_students(course, plan.name).get(outcome.student)
            outcome.team = team.name if team else ""
            dates = late.calendar(course, book)
            account = late.account(course, outcome.student, dates=dates).get(plan.name)
            stamp = grade_stamp(book, course, plan, outcome.student, account)
        outcome.late_seconds = account.late_s if account else 0.0
        page = feedback.page_of(
            plan,
            outcome,
            cells=feedback.graded_cells(
                nb, {name for name, cell in outcome.cells.items() if cell.waits}
            ),
            totals=feedback.Totals(
                score=totals["score"],
                max_score=totals["max_score"],
                late_penalty=totals["late_penalty"],
                late=account.sentence if account else "",
            ),
            stamp=stamp,
        )
        return rendering.render(page), resources
