"""What counts of all that lies in one submission's own folder.

    the notebook        by its planned name, or the only one
    else the modules    by their planned names
    else the archive    the only one

If none of these is at the top, and one folder is all that could hold them, we look there: a tool
has wrapped it round everything, or nbgrader's folder ``<assignment>`` lies in the student's.
"""

from __future__ import annotations

import os
from pathlib import Path

from autograder import storage
from autograder.collect.quarantine import Rejected, read_regular
from autograder.course.assignment import Assignment

PLACEHOLDER = b"""{"cells": [], "metadata": {"ringside": "handed in as files, which count"},
 "nbformat": 4, "nbformat_minor": 5}
"""
MADE_BY_TOOLS = ("__MACOSX", "__pycache__")


def is_open(folder: Path) -> bool:
    """Whether we may look inside; what is shut is told with its student, and stops nobody else."""
    return os.access(folder, os.R_OK | os.X_OK)


def is_own(name: str) -> bool:
    """Whether a person made the file or folder of this name."""
    return not name.startswith(".") and name not in MADE_BY_TOOLS


def has_modules(assignment: Assignment, folder: Path) -> bool:
    return any(os.path.lexists(folder / module.filename) for module in assignment.modules)


def has_something(assignment: Assignment, folder: Path) -> bool:
    """Whether a submission stands at the top of a folder."""
    return has_modules(assignment, folder) or what_counts(assignment, folder) != folder


def what_counts(assignment: Assignment, folder: Path) -> Path:
    """What of a submission's folder is read: its notebook, else its modules, else one archive."""
    if not is_open(folder):
        return folder
    if notebook := _notebook_in(assignment, folder):
        return notebook
    packages = [] if has_modules(assignment, folder) else packages_in(folder)
    return packages[0] if len(packages) == 1 else folder


def home(assignment: Assignment, folder: Path) -> Path:
    """The folder of a submission's files: `folder`, or the one inside that holds them.

    Raises:
        Rejected: several things could be meant, or nothing can be found; the message lists them.
    """
    for _ in range(assignment.limits.submission_depth):
        if not is_open(folder) or has_something(assignment, folder):
            return folder
        folders = _folders_in(folder)
        planned = [path for path in folders if path.name == assignment.name]
        others = [path.name for path in packages_in(folder)]
        inside = planned or ([] if others else folders)
        if len(inside) != 1:
            break
        folder = inside[0]
    else:
        folders, others = [folder], []
    if not folders and len(others) < 2:  # a folder without a module is a submission of none
        return folder
    names = [*others, *(f"{path.name}/" for path in folders)]
    raise Rejected(
        f"It isn't plain what is handed in: {assignment.notebook}, a module or one archive is "
        f"looked for, and there {'is' if len(names) == 1 else 'are'} {_listed(names)}."
    )


def _listed(names: list[str], most: int = 5) -> str:
    labels = [name if len(name) <= 60 else f"{name[:60]}..." for name in names[:most]]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(labels) + more


def _folders_in(folder: Path) -> list[Path]:
    return [
        path
        for path in sorted(folder.iterdir())
        if is_own(path.name) and path.is_dir() and not path.is_symlink()
    ]


def packages_in(folder: Path) -> list[Path]:
    """The notebooks and archives in a folder."""
    paths = sorted(path for path in folder.iterdir() if path.suffix in (".ipynb", ".zip"))
    return [path for path in paths if path.suffix == ".zip" or not is_placeholder(path)]


def _notebook_in(assignment: Assignment, folder: Path) -> Path | None:
    """The assignment's notebook in `folder`; a single one under another name counts."""
    notebooks = [path for path in packages_in(folder) if path.suffix == ".ipynb"]
    planned = folder / assignment.notebook
    return planned if planned in notebooks else notebooks[0] if len(notebooks) == 1 else None


def is_placeholder(notebook: Path) -> bool:
    """Whether a file is ours, and stands for a notebook that was not handed in."""
    try:
        return read_regular(notebook, len(PLACEHOLDER)) == PLACEHOLDER
    except Rejected:
        return False


def hold_place(assignment: Assignment, folder: Path) -> None:
    """Let nbgrader see a submission without a notebook: it passes over a folder that has none."""
    path = folder / assignment.notebook
    if is_open(folder) and not os.path.lexists(path):
        storage.write(path, PLACEHOLDER)
