"""Whether the parts of an assignment name the same modules, and every suite is worth 100 points.

    assignment.toml   [[module]], the list that all else is compared with
    notebook.py       {{module X}}, {{check X}}, {{run R}}, {{paragraph P}}
    checks/           test_X.py, which gives each test its points
    hidden/           targets like "X:function"
    verify/           X.diff, X__name.py

A place that names a module which is not there would be found by a student otherwise.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from autograder.course.assignment import CHECKS, Assignment, AssignmentError
from autograder.course.course import Course
from autograder.grade.suite import collected
from autograder.grade.suite.collected import CollectedTest

__all__ = ["DIRECTIVE", "check", "faults"]

DIRECTIVE = re.compile(r"#\s*\{\{\s*(\w+)((?:\s+[\w.=]+)*)\s*\}\}")
_TARGET = re.compile(r"([a-z]\w*)(?:\.py)?:[a-z_]\w*")
_SHOWN = 6  # tests of a suite whose points are listed


def check(plan: Assignment, course: Course) -> None:
    """Refuse an assignment whose parts don't fit together.

    Raises:
        AssignmentError: each place is named, and the cure.
    """
    if sentences := faults(plan, course):
        raise AssignmentError(
            f"{plan.name} doesn't fit together:\n  " + "\n  ".join(sentences) + "\n"
            "`autograder remove ASSIGNMENT MODULE` takes a module out of all places at once; put a "
            "[[module]] that you deleted back before."
        )


def faults(plan: Assignment, course: Course) -> list[str]:
    """A sentence for each place that doesn't fit; none where there are no tests to compare.

    Raises:
        AssignmentError: a file of tests can't be read.
    """
    solution = course.solution(plan.name)
    if not (solution / CHECKS).is_dir():
        return []
    sentences = [
        f"{where} is about {module!r}, and {plan.name} has no such module."
        for where, module in _strangers(plan, solution)
    ]
    tests = () if sentences else collected.of_assignment(plan, course)
    names = {module.name for module in plan.modules}
    sentences += [
        f"{test.file}: {test.name} is about {test.module!r}, and {plan.name} has no such module."
        for test in tests
        if test.module and test.module not in names  # a test without points may name none
    ]
    return sentences or list(_wrong_sums(plan, tests))


def _strangers(plan: Assignment, solution: Path) -> Iterator[tuple[str, str]]:
    """Places that name a module by a file's name, a directive or a target, and the module."""
    names = {module.name for module in plan.modules}
    suites = solution.glob(f"{CHECKS}/test_*")
    about = {path: path.stem.removeprefix("test_") for path in suites}
    for pattern in ("verify/*.py", "verify/*.diff"):
        about |= {path: path.stem.partition("__")[0] for path in solution.glob(pattern)}
    for path, module in sorted(about.items()):
        if module not in names:
            yield path.relative_to(solution).as_posix(), module
    text = (solution / "notebook.py").read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        match = DIRECTIVE.fullmatch(line.strip())
        word = match[2].split()[0] if match and match[2].split() else ""
        if match and match[1] in ("module", "check") and word not in names:
            yield f"notebook.py:{number}: {line.strip()}", word
    files = {path.stem for path in solution.glob("*.py")}
    for path in sorted(solution.glob("hidden/*.py")):
        for number, module in targets(path.read_text(encoding="utf-8")):
            if module not in files:
                yield f"{path.relative_to(solution).as_posix()}:{number}", module


def targets(text: str) -> Iterator[tuple[int, str]]:
    """The lines of texts like "ring:all_reduce", and their modules.

    A constant at the top of a file is none: it calls nothing by itself.
    """
    tree = ast.parse(text)
    alone = {
        id(expr)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for expr in [node.value, *_unpacked(node)]
    }
    for node in ast.walk(tree):
        if id(node) in alone:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = _TARGET.fullmatch(node.value)
            if match:
                yield node.lineno, match[1]


def _unpacked(node: ast.Assign) -> list[ast.expr]:
    """What `A, B = "x:f", "y:f"` gives to its names."""
    if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
        return node.value.elts
    return []


def _wrong_sums(plan: Assignment, tests: tuple[CollectedTest, ...]) -> Iterator[str]:
    for module in plan.modules:
        mine = [test for test in tests if test.module == module.name]
        if not mine:
            yield f"{module.name}: there is no test of it, so it would earn nothing."
