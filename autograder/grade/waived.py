"""Tests that a course waived since they proved too strict: their points go to all.

    [waived]                                                      in course.toml
    a03_allreduce.ring.test_pairs = "It counted a message that the docstring allows."

A waiver is a decision on top of a stored result, so nothing is run again. A waived test earns its
points in every submission, written or not, also as part of the point of the exercise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from autograder import tables
from autograder.course import settings
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course
from autograder.grade.suite import collected
from autograder.grade.suite.collected import CollectedTest
from autograder.grade.suite.result import ModuleResult, TestResult
from autograder.tables import TableError

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
    all_tests = collected.of_assignment(plan, course)
    modules = [spec.name for spec in plan.modules]
    waivers: dict[str, dict[str, Waiver]] = {}
    for module, tests in lines.items():
        if module not in modules:
            _refuse(course, f"{plan.name} has no module {module!r}", module, modules)
        by_name = {test.name: test for test in all_tests if test.module == module}
        for name, reason in tests.items():
            if name not in by_name:
                _refuse(course, f"{module} has no test {name!r}", name, by_name)
            waivers.setdefault(module, {})[name] = (by_name[name], " ".join(reason.split()))
    return waivers


def _refuse(course: Course, what: str, name: str, names: Iterable[str]) -> NoReturn:
    raise AssignmentError(f"{course.settings}: [waived]: {what}; {tables.meant(name, names)}")


def apply(result: ModuleResult, waivers: Mapping[str, Waiver]) -> ModuleResult:
    """A module's result with its waived tests, as a new one."""
    tests = [replace(test) for test in result.tests]
    others = [test for test in tests if test.name not in waivers]
    waived_tests = [_waived(waiver, tests) for waiver in waivers.values()]
    if len(others) + len(waived_tests) > len(tests):  # the module is missing: one line for all
        others[0].points -= sum(test.points for test in waived_tests)
        tests += waived_tests
    return replace(result, tests=tests)


def _waived(waiver: Waiver, tests: Sequence[TestResult]) -> TestResult:
    """A waived test with its points, in its place among the tests where it has one."""
    about, reason = waiver
    new = TestResult(about.name, about.kind, about.points, requirement=about.requirement)
    test = next((test for test in tests if test.name == about.name), new)
    test.points = test.earned = about.points
    test.message, test.waived = f"{SENTENCE}{reason}", reason
    test.detail = test.reproduce = ""
    return test
