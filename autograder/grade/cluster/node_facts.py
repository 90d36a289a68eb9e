"""What is to be known of the machine that grades: its sandbox, its versions, which kit it has."""

from __future__ import annotations

import functools
import platform
import socket
from importlib import metadata
from typing import Any

from autograder.course import assignment as plans
from autograder.course.course import Course
from autograder.grade import cache
from autograder.sandbox.sandbox import best_tier


def key(course: Course, assignment: str) -> str:
    """A hash that two machines share if they have the same kit and the same course secret."""
    module = plans.load(assignment, course).modules[0].name
    return cache.key(assignment, module, {}, course)


@functools.cache
def versions() -> dict[str, str]:
    """Of Python and of what a grade may depend on beside the kit."""
    by_package = {"python": platform.python_version()}
    for name in ("numpy", "torch", "mpi4py", "mpich"):
        try:
            by_package[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            by_package[name] = ""
    return by_package


def this_node(assignment: str, *, trusted: bool) -> dict[str, Any]:
    """What is to be known of this machine.

    Raises:
        SandboxUnavailable: nothing can be graded on it.
    """
    course = Course.here()
    return {
        "host": socket.gethostname(),
        "sandbox": str(best_tier(trust_submissions=trusted)),
        "versions": versions(),
        "key": key(course, assignment),
        "results": str(course.results.resolve()),
    }
