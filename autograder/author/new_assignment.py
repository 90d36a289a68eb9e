"""``autograder new-assignment NAME``: a small assignment that builds, verifies and grades at once.

It is a copy of ``templates/new_assignment/{mpi,torch}``, in ``solutions/NAME``: reference and
notebook, with ``checks/``, ``hidden/`` and ``verify/``. It is made beside its place under a
temporary name, then renamed: all of it or nothing.
"""

from __future__ import annotations

import keyword
import os
from pathlib import Path

from autograder import storage
from autograder.course.assignment import NAME, AssignmentError
from autograder.course.course import Course
from autograder.gradebook.report.rendering import TEMPLATES
from ringside import output_folder

PLACEHOLDER = "a00_name"


def make(name: str, course: Course, *, torch: bool = False) -> Path:
    """Make the folder of assignment `name`; returns it.

    Raises:
        AssignmentError: the name can't be used, or something of that name is there.
        StorageError: the kit can't be written.
    """
    _check(name)
    template = TEMPLATES / "new_assignment" / ("torch" if torch else "mpi")
    target = course.solution(name)
    for folder in (target, course.release(name), target.with_suffix(".py")):
        if os.path.lexists(folder):
            raise AssignmentError(f"{folder} is there already: choose another name, or remove it.")
    other_way = f"Or work in a copy of {course.kit} (`cp -r`)."
    with (
        storage.making(target.parent, otherwise=other_way),
        output_folder.beside(target) as folder,
    ):
        _fill(folder, template, name)
        os.rename(folder, target)  # fails where somebody was faster
    return target


def _check(name: str) -> None:
    if not NAME.fullmatch(name):
        raise AssignmentError(
            f"{name!r} is no name for an assignment: it needs a letter, then lower-case letters, "
            "digits and _, at most 64 in all (like a14_prefix)."
        )
    if keyword.iskeyword(name):
        raise AssignmentError(f"{name!r} is a word of Python's, and the suites are a package.")


def _fill(folder: Path, template: Path, name: str) -> None:
    for path in sorted(template.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            copy = folder / path.relative_to(template)
            copy.parent.mkdir(exist_ok=True)
            text = path.read_text(encoding="utf-8").replace(PLACEHOLDER, name)
            copy.write_text(text, encoding="utf-8")
