"""Whom a course's lists name: a student who isn't known is said, with the nearest name.

Known are the students of the gradebook, of nbgrader's submitted tree, and those being graded. A
misspelt name in ``extensions.csv`` gives nobody more time; one in the receipts makes nobody late.
Neither stops the grading of the others.
"""

from __future__ import annotations

import difflib
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

from autograder import tables
from autograder.course import accommodations, excused, settings, teams
from autograder.course import assignment as plans
from autograder.course.assignment import AssignmentError
from autograder.course.course import Course
from autograder.tables import TableError
from ringside import course_folder

__all__ = ["doubts", "known", "others_read"]

_SHOWN = 5  # names; a whole list of another class would bury all else


def known(course: Course) -> set[str]:
    """The students of the gradebook and of the submitted tree."""
    return listed(course) | {path.parent.name for path in (course.build / "submitted").glob("*/*")}


def listed(course: Course) -> set[str]:
    """The students of the gradebook; none where there is no gradebook, or it can't be read."""
    if not course.database.is_file():
        return set()
    try:
        with closing(sqlite3.connect(f"file:{course.database}?mode=ro", uri=True)) as book:
            return {str(row[0]) for row in book.execute("SELECT id FROM student")}
    except sqlite3.Error:  # whoever needs the gradebook itself says what is wrong with it
        return set()


def doubts(course: Course, assignment: str, graded: Iterable[str]) -> list[str]:
    """What to say of names in the lists of an assignment that fit nobody; a sentence each.

    Args:
        graded: the students whose submissions are being graded.

    Raises:
        AssignmentError: a list can't be read; its line is named.
    """
    graded = set(graded)
    people = known(course) | graded
    try:
        extensions = {
            row["student"]: line
            for line, row in _rows(course.extensions, ("student", "assignment", "days"))
            if row["assignment"] == assignment
        }
        path = course.receipts(assignment)
        receipts = {row["student"]: line for line, row in _rows(path, ("student", "received"))}
        platforms = _rows(course.platform_receipts(assignment), ("student", "received"))
        by_platform = {row["student"] for _, row in platforms}
        factors = {row["student"]: line for line, row in _rows(course.accommodations, ("student",))}
        sentences = _of_accommodations(course, assignment)
    except TableError as error:
        raise AssignmentError(str(error)) from None
    free = {who: line for (who, name), line in excused.read(course).items() if name == assignment}
    sentences += _unknown(course.extensions, extensions, people, people)
    sentences += _unknown(course.excused, free, people, people)
    sentences += _unknown(course.accommodations, factors, people, people)
    arrived = teams.with_partners(course, assignment, receipts.keys() | by_platform)
    without = graded - arrived if receipts else set()
    if len(graded) > 1:
        sentences += _unknown(path, receipts, people, without or people)
    else:  # of a list for the whole class, only what may mean this student
        near = difflib.get_close_matches("".join(without), receipts.keys() - people)
        sentences += _unknown(path, {name: receipts[name] for name in near}, people, without)
    if without:
        names = ", ".join(sorted(without)[:_SHOWN]) + (", ..." if len(without) > _SHOWN else "")
        sentences.append(
            f"{path} has no line for {names}: nobody without a receipt counts as late."
        )
    return sentences


def _of_accommodations(course: Course, assignment: str) -> list[str]:
    """What keeps the factors from giving anybody time, or from being private."""
    open_list = accommodations.open_to_others(course)
    sentences = [open_list] if open_list else []
    if not accommodations.factors(course):
        return sentences
    dates = settings.released(course, tuple(plans.known(course)))
    if plans.load(assignment, course).due is not None and assignment not in dates:
        sentences.append(
            f"{course.accommodations} gives no time for {assignment}: {course.settings} says not "
            f"when it was released. Write `{assignment} = {tables.EXAMPLE}` below [released]."
        )
    return sentences


def _rows(path: Path, columns: tuple[str, ...]) -> Iterable[tuple[int, dict[str, str]]]:
    return tables.rows(path, columns) if path.is_file() else ()


def _unknown(
    path: Path, lines: Mapping[str, int], people: set[str], candidates: set[str]
) -> list[str]:
    """A sentence for each name that is nobody's; the later ones of many are counted."""
    strangers = [name for name in lines if name not in people]
    sentences = []
    for name in strangers[:_SHOWN]:
        near = difflib.get_close_matches(name, candidates, n=1)
        meant = f"did you mean {near[0]!r}?" if near else "no name here is like it."
        sentences.append(f"{path}, line {lines[name]}: no student is named {name!r}; {meant}")
    if len(strangers) > _SHOWN:
        sentences.append(f"{path}: {len(strangers) - _SHOWN} more names are no student's here.")
    return sentences


def others_read(course: Course) -> list[str]:
    """What other accounts can read of the course and its kit, where there are any."""
    shared = course_folder.shared_machine()
    return course_folder.others_read(course.root, course.kit) if shared else []
