"""How many points a hidden suite gives for real MPI and gloo, by its collected tests.

Where no real ranks can be started, these leave the maximum, for every submission alike: also for
one whose module is missing, and whose tests therefore don't say what they are worth.
"""

from __future__ import annotations

from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade.suite import collected

__all__ = ["KIND", "of_assignment"]

KIND = "reality"


def of_assignment(plan: Assignment, course: Course) -> dict[str, float]:
    """Module -> points of its tests on real ranks, of 100.

    Raises:
        AssignmentError: a suite can't be read.
    """
    tests = [test for test in collected.of_assignment(plan, course) if test.kind == KIND]
    return {
        module.name: sum(test.points for test in tests if test.module == module.name)
        for module in plan.modules
    }
