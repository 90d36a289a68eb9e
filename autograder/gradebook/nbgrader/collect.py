"""`nbgrader collect`, which also writes each submission's receipt, by the server's clock."""

from __future__ import annotations

import datetime
import glob
import os
import tempfile
from pathlib import Path
from typing import Any

from autograder.collect import own_folder
from autograder.collect.quarantine import Rejected, extract_zip
from autograder.collect.submitted_tree import work
from autograder.course import assignment as plans
from autograder.course import limits
from autograder.course.course import Course
from autograder.course.receipt import record, stamp
from autograder.gradebook.nbgrader.inbound import OwnCollect


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
