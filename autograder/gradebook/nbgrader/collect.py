"""`nbgrader collect`: what is a student's own, each with a receipt by the server's clock.

Every account writes into the exchange's inbound folder, and the course's account reads it. So a
name or a link is no proof:

    ada+a01+...  owned by ben            ben would hand in for ada
    ring.py -> ../course_secret.txt      the page of feedback would show what only we may read
    a pipe, a folder nobody may list     collecting would wait, or end, for the whole class
"""

from __future__ import annotations

import datetime
import glob
import os
import pwd
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Any

from nbgrader.exchange import ExchangeError
from nbgrader.exchange.default import ExchangeCollect
from nbgrader.utils import ignore_patterns

from autograder.collect import own_folder
from autograder.collect.quarantine import Rejected, extract_zip
from autograder.collect.submitted_tree import work
from autograder.course import assignment as plans
from autograder.course import limits
from autograder.course.course import Course
from autograder.course.receipt import record, stamp

NEVER = datetime.datetime.min  # older than what counts


class OwnCollect(ExchangeCollect):  # type: ignore[misc]
    """nbgrader's collect, which takes from a student's folder the student's own files."""

    src_records: list[dict[str, Any]]

    def init_src(self) -> None:
        super().init_src()
        self.src_records = [record for record in self.src_records if record["timestamp"] != NEVER]

    def _path_to_record(self, path: str) -> dict[str, Any]:
        try:
            record: dict[str, Any] = super()._path_to_record(path)
        except (ExchangeError, ValueError, OverflowError):
            self.log.error("%s is not named as `nbgrader submit` does; it is left there.", path)
            return {"username": path, "filename": os.path.basename(path), "timestamp": NEVER}
        if why := _not_theirs(path, record["username"]):
            self.log.error("%s %s; it is left there.", path, why)
            record["timestamp"] = NEVER
        return record

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        ours: list[OSError] = []  # a full disk is our fault, and ends the command
        owner = os.lstat(src).st_uid

        def copy(source: str, target: str) -> None:
            """Copy a file, if what is opened is a file of the student's own."""
            try:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                opened = os.fdopen(os.open(source, flags), "rb")
            except OSError as error:
                self.log.warning("%s can't be read: %s.", source, error.strerror)
                return
            with opened:
                # Of what was opened, and not by its name, behind which the student may put another.
                status = os.fstat(opened.fileno())
                if not stat.S_ISREG(status.st_mode) or status.st_uid != owner:
                    self.log.warning("%s is no file of the student's own.", source)
                    return
                try:
                    with open(target, "xb") as written:
                        shutil.copyfileobj(opened, written)
                except OSError as error:
                    ours.append(error)
                    raise

        where = self.coursedir
        ignored = ignore_patterns(where.ignore, where.include, where.max_file_size, self.log)
        if self.get_size(src) > 1000 * where.max_dir_size:
            self.log.error("%s is larger than %s kB: not copied.", src, where.max_dir_size)
            os.makedirs(dest)
            return
        try:
            # Links stay links, which the quarantine refuses and tells the student.
            shutil.copytree(src, dest, symlinks=True, ignore=ignored, copy_function=copy)
        except OSError as error:
            if ours:
                raise ours[0] from error
            self.log.error("%s could not be copied whole: %s", src, error)
            os.makedirs(dest, exist_ok=True)
        if where.groupshared:
            _share(Path(dest))


class ReceiptCollect(OwnCollect):
    """nbgrader's collect, which also writes each submission's receipt."""

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        super().do_copy(src, dest)
        # nbgrader lets everybody write where students hand in, and read what they did.
        Path(dest).chmod(0o770 if self.coursedir.groupshared else 0o700)
        student, assignment = Path(dest).parent.name, Path(dest).name
        self._unpack(Path(dest))
        moment = _arrived(Path(src), student, assignment)
        course = Course.of_root(self.coursedir.root)
        record(course, assignment, student, moment)
        stamp(Path(dest), moment)

    def _unpack(self, folder: Path) -> None:
        """Unpack the one archive of a folder without a notebook: nbgrader would pass over it."""
        plan = plans.load(folder.name, Course.of_root(self.coursedir.root))
        archive = own_folder.what_counts(plan, folder)
        if archive.suffix != ".zip":
            return
        allowed = limits.load(folder.name, Course.of_root(self.coursedir.root))
        try:
            with tempfile.TemporaryDirectory(dir=folder) as fresh:  # nothing of theirs lies there
                extract_zip(archive, Path(fresh), allowed)
                for path in Path(fresh).iterdir():
                    if not os.path.lexists(folder / path.name):
                        path.rename(folder / path.name)
        except Rejected as error:
            self.log.warning("%s can't be unpacked: %s", archive, error)


def _arrived(source: Path, student: str, assignment: str) -> datetime.datetime:
    """When what lies in a folder of the exchange was handed in first.

    Whoever hands the same in again, with a request for a regrade or without, isn't later by it.
    A folder's time is that of its newest file, for its owner could still write there.
    """
    name = f"{glob.escape(student)}+{glob.escape(assignment)}+*"  # as nbgrader names them
    moments = {}
    for each in {source, *source.parent.glob(name)}:
        inside = [each, *each.rglob("*")]
        moments[each] = max(os.lstat(path).st_ctime for path in inside)
    moment, handed_in = moments.pop(source), work(source)
    # Back from the newest before it, as long as it is the same work.
    for each in sorted(moments, key=lambda each: -moments[each]):
        if moments[each] <= moment:
            if work(each) != handed_in:
                break
            moment = moments[each]
    return datetime.datetime.fromtimestamp(moment, datetime.UTC)


def _not_theirs(path: str, student: str) -> str:
    """Why a folder is not what this student has handed in; empty if it may be."""
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        return "is no folder"
    try:
        account = pwd.getpwnam(student).pw_uid
    except KeyError:  # students are called otherwise than accounts: nbgrader warns
        return ""
    return "" if account == status.st_uid else f"is owned by another account than {student}"


def _share(folder: Path) -> None:
    """What nbgrader gives a group: its owner's rights."""
    for subfolder, _, files in os.walk(folder):
        os.chmod(subfolder, os.stat(subfolder).st_mode | 0o2770)
        for name in files:
            path = Path(subfolder, name)
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o660)
