"""Tests that a course waived since they proved too strict: their points go to all.

    [waived]                                                      in course.toml
    a03_allreduce.ring.test_pairs = "It counted a message that the docstring allows."

A waiver is a decision on top of a stored result, so nothing is run again. A waived test earns its
points in every submission, written or not, and holds nobody to anything: where it is the point of
the exercise, others count in full without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from autograder import tables
from autograder.course import settings
from autograder.course.assignment import SUITE_POINTS, Assignment, AssignmentError
from autograder.course.course import Course
from autograder.grade.suite import collected
from autograder.grade.suite.collected import CollectedTest
from autograder.grade.suite.job import TestRecord
from autograder.tables import TableError
from ringside.checking.essential import hold_to_the_essential

__all__ = ["Waivers", "apply", "of_assignment"]

SENTENCE = "Waived: its points go to all. "

Waiver = tuple[CollectedTest, str]  # and the reason
Waivers = Mapping[str, Mapping[str, Waiver]]  # module -> name of the test


def of_assignment(plan: Assignment, course: Course) -> Waivers:
    """What the course waived of an assignment.

    Raises:
        AssignmentError: course.toml names no module or no test of it.
    """
    try:
        lines = settings.waived(course, plan.name)
    except TableError as error:
        raise AssignmentError(str(error)) from None
    if not lines:
        return {}
    hidden = [test for test in collected.of_assignment(plan, course) if test.is_hidden]
    modules = [spec.name for spec in plan.modules]
    found: dict[str, dict[str, Waiver]] = {}
    for module, tests in lines.items():
        if module not in modules:
            _refuse(course, f"{plan.name} has no module {module!r}", module, modules)
        there = {test.name: test for test in hidden if test.module == module}
        for name, reason in tests.items():
            if name not in there:
                _refuse(course, f"{module} has no test {name!r}", name, there)
            found.setdefault(module, {})[name] = (there[name], " ".join(reason.split()))
    return found


def _refuse(course: Course, what: str, word: str, known: Iterable[str]) -> NoReturn:
    raise AssignmentError(f"{course.settings}: [waived]: {what}; {tables.meant(word, known)}")


def apply(result: Mapping[str, Any], waived: Mapping[str, Waiver]) -> dict[str, Any]:
    """A module's result with its waived tests, as a new one."""
    tests = [dict(test) for test in result.get("tests", [])]
    for test in tests:  # as they were before the essential one was asked
        test["earned"] = test.get("uncut", test["earned"])
        test["message"] = test.get("uncut_message", test.get("message", ""))
    others = [test for test in tests if test["name"] not in waived]
    given = [_given(each, tests) for each in waived.values()]
    if len(others) + len(given) > len(tests):  # the module is missing: one line for all its tests
        others[0]["points"] -= sum(test["points"] for test in given)
        tests += given
    _hold(others)
    earned = sum(test["earned"] for test in tests)
    return {**result, "tests": tests, "score": round(min(earned, SUITE_POINTS), 4)}


def _given(waiver: Waiver, tests: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A waived test with its points, in its place among the tests where it has one."""
    about, reason = waiver
    fresh = {"name": about.name, "kind": about.kind, "seconds": 0.0}
    test = next((test for test in tests if test["name"] == about.name), fresh)
    test |= {"points": about.points, "earned": about.points, "detail": "", "reproduce": ""}
    test |= {"message": f"{SENTENCE}{reason}", "waived": reason}
    return test


def _hold(tests: Sequence[dict[str, Any]]) -> None:
    """Cut what they earned, where one of them is the point of the exercise and fails."""
    records = [
        TestRecord(
            test["name"],
            test.get("kind", ""),
            test["points"],
            test["earned"],
            test["message"],
            essential=bool(test.get("essential")),
        )
        for test in tests
    ]
    hold_to_the_essential(records)
    for test, record in zip(tests, records, strict=True):
        test |= {"earned": record.earned, "message": record.message}
