"""Where submissions lie: what a path given to ``autograder grade`` stands for.

A path is one of

    FOLDER/ring.py ...                   a folder of modules, a submission named after it
    NAME.ipynb, FOLDER/*.ipynb           a notebook; several in a folder are a submission each
    NAME.zip, FOLDER/*.zip               either of these, packed: what `ringside handin` makes
    FOLDER/<student>/                    any of these in a folder for each student
    SUBMITTED/<student>/<assignment>/    nbgrader's tree, a submission each

What Canvas, Moodle and Gradescope give for a class is unpacked into such folders first
(``autograder.intake.downloads``). In a submission's own folder the notebook counts, then the
modules, then the one archive; modules also count where their notebook is damaged.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autograder import storage
from autograder.course.assignment import Assignment
from autograder.submission.quarantine import Rejected, read_regular

PLACEHOLDER = b"""{"cells": [], "metadata": {"ringside": "handed in as files, which count"},
 "nbformat": 4, "nbformat_minor": 5}
"""


class PathError(ValueError):
    """A path in which there is nothing to grade."""


@dataclass(frozen=True)
class Submission:
    """One student's hand-in, found but not read."""

    student: str
    path: Path  # its own folder; or a notebook or an archive beside those of others
    name: str = ""  # for a reader, where a platform knows the student by a number
    email: str = ""
    intake: tuple[str, ...] = ()  # what was taken of a download, where it isn't plain
    rejected: str = ""  # why nothing of it was


def find(assignment: Assignment, paths: Iterable[Path]) -> list[Submission]:
    """The submissions under `paths`, in the order given.

    Raises:
        PathError: a path isn't there, or two submissions have one name.
    """
    found: list[Submission] = []
    for path in paths:
        found += find_at(assignment, path)
    check_names(found)
    return found


def check_names(found: Iterable[Submission]) -> None:
    """Refuse two submissions of one student: nobody says which counts.

    Raises:
        PathError: there are some; their students are named.
    """
    counts = Counter(submission.student for submission in found)
    if twice := sorted(name for name, count in counts.items() if count > 1):
        raise PathError(f"More than one submission is named {', '.join(twice)}.")


def find_at(assignment: Assignment, path: Path) -> list[Submission]:
    if not os.path.lexists(path):
        raise PathError(f"{path} does not exist.")
    if not path.is_dir() or path.is_symlink():
        if path.suffix not in (".ipynb", ".zip"):
            raise PathError(f"{path} is neither a folder nor a notebook nor a zip archive.")
        in_tree = path.parent.name == assignment.name
        return [Submission(path.parent.parent.name if in_tree else path.stem, path)]
    path = path.resolve()
    if path.name == assignment.name:
        return [Submission(path.parent.name, path)]
    if not _is_open(path):
        return [Submission(path.name, path)]
    if _has_modules(assignment, path) or os.path.lexists(path / assignment.notebook):
        return [Submission(path.name, path)]
    students = [
        child
        for child in sorted(path.iterdir())
        if child.is_dir() and not child.is_symlink() and child.name[0] not in "._"
    ]
    shut = [Submission(child.name, child) for child in students if not _is_open(child)]
    students = [child for child in students if _is_open(child)]
    tree = [child / assignment.name for child in students if (child / assignment.name).is_dir()]
    if tree:
        return [Submission(each.parent.name, each) for each in tree] + shut
    folders = [
        Submission(child.name, child)
        for child in students
        if _has_modules(assignment, child) or what_counts(assignment, child) != child
    ]
    packages = packages_in(path)
    if students and not folders and not packages and not shut:
        raise PathError(f"There is no submission of {assignment.name} under {path}.")
    if folders or shut or len(packages) > 1:
        return [Submission(each.stem, each) for each in packages] + folders + shut
    return [Submission(path.name, path)]


def _is_open(folder: Path) -> bool:
    """Whether we may look inside; what is shut is told with its student, and stops nobody else."""
    return os.access(folder, os.R_OK | os.X_OK)


def _has_modules(assignment: Assignment, folder: Path) -> bool:
    return any(os.path.lexists(folder / module.filename) for module in assignment.modules)


def what_counts(assignment: Assignment, folder: Path) -> Path:
    """What of a submission's folder is read: its notebook, else its modules, else one archive."""
    if not _is_open(folder):
        return folder
    if notebook := _notebook_in(assignment, folder):
        return notebook
    packages = [] if _has_modules(assignment, folder) else packages_in(folder)
    return packages[0] if len(packages) == 1 else folder


def packages_in(folder: Path) -> list[Path]:
    """The notebooks and archives in a folder."""
    found = sorted(each for each in folder.iterdir() if each.suffix in (".ipynb", ".zip"))
    return [each for each in found if each.suffix == ".zip" or not is_placeholder(each)]


def _notebook_in(assignment: Assignment, folder: Path) -> Path | None:
    """The assignment's notebook in `folder`; a single one under another name counts."""
    found = [each for each in packages_in(folder) if each.suffix == ".ipynb"]
    planned = folder / assignment.notebook
    return planned if planned in found else found[0] if len(found) == 1 else None


def is_placeholder(notebook: Path) -> bool:
    """Whether a file is ours, and stands for a notebook that was not handed in."""
    try:
        return read_regular(notebook, len(PLACEHOLDER)) == PLACEHOLDER
    except Rejected:
        return False


def hold_place(assignment: Assignment, folder: Path) -> None:
    """Let nbgrader see a submission without a notebook: it passes over a folder that has none."""
    place = folder / assignment.notebook
    if os.path.lexists(place) or not _is_open(folder):
        return
    if _has_modules(assignment, folder) or what_counts(assignment, folder) != folder:
        storage.write(place, PLACEHOLDER)
