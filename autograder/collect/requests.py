"""What a student writes to have something looked at again: a text, quarantined like all of theirs.

regrade.txt                                      beside what was handed in
build/requests/<assignment>/<student>.txt        as a person put it there; both may be
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from autograder import file_names
from autograder.collect.quarantine import Rejected, read_regular
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from ringside.course.handin.handin import MOST_REQUEST_BYTES, REQUEST

__all__ = ["handed_in", "joined", "strays"]


def handed_in(folder: Path | None) -> tuple[str, str]:
    """The request in a submission's own folder, and a sentence where it can't be read."""
    if folder is None or not os.path.lexists(folder / REQUEST):
        return "", ""
    return _read(folder / REQUEST)


def joined(
    course: Course, plan: Assignment, members: Iterable[str], text: str
) -> tuple[str, list[str]]:
    """All that those who handed in together ask for, and what of it can't be read.

    Args:
        members: of the team; or one student.
        text: what came with the submission.
    """
    folder = course.requests(plan.name)
    texts, faults = [text], []
    for student in members:
        for name in _names(student):
            if os.path.lexists(folder / name):
                read, fault = _read(folder / name)
                texts.append(read)
                faults += [fault] if fault else []
    return "\n\n".join(dict.fromkeys(filter(None, texts))), faults


def strays(course: Course, plan: Assignment, students: Iterable[str]) -> list[str]:
    """A sentence for each request that is nobody's."""
    names = {name for student in students for name in _names(student)}
    folder = course.requests(plan.name)
    if not folder.is_dir():
        return []
    return [
        f"{path} asks for a regrade, and no student here is called so."
        for path in sorted(folder.iterdir())
        if not path.name.startswith(".") and path.name not in names
    ]


def _names(student: str) -> list[str]:
    """What the file of a student may be called; a name with a slash only as it is escaped."""
    plain = "" if "/" in student or student.startswith(".") else f"{student}.txt"
    return [name for name in dict.fromkeys((f"{file_names.of(student)}.txt", plain)) if name]


def _read(path: Path) -> tuple[str, str]:
    try:
        text = read_regular(path, MOST_REQUEST_BYTES).decode("utf-8", "replace").strip()
    except Rejected as error:
        return "", f"The request for a regrade can't be read: {error}"
    return text, ""
