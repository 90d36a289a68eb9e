"""``autograder decide``: what a person decided of a grade, kept with who, when and why.

build/decisions/<assignment>.csv  <-  a line for each member of the team
the gradebook                     <-  the points, where it has the submission
pages of feedback                 <-  made anew, where there are any
"""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autograder.collect import requests
from autograder.course import decisions, nbgrader_steps, people, teams
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course
from autograder.course.decisions import Decision
from autograder.gradebook.nbgrader import csv_export, grades, settled
from autograder.tables import TableError

__all__ = ["Decided", "decide"]

MOST_WORDS = 2_000  # characters of a reason


@dataclass(frozen=True)
class Decided:
    """What came of a decision."""

    path: Path  # of the list
    students: tuple[str, ...]  # all members of the team
    in_gradebook: tuple[str, ...]
    renewed: tuple[str, ...]  # whose pages of feedback were made anew
    marks: tuple[str, ...]  # a line for each member of whom the gradebook has a submission
    named: tuple[str, ...]  # other students whose name stands in the reason


def decide(
    plan: Assignment,
    course: Course,
    student: str,
    part: str,
    points: float | None,
    *,
    why: str,
    by: str,
    request: str = "",
) -> Decided:
    """Keep a decision and let it take effect.

    Args:
        part: a module, a run, a text or `decisions.ALL`; empty: nothing changes.
        points: None: those that the tests gave, where an earlier decision gave others.
        request: the id of the request that it answers, as the report gives it; empty: the one
            that lies in the course.

    Raises:
        AssignmentError: nobody is called so, there is no such part, or no reason.
    """
    why = " ".join(why.split())
    if not 1 <= len(why) <= MOST_WORDS:
        raise AssignmentError(f"--why says why in 1 to {MOST_WORDS} characters; it has {len(why)}.")
    try:
        decisions.check(plan, part, points, "autograder decide")
    except TableError as error:
        raise AssignmentError(str(error)) from None
    students = people.known(course) | teams.of_students(course, plan.name).keys()
    if students and student not in students:
        near = difflib.get_close_matches(student, students, n=1)
        meant = f"did you mean {near[0]!r}?" if near else "no name here is like it."
        raise AssignmentError(f"No student is named {student!r}; {meant}")
    before = decisions.read(course, plan)
    members = sorted(teams.with_partners(course, plan.name, [student]))
    if (
        points is None
        and part
        and not any(
            each.part == part and each.points is not None
            for each in decisions.of_student(before, student)
        )
    ):
        raise AssignmentError(
            f"No points were decided for {student}'s {part}, so none can be taken back: give "
            "--points, or name no module."
        )
    when = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    answers = request or decisions.request_id(_request(course, plan, members))
    path = decisions.add(
        course,
        plan,
        [Decision(each, part, points, by, when, why, answers) for each in members],
    )
    settled.settle(course, [plan.name])
    there = grades.in_gradebook(course, plan, members)
    renewed = [each for each in there if course.feedback(each, plan.name).is_dir()]
    for each in renewed:
        nbgrader_steps.generate_feedback(course, plan.name, each)
    others = students - set(members)
    mentions = tuple(sorted(n for n in others if re.search(rf"\b{re.escape(n)}\b", why)))
    marks = [_mark(row) for row in csv_export.finished(course, [plan.name])
             if row["student"] in there]  # fmt: skip
    return Decided(path, tuple(members), tuple(there), tuple(renewed), tuple(marks), mentions)


def _mark(row: Mapping[str, object]) -> str:
    """What a student has now, of a row of nbgrader's export."""
    if row["score"] == "":
        return f"{row['student']}: no mark yet: {row['missing'] or (row['excused'] and 'excused')}."
    late = f", of {row['raw_score']:g} before lateness" if row["late_penalty"] else ""
    return f"{row['student']}: {row['score']:g} of {row['max_score']:g} points{late}."


def _request(course: Course, plan: Assignment, members: list[str]) -> str:
    """What those who handed in together ask for, as far as it lies in the course."""
    of_team = teams.of_students(course, plan.name).get(members[0])
    handed_in = (requests.handed_in(course.submitted(member, plan.name))[0] for member in members)
    first = next(filter(None, handed_in), "")
    listed = of_team.members if of_team else tuple(members)
    return requests.joined(course, plan, listed, first)[0]
