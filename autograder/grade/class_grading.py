"""A class graded, its progress shown, and what is to be known of it said."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Mapping, Sequence

from autograder import terminal
from autograder.collect import requests
from autograder.collect.submissions import Submission
from autograder.course import decisions, excused, people, teams
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade import fault_causes, pipeline, progress
from autograder.grade.outcome import Outcome
from autograder.grade.points import CellMark
from autograder.grade.suite.result import ModuleResult
from autograder.sandbox.sandbox import best_tier

MAX_NOTE = 400  # characters of a note that the terminal shows
MOST_NAMES = 8  # of students whom one cause hits


def check_sandbox(*, trusted: bool) -> None:
    """Refuse now, not in each module.

    Raises:
        SandboxUnavailable: nothing here confines submissions.
    """
    best_tier(trust_submissions=trusted)


def grade_class(
    plan: Assignment,
    submissions: Sequence[Submission],
    course: Course,
    *,
    jobs: int,
    trusted: bool = False,
    lost: Mapping[str, str] | None = None,
) -> list[Outcome]:
    """Grade submissions, and show how far it is.

    Args:
        jobs: modules at a time.
        trusted: student code runs without a sandbox.
        lost: student -> why there is no result; then nothing is graded here, and only what the
            store has counts.
    """
    if lost is None:
        check_sandbox(trusted=trusted)
    students = [submission.student for submission in submissions]
    for sentence in (*people.others_read(course), *people.doubts(course, plan.name, students)):
        _say_once(sentence)
    grader = refuse if lost is not None else pipeline.suite_grader(course, trusted=trusted)
    session = pipeline.GradingSession(plan, course, grader, jobs=jobs, trusted=trusted)
    with progress.shown() as note:
        outcomes = session.grade(submissions, note)
    for path in session.store.damaged:
        print(f"autograder: {path} was damaged; it was graded again.", file=sys.stderr)
    for outcome in outcomes:
        if lost and outcome.student in lost:
            outcome.message = f"The cluster did not grade it: {lost[outcome.student]}"
    for sentence in add_what_people_said(plan, outcomes, course):
        _say_once(sentence)
    return outcomes


def add_what_people_said(
    plan: Assignment, outcomes: Sequence[Outcome], course: Course
) -> list[str]:
    """Note in the outcomes who is excused, who asks for a regrade, and what was decided.

    Returns:
        A sentence for each request that can't be read, or is nobody's.
    """
    free = excused.of_assignment(course, plan.name)
    all_decisions = decisions.read(course, plan)
    students = people.known(course) | {outcome.student for outcome in outcomes}
    sentences = requests.strays(course, plan, students)
    team_of = teams.of_students(course, plan.name)
    for outcome in outcomes:
        outcome.excused = outcome.student in free
        members = team_of[outcome.student].members if outcome.team else (outcome.student,)
        outcome.request, faults = requests.joined(course, plan, members, outcome.request)
        sentences += [f"{outcome.student}: {fault}" for fault in faults]
        outcome.decisions = decisions.of_student(all_decisions, outcome.student)
        texts = {paragraph.name for paragraph in plan.paragraphs}  # those of the gradebook count
        marks = {
            part: CellMark(points, by_hand=True)
            for part, points in decisions.standing(plan, outcome.decisions).items()
            if part not in texts
        }
        if marks:  # the gradebook's own, where there is one, take their place
            outcome.cells = (outcome.cells or {}) | marks
    return sentences


def refuse(assignment: str, sources: pipeline.Sources, module: str) -> ModuleResult:
    """The grader where nothing is to be graded."""
    raise RuntimeError("the cluster gave no result, and nothing is graded here.")


@functools.cache
def _say_once(sentence: str) -> None:
    """What a process that grades one submission after the other says of the course."""
    terminal.say(sentence)


def ungraded(outcomes: Iterable[Outcome]) -> list[tuple[str, str, str]]:
    """(status, whose, why): a cause that hits many submissions is there once."""
    causes: dict[tuple[str, str], tuple[list[str], str]] = {}
    for outcome in outcomes:
        why = " ".join(outcome.message.split())
        key = outcome.status, fault_causes.TRIES.sub("", why)  # the first of many has its tries
        causes.setdefault(key, ([], why))[0].append(outcome.who)
    return [(status, _listed(who), why) for (status, _), (who, why) in causes.items()]


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    more = ", ..." if len(names) > MOST_NAMES else ""
    return f"{len(names)} submissions ({', '.join(names[:MOST_NAMES])}{more})"


def say_what_to_look_at(outcomes: Sequence[Outcome]) -> bool:
    """Name who was not graded, and what is odd; gives whether all were graded."""
    bad = [outcome for outcome in outcomes if outcome.status != "graded"]
    for status, who, why in ungraded(bad):
        terminal.say(who, status, why)
    for outcome in outcomes:
        for note in outcome.intake:
            terminal.say(outcome.who, note[:MAX_NOTE])
        if outcome.empty:
            notes = [note[:MAX_NOTE] for note in outcome.notes[:3]]
            terminal.say(outcome.who, " ".join([outcome.empty, *notes]))
        for flag in outcome.flags:
            terminal.say(outcome.who, "flagged", flag)
    return not bad
