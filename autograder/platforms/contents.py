"""The kit with one assignment in it: what an autograder needs, and nothing of another assignment.

    KIT/platform.json, course_secret.txt, course.toml, limits.toml      the course's rules
        ringside/ autograder/ cluster/ pyproject.toml install.py ...    what grades
        solutions/NAME/   assignment.toml, references, supplied files, hidden/
        assignments/NAME/ the release, for notebooks

Wrong and right submissions, answers and exams stay at home. The secret is the course's, so that
hidden inputs, and with them the points, are those of ``autograder grade``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autograder import storage, tables
from autograder.course import settings as course_settings
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import SETTINGS, Course
from autograder.platforms import reality_points, sizes
from autograder.platforms.settings import Settings
from autograder.tables import TableError

__all__ = ["fill", "limits_text", "settings_of"]

CODE = ("ringside", "autograder", "cluster")
FILES = (
    *("pyproject.toml", "install.py", "constraints.txt"),
    *("README.md", "LICENSE", "LICENSE-teaching"),
)
IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc", ".*", "*.egg-info", "build")
LIMITS = "limits.toml"


def settings_of(plan: Assignment, course: Course, visibility: str) -> Settings:
    """The rules as the course has them now.

    Raises:
        AssignmentError: the hidden suite, or a file of the course's, can't be read.
    """
    from autograder.course import late  # and nbgrader with it, which takes seconds

    advice = sizes.advice(plan)
    return Settings(
        assignment=plan.name,
        minutes=advice.minutes,
        memory_mb=advice.memory_mb,
        reality=reality_points.of_assignment(plan, course),
        visibility=visibility,
        late=dict(vars(late.policy_of(course))),
    )


def fill(folder: Path, plan: Assignment, course: Course, settings: Settings) -> None:
    """Write the kit with this assignment alone into an empty folder.

    Raises:
        AssignmentError: the assignment isn't built.
        OSError: it can't be written.
    """
    release = course.release(plan.name)
    if not (release / plan.notebook).is_file():
        raise AssignmentError(f"{plan.name} isn't built yet: run `autograder build {plan.name}`.")
    for name in CODE:
        shutil.copytree(course.kit / name, folder / name, ignore=IGNORED)
    for name in FILES:
        shutil.copy(course.kit / name, folder / name)
    shutil.copytree(release, folder / "assignments" / plan.name, ignore=IGNORED)
    solution = folder / "solutions" / plan.name
    shutil.copytree(course.hidden(plan.name), solution / "hidden", ignore=IGNORED)
    names = ["assignment.toml", *plan.supplied, *(module.filename for module in plan.modules)]
    for name in names:
        (solution / name).parent.mkdir(exist_ok=True)
        shutil.copy(course.solution(plan.name) / name, solution / name)
    storage.write(folder / "course_secret.txt", course.secret().encode() + b"\n", mode=0o600)
    (folder / SETTINGS).write_text(_course_text(plan, course), encoding="utf-8")
    if (course.root / LIMITS).is_file():
        text = limits_text(_limits_for(plan.name, tables.read(course.root / LIMITS)))
        (folder / LIMITS).write_text(text, encoding="utf-8")
    settings.write(folder)


def _course_text(plan: Assignment, course: Course) -> str:
    """What of ``course.toml`` is about grading this assignment."""
    try:
        rule, waived = course_settings.runs(course), course_settings.waived(course, plan.name)
    except TableError as error:
        raise AssignmentError(str(error)) from None
    lines = [f'runs = "{rule}"'] if rule else []
    due = [f"{plan.name} = {plan.due.isoformat()}"] if plan.due else []
    strict = [
        f"{plan.name}.{module}.{_quoted(test)} = {_quoted(reason)}"
        for module, tests in waived.items()
        for test, reason in tests.items()
    ]
    return "\n".join([*lines, "[due]", *due, "[waived]", *strict]) + "\n"


def _quoted(text: str) -> str:
    """A text as TOML writes it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _limits_for(name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """A course's limits, without the tables of other assignments."""
    return {
        key: value for key, value in table.items() if key == name or not isinstance(value, dict)
    }


def limits_text(table: Mapping[str, Any]) -> str:
    """A file of limits, whose values are numbers, and tables of numbers."""
    top = [f"{key} = {value!r}" for key, value in table.items() if not isinstance(value, dict)]
    for name, inside in table.items():
        if isinstance(inside, dict):
            top += [f"[{name}]", *(f"{key} = {value!r}" for key, value in inside.items())]
    return "\n".join(top) + "\n"
