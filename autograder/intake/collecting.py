"""``autograder collect ASSIGNMENT DOWNLOAD``: a platform's download, put where nbgrader looks.

    build/submitted/<student>/<assignment>/    the student's files, an archive unpacked
    build/replaced/<student>/<assignment>-1/   what lay there before, where it was another one

Then `nbgrader autograde`, the formgrader's texts by hand, feedback and `autograder regrade` work
as after `nbgrader collect`. Students are called as the platform knows them; see `downloads`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from autograder import storage
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.gradebook import database
from autograder.submission import own_folder
from autograder.submission.finding import Submission
from autograder.submission.quarantine import Rejected, extract_zip

__all__ = ["collect", "put"]


def collect(plan: Assignment, submissions: Sequence[Submission], course: Course) -> dict[str, int]:
    """Put submissions into nbgrader's tree; those of which nothing could be read are left out.

    Returns:
        How many are "new", "as before" and "replaced".
    """
    counts = dict.fromkeys(("new", "as before", "replaced"), 0)
    for submission in submissions:
        if not submission.rejected:
            counts[put(plan, submission, course)] += 1
    if course.database.is_file():
        _name_students(course, submissions)
    return counts


def put(plan: Assignment, submission: Submission, course: Course) -> str:
    """Put one submission into nbgrader's tree; gives "new", "as before" or "replaced"."""
    place = course.submitted(submission.student, plan.name)
    try:
        storage.private_folder(place.parent)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".") as outer:
            fresh = Path(outer) / plan.name
            _copy(plan, submission.path, fresh)
            _write_what_submit_leaves(fresh)
            before = _content(place) if place.is_dir() else None
            if before == _content(fresh):
                return "as before"
            if before is not None:
                os.rename(place, _shelf(course, submission.student, plan.name))
            os.rename(fresh, place)
            return "new" if before is None else "replaced"
    except OSError as error:
        raise storage.explain(error.filename or place, error) from error


def _copy(plan: Assignment, path: Path, fresh: Path) -> None:
    """A submission's files as they are; what isn't a regular file is left to the quarantine."""
    if path.is_dir() and not path.is_symlink():
        shutil.copytree(path, fresh, symlinks=True)
    else:
        fresh.mkdir()
        shutil.copy2(path, fresh / path.name, follow_symlinks=False)
    archive = own_folder.what_counts(plan, fresh)
    if archive.suffix != ".zip":
        return
    try:  # nbgrader and run.json's check look at files
        with tempfile.TemporaryDirectory(dir=fresh) as unpacked:
            extract_zip(archive, Path(unpacked), plan.limits)
            for each in Path(unpacked).iterdir():
                if not os.path.lexists(fresh / each.name):
                    each.rename(fresh / each.name)
    except Rejected:
        pass  # it is said when it is graded


def _write_what_submit_leaves(fresh: Path) -> None:
    """`nbgrader release_feedback` fails where these are missing; an empty time is no time."""
    for name, text in (("submission_secret.txt", secrets.token_hex(32)), ("timestamp.txt", "")):
        if not os.path.lexists(fresh / name):
            (fresh / name).write_text(text, encoding="utf-8")


def _content(folder: Path) -> dict[str, bytes]:
    """A folder's files, but for those that we and nbgrader put there."""
    return {
        str(each.relative_to(folder)): each.read_bytes()
        for each in sorted(folder.rglob("*"))
        if each.is_file()
        and not each.is_symlink()
        and each.name not in ("timestamp.txt", "submission_secret.txt")
        and not own_folder.is_placeholder(each)
    }


def _shelf(course: Course, student: str, assignment: str) -> Path:
    """The first free place for what is replaced."""
    folder = course.build / "replaced" / student
    storage.private_folder(folder)
    number = 1
    while os.path.lexists(folder / f"{assignment}-{number}"):
        number += 1
    return folder / f"{assignment}-{number}"


def _name_students(course: Course, submissions: Sequence[Submission]) -> None:
    """Tell the gradebook the names and addresses that it lacks and the platform knows."""
    with database.open_gradebook(course) as book:
        for each in submissions:
            if not (each.name or each.email):
                continue
            student = book.update_or_create_student(each.student)
            if each.name and not (student.first_name or student.last_name):
                student.first_name = each.name
            if each.email and not student.email:
                student.email = each.email
        book.db.commit()
