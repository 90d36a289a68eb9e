"""What waits for a person: texts, runs, requests for a regrade; and the rubric for the texts.

The rubric and the sample of a text are the section of ``solutions/<assignment>/answers.md`` whose
heading names it in backticks: ``## Rubric: Predicted and measured (`cluster_report`, 5 points)``.
A team's work is in the list once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from autograder.course import decisions
from autograder.course.assignment import Assignment, ParagraphSpec
from autograder.course.course import Course
from autograder.course.decisions import Decision
from autograder.grade.outcome import Outcome

__all__ = ["ByHand", "Request", "WaitingText", "of_class", "rubric"]


@dataclass(frozen=True)
class WaitingText:
    """A text of the assignment, and whose of it nobody has graded."""

    paragraph: ParagraphSpec
    rubric: str  # Markdown; empty where there is none
    waiting: tuple[tuple[str, str], ...]  # student (the first of a team), what was written
    done: int

    @property
    def sentence(self) -> str:
        number = len(self.waiting)
        texts = "1 text waits" if number == 1 else f"{number} texts wait"
        return (
            f"{self.paragraph.title}: {texts}, {self.done} graded; {self.paragraph.points:g} points"
        )


@dataclass(frozen=True)
class Request:
    """What a student, or a team, wants to have looked at again."""

    student: str
    team: str
    text: str
    id: str

    def command(self, plan: Assignment) -> str:
        """What is typed to answer it."""
        return (
            f"autograder decide {plan.name} {self.student} MODULE --points N --why TEXT "
            f"--request {self.id}"
        )


@dataclass(frozen=True)
class ByHand:
    """All that a person is still to do."""

    texts: tuple[WaitingText, ...] = ()
    runs: tuple[tuple[str, tuple[str, ...]], ...] = ()  # a run, and whose
    requests: tuple[Request, ...] = ()
    decided: tuple[str, ...] = ()  # what was decided, and by whom; the newest first

    @property
    def is_empty(self) -> bool:
        return not (self.requests or self.runs or any(text.waiting for text in self.texts))


def of_class(plan: Assignment, outcomes: Sequence[Outcome], course: Course) -> ByHand:
    """What waits in a class; who is excused waits for nothing."""
    works = list({each.author: each for each in reversed(outcomes) if not each.excused}.values())
    works.reverse()
    read = [each for each in works if each.status == "graded"]
    return ByHand(
        texts=tuple(_text(plan, each, read, course) for each in plan.paragraphs),
        runs=tuple(
            (part.name, who)
            for part in plan.runs
            if (who := tuple(e.student for e in read if e.account(plan).part(part.name).waits))
        ),
        requests=tuple(
            Request(each.student, each.team, each.request, decisions.request_id(each.request))
            for each in works
            if each.request and not decisions.answered(each.decisions, each.request)
        ),
        decided=tuple(_decided(outcomes)),
    )


def _decided(outcomes: Iterable[Outcome]) -> list[str]:
    """The decisions, the newest first; one on a team is one."""
    students: dict[Decision, list[str]] = {}
    for outcome in outcomes:
        for each in outcome.decisions:
            students.setdefault(replace(each, student=""), []).append(outcome.student)
    by_date = sorted(students, key=lambda each: each.when, reverse=True)
    return [
        f"{', '.join(students[each])}: {each.sentence} ({each.by or 'nobody said by whom'})"
        for each in by_date
    ]


def _text(
    plan: Assignment, paragraph: ParagraphSpec, read: Sequence[Outcome], course: Course
) -> WaitingText:
    waiting = tuple(
        (outcome.student, outcome.texts.get(paragraph.name, ""))
        for outcome in read
        if _waits(plan, outcome, paragraph.name)
    )
    return WaitingText(
        paragraph, rubric(course, plan, paragraph.name), waiting, len(read) - len(waiting)
    )


def _waits(plan: Assignment, outcome: Outcome, text: str) -> bool:
    cell = (outcome.cells or {}).get(text)
    return outcome.account(plan).part(text).points is None or (cell is not None and cell.waits)


def rubric(course: Course, plan: Assignment, name: str) -> str:
    """The section of the assignment's answers on one text; empty where there is none."""
    path = course.solution(plan.name) / "answers.md"
    if not path.is_file():
        return ""
    sections = re.split(r"^(?=## )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return next(
        (section.strip() for section in sections if f"`{name}`" in section.split("\n")[0]), ""
    )
