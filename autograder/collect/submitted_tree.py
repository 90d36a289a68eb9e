"""nbgrader's tree: one submission put where nbgrader looks; what lay there before is kept.

build/submitted/<student>/<assignment>/    the student's files, an archive unpacked
build/replaced/<student>/<assignment>-1/   what lay there before, where it was another one
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
import tempfile
from pathlib import Path

from autograder import storage
from autograder.collect import own_folder
from autograder.collect.quarantine import Rejected, extract_zip
from autograder.collect.submissions import Submission
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from ringside.course.handin import hints_taken
from ringside.course.handin.handin import REQUEST

__all__ = ["is_same_work", "put", "work"]

_COPIED = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
_NO_WORK = (REQUEST, hints_taken.NAME)
_NBGRADERS = ("submission_secret.txt", "timestamp.txt")


def put(
    plan: Assignment, submission: Submission, course: Course, *, of_another: bool = False
) -> str:
    """Put one submission into nbgrader's tree; gives "new", "as before" or "replaced".

    Args:
        of_another: another student's folder in the tree, who hands in for this one, too. What
            nbgrader keeps of a student's own hand-in stays: by it feedback is fetched.
    """
    folder = course.submitted(submission.student, plan.name)
    try:
        storage.private_folder(folder.parent)
        # On the file system of its place: so the rename below moves it whole.
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as outer:
            fresh = Path(outer) / plan.name
            _copy(plan, submission.path, fresh)
            if of_another:
                _keep_own(folder, fresh)
            _write_what_submit_leaves(fresh)
            before = _content(folder) if folder.is_dir() else None
            if before == _content(fresh):
                return "as before"
            if before is not None:
                os.rename(folder, _shelf(course, submission.student, plan.name))
            os.rename(fresh, folder)
            return "new" if before is None else "replaced"
    except OSError as error:
        raise storage.explain(error.filename or folder, error) from error


def is_same_work(plan: Assignment, submission: Submission, course: Course) -> bool:
    """Whether a submission is what lies in the tree already, but for what is no work."""
    folder = course.submitted(submission.student, plan.name)
    if not folder.is_dir() or submission.rejected:
        return False
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as outer:
            fresh = Path(outer) / plan.name
            _copy(plan, submission.path, fresh)
            return work(folder) == work(fresh)
    except OSError as error:
        raise storage.explain(error.filename or folder, error) from error


def work(folder: Path) -> dict[str, str]:
    """A folder's files but for the request and the hints; an archive only if it is all there is."""
    hashes = {name: content for name, content in _content(folder).items() if name not in _NO_WORK}
    return {n: c for n, c in hashes.items() if not n.endswith(".zip")} or hashes


def _keep_own(place: Path, fresh: Path) -> None:
    """In the place of another student's time and secret, those of the one whose folder it is."""
    for name in _NBGRADERS:
        (fresh / name).unlink(missing_ok=True)
        if (place / name).is_file() and not (place / name).is_symlink():
            shutil.copyfile(place / name, fresh / name)


def _copy(plan: Assignment, path: Path, fresh: Path) -> None:
    """A submission's files as they are; what isn't a regular file is left to the quarantine."""
    if path.is_dir() and not path.is_symlink():
        shutil.copytree(path, fresh, symlinks=True, ignore=_special)
    else:
        fresh.mkdir()
        shutil.copy2(path, fresh / path.name, follow_symlinks=False)
    archive = own_folder.what_counts(plan, fresh)
    if archive.suffix != ".zip":
        return
    try:  # nbgrader and run.json's check look at files
        with tempfile.TemporaryDirectory(dir=fresh) as unpacked:
            extract_zip(archive, Path(unpacked), plan.limits)
            for child in Path(unpacked).iterdir():
                # What was handed in beside the archive is not replaced.
                if not os.path.lexists(fresh / child.name):
                    child.rename(fresh / child.name)
    except Rejected:
        pass  # it is said when it is graded


def _special(folder: str, names: list[str]) -> list[str]:
    """Pipes and the like, on which a copy would fail or wait."""
    modes = {name: os.lstat(os.path.join(folder, name)).st_mode for name in names}
    return [name for name, mode in modes.items() if stat.S_IFMT(mode) not in _COPIED]


def _write_what_submit_leaves(fresh: Path) -> None:
    """`nbgrader release_feedback` fails where it is missing."""
    path = fresh / "submission_secret.txt"
    if not os.path.lexists(path):
        path.write_text(secrets.token_hex(32), encoding="utf-8")


def _content(folder: Path) -> dict[str, str]:
    """The hashes of a folder's files, but for those that we and nbgrader put there."""
    return {
        str(path.relative_to(folder)): _hash(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not path.is_symlink()
        and path.name not in _NBGRADERS
        and not own_folder.is_placeholder(path)
    }


def _hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _shelf(course: Course, student: str, assignment: str) -> Path:
    """The first free place for what is replaced."""
    folder = course.build / "replaced" / student
    storage.private_folder(folder)
    number = 1
    while os.path.lexists(folder / f"{assignment}-{number}"):
        number += 1
    return folder / f"{assignment}-{number}"
