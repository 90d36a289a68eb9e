"""Whose submissions lie under a path: decided by the layout that the instructor named.

    layout       PATH is                                who hands in
    submission   one student's folder or file           the student it is named after
    class        a folder with those of many            each folder, notebook and archive in it
    submitted    nbgrader's tree SUBMITTED              each <student> with an <assignment> in it
    download     a platform's, as it comes              ``autograder.platforms.downloads`` says

Inside a submission nobody is looked for: what a student calls folders and files there can neither
add a student nor hide one. Where no layout is named, the names at the top of a path tell, and
where they could mean two, that is an error:

    FOLDER/ring.py, FOLDER/NAME.ipynb         one submission
    FOLDER named `submitted`                  nbgrader's tree
    FOLDER/ada/, FOLDER/bob.zip, ...          a class
    several PATHs, one of them a folder       each folder is a submission
      with a submission at its top
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from autograder.collect.own_folder import (
    has_modules,
    has_something,
    home,
    is_open,
    is_own,
    packages_in,
)
from autograder.collect.quarantine import Rejected
from autograder.course.assignment import Assignment

Layout = Literal["submission", "class", "submitted", "download"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
TREE = "submitted"  # nbgrader's name for the folder of its tree
# What students upload instead of a zip: told with its student, and read by nobody.
_OTHER_FILES = (".py", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar")
_MOST_LISTED = 4


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
    team: str = ""  # that it is of
    notes: tuple[str, ...] = ()  # for the student, and nothing to look at


def find(
    assignment: Assignment, paths: Iterable[Path], layout: Layout | None = None
) -> list[Submission]:
    """The submissions under `paths`, in the order given.

    Args:
        layout: of all paths; None: the names at the top of each path tell.

    Raises:
        PathError: a path isn't there, could be read in two ways, or two submissions have one name.
    """
    paths = list(paths)
    layouts = [layout] * len(paths) if layout else layouts_of(assignment, paths)
    submissions: list[Submission] = []
    for path, path_layout in zip(paths, layouts, strict=True):
        submissions += find_at(assignment, path, path_layout)
    check_names(submissions)
    return submissions


def check_names(found: Iterable[Submission]) -> None:
    """Refuse two submissions of one student: nobody says which counts.

    Raises:
        PathError: there are some; their students are named.
    """
    counts = Counter(submission.student for submission in found)
    if twice := sorted(name for name, count in counts.items() if count > 1):
        raise PathError(f"More than one submission is named {', '.join(twice)}.")


def layouts_of(assignment: Assignment, paths: Sequence[Path]) -> list[Layout]:
    """The layout of each path, by the names at its top.

    Raises:
        PathError: a path isn't there, or could be read in two ways.
    """
    single = [_is_one(assignment, path) for path in paths]
    if len(paths) > 1 and any(
        one and path.is_dir() for one, path in zip(single, paths, strict=True)
    ):
        return ["submission"] * len(paths)
    if len(paths) == 1 and single[0]:
        _refuse_two_ways(assignment, paths[0])
    return [
        "submission" if one else "submitted" if path.resolve().name == TREE else "class"
        for one, path in zip(single, paths, strict=True)
    ]


def _is_one(assignment: Assignment, path: Path) -> bool:
    """Whether a path that stands alone is one student's."""
    if not os.path.lexists(path):
        raise PathError(f"{path} does not exist.")
    if not path.is_dir() or path.is_symlink() or not is_open(path):
        return True
    path = path.resolve()
    if path.name == TREE:
        return False
    if _is_of_tree(assignment, path):
        return True
    if has_modules(assignment, path) or os.path.lexists(path / assignment.notebook):
        return True
    folders = _children(path)
    if any(_holds_one(assignment, child) or not is_open(child) for child in folders):
        return False
    packages = packages_in(path)
    tree = any(os.path.lexists(child / assignment.name) for child in folders)
    return not tree and len(packages) <= 1 and not (folders and not packages)


def _is_of_tree(assignment: Assignment, path: Path) -> bool:
    """Whether a folder is a submission in nbgrader's tree: SUBMITTED/<student>/<assignment>."""
    return path.name == assignment.name and path.parent.parent.name == TREE


def _refuse_two_ways(assignment: Assignment, path: Path) -> None:
    """One student's files at the top, and other students' beside them?"""
    if not path.is_dir() or not is_open(path) or _is_of_tree(assignment, path.resolve()):
        return
    of_handin = {assignment.notebook, f"{assignment.name}.zip", f"{path.name}.zip"}
    others = [child.name for child in packages_in(path) if child.name not in of_handin]
    others += [f"{child.name}/" for child in _children(path) if has_something(assignment, child)]
    if len(others) > 1:
        more = ", ..." if len(others) > _MOST_LISTED else ""
        raise PathError(
            f"{path} holds files of a submission, and {', '.join(others[:_MOST_LISTED])}{more}: "
            "it could be one student's or a class's. Say which: --layout submission, or "
            "--layout class."
        )


def find_at(assignment: Assignment, path: Path, layout: Layout) -> list[Submission]:
    """The submissions under one path of this layout."""
    if not os.path.lexists(path):
        raise PathError(f"{path} does not exist.")
    if layout == "download":
        raise PathError(f"{path} is no download of Canvas, Moodle or Gradescope.")
    if layout == "submission":
        return [_one(assignment, path)]
    if not path.is_dir():
        raise PathError(f"{path} is no folder, and so no {layout} layout.")
    path = path.resolve()
    submissions = _of_tree(assignment, path) if layout == "submitted" else _of_class(path)
    if not submissions or (layout == "class" and not _anything(assignment, submissions)):
        raise PathError(f"There is no submission of {assignment.name} under {path}.")
    return submissions


def _one(assignment: Assignment, path: Path) -> Submission:
    """One student's folder or file, named after the student; so is nbgrader's folder above it."""
    if not path.is_dir() or path.is_symlink():
        if path.suffix not in (".ipynb", ".zip"):
            raise PathError(f"{path} is neither a folder nor a notebook nor a zip archive.")
        of_tree = path.stem == path.parent.name == assignment.name
        return Submission(path.parent.parent.name if of_tree else path.stem, path)
    path = path.resolve()
    return Submission(path.parent.name if path.name == assignment.name else path.name, path)


def _of_tree(assignment: Assignment, path: Path) -> list[Submission]:
    """nbgrader's tree: whoever has no folder of the assignment has handed in nothing."""
    submissions, shut = [], []
    for child in _children(path):
        folder = child / assignment.name
        if not is_open(child):
            shut.append(Submission(child.name, child))
        elif os.path.lexists(folder):
            plain = folder.is_dir() and not folder.is_symlink()
            submissions.append(
                Submission(child.name, folder, rejected="" if plain else _no_folder(folder))
            )
    return submissions + shut


def _of_class(path: Path) -> list[Submission]:
    """A folder of many: each folder and file is a student's, whatever is in it."""
    packages, folders = [], []
    for child in sorted(path.iterdir()):
        if not is_own(child.name):
            continue
        if child.is_symlink():
            folders.append(Submission(child.name, child, rejected=_no_folder(child)))
        elif child.is_dir():
            folders.append(Submission(child.name, child))
        elif child.suffix in (".ipynb", ".zip"):
            packages.append(Submission(child.stem, child))
        elif child.suffix in _OTHER_FILES:
            why = f"{child.name} is neither a folder nor a notebook nor a zip archive."
            packages.append(Submission(child.stem, child, rejected=why))
    return packages + folders


def _holds_one(assignment: Assignment, folder: Path) -> bool:
    """Whether a submission stands in a folder, or in the one folder inside that could hold it."""
    try:
        return has_something(assignment, home(assignment, folder))
    except Rejected:
        return False


def _anything(assignment: Assignment, found: Iterable[Submission]) -> bool:
    """Whether some of a class have handed in the assignment: else it is another's folder."""
    return any(
        not submission.path.is_dir()
        or not is_open(submission.path)
        or _holds_one(assignment, submission.path)
        for submission in found
    )


def _no_folder(path: Path) -> str:
    what = "a symbolic link" if path.is_symlink() else "a file"
    return f"{path.name} is {what} and no folder of a submission: it is not read."


def _children(path: Path) -> list[Path]:
    return [
        child
        for child in sorted(path.iterdir())
        if is_own(child.name) and child.is_dir() and not child.is_symlink()
    ]
