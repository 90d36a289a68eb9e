"""What the public tests say of a submission: by the fork of a process that knows the libraries."""

from __future__ import annotations

import json
import os
from pathlib import Path

from autograder import scratch
from autograder.course.assignment import CHECKS, Assignment, AssignmentError
from autograder.course.course import Course
from autograder.grade.suite import nursery
from ringside.checking.public_tests import TestRecord
from ringside.checking.requirements import Requirements, score

TIMEOUT_S = 300.0


def percent(plan: Assignment, module: str, source: str) -> float:
    """Points of a module's public tests, of those that can run here, in percent.

    Its ranks confine themselves, as a student's do; there is no sandbox around them.

    Raises:
        AssignmentError: the tests could not be run.
    """
    solution = Course.here().solution(plan.name)
    tests = f"{CHECKS}/test_{module}.py"
    with scratch.fresh("public-") as folder:
        scratch.lay(plan.supplied, solution, folder)
        (folder / f"{module}.py").write_text(source, encoding="utf-8")
        record = folder / "record.json"
        argv = ["-p", "ringside.checking.pytest_plugin", "-q", "-c", os.devnull]
        argv += [f"--rootdir={folder}", "-p", "no:cacheprovider", f"--ringside-modules={module}"]
        argv += [f"--ringside-record={record}", str(folder / tests)]
        output = nursery.run(argv, folder, TIMEOUT_S)
        return _percent(record, module, output)


def _percent(record: Path, module: str, said: str) -> float:
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        sentence = f"the public tests of {module} left no record: {said[-800:]}"
        raise AssignmentError(sentence) from None
    tests = [TestRecord(**test) for test in found["tests"]]
    possible = sum(test.points for test in tests)
    earned = score(Requirements.from_json(found["requirements"][module]), tests)
    return round(100 * earned / possible, 2) if possible else 0.0
