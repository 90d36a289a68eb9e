"""When a submission arrived, by the server's clock; what lateness costs stands in `late`.

A student's ``timestamp.txt``, a folder's name and a file's mtime can say anything. Believed is
``build/receipts/<assignment>.csv`` (student, received), which the collecting side writes:
`autograder.gradebook.nbgrader.collect` from the inbound folder's ctime, which only the kernel sets;
or a person, with the same two columns. A moment without a zone is UTC. What a learning platform's
download says stands in ``build/receipts/platform/<assignment>.csv``
(`autograder.platforms.intake`): a student who is in the first file has that receipt.
"""

from __future__ import annotations

import csv
import datetime
import functools
import io
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from autograder import storage, tables
from autograder.course import teams
from autograder.course.assignment import AssignmentError
from autograder.course.course import Course
from autograder.tables import TableError
from ringside.files import write_atomically

_TICK_NS = 3_000_000_000  # two writes within one tick of a file system's clock look alike


def received(course: Course, assignment: str) -> Mapping[str, datetime.datetime]:
    """Each student's receipt, in UTC; a platform's where nobody wrote another one.

    Raises:
        AssignmentError: a file has other columns, or a line holds no moment; it is named.
    """
    return {**_of_file(course.platform_receipts(assignment)), **written(course, assignment)}


def arrived(course: Course, assignment: str) -> Mapping[str, datetime.datetime]:
    """When each student's work arrived; of a team's members the newest receipt is everybody's.

    Raises:
        AssignmentError: as `received`, or the list of teams is wrong.
    """
    by_student = dict(received(course, assignment))
    for team in teams.read(course, assignment).values():
        moments = [by_student[member] for member in team.members if member in by_student]
        if moments:
            by_student |= dict.fromkeys(team.members, max(moments))
    return by_student


def written(course: Course, assignment: str) -> Mapping[str, datetime.datetime]:
    """The receipts that a person, or the exchange, wrote down."""
    return _of_file(course.receipts(assignment))


def _of_file(path: Path) -> Mapping[str, datetime.datetime]:
    """The receipts in a file, which is read again when it is another one."""
    try:
        state = path.stat()
    except FileNotFoundError:
        return {}
    if time.time_ns() - state.st_ctime_ns < _TICK_NS:
        return _read(path)
    return _kept(path, (state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns))


@functools.lru_cache(maxsize=64)  # assignments
def _kept(path: Path, state: tuple[int, ...]) -> Mapping[str, datetime.datetime]:
    """The receipts of a file in one state; `state` is what tells it from the next."""
    return _read(path)


def _read(path: Path) -> Mapping[str, datetime.datetime]:
    moments: dict[str, datetime.datetime] = {}
    try:
        for line, row in tables.rows(path, ("student", "received")):
            student, received = row["student"], row["received"]
            try:
                moment = _utc(received)
            except ValueError:
                raise TableError(
                    f"{path}, line {line}: {received!r} is no moment; "
                    "write it like 2026-03-01T23:59:00+00:00."
                ) from None
            if not student:
                raise TableError(f"{path}, line {line}: the student is missing.")
            if moments.get(student, moment) != moment:
                raise TableError(
                    f"{path}, line {line}: {student} has two receipts, {moments[student]} and "
                    f"{moment}: keep one of the lines."
                )
            moments[student] = moment
    except TableError as error:
        raise AssignmentError(str(error)) from None
    return MappingProxyType(moments)


def record(course: Course, assignment: str, student: str, moment: datetime.datetime) -> None:
    """Write down that `student` handed in at `moment`; an earlier receipt is replaced."""
    _write(course.receipts(assignment), {**written(course, assignment), student: moment})


def record_platform(
    course: Course, assignment: str, moments: Mapping[str, datetime.datetime]
) -> None:
    """Write down what a platform says of these students; what it said of others stays."""
    path = course.platform_receipts(assignment)
    before = _of_file(path)
    if {**before, **moments} != before:
        _write(path, {**before, **moments})


def _write(path: Path, receipts: Mapping[str, datetime.datetime]) -> None:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(["student", "received"])
    writer.writerows([name, moment.isoformat()] for name, moment in sorted(receipts.items()))
    storage.write(path, stream.getvalue().encode())


def late_seconds(moment: datetime.datetime | None, due: datetime.datetime | None) -> float:
    """How late a receipt is; without a receipt or a due date nothing is late.

    `due` is naive UTC, as nbgrader keeps it.
    """
    if moment is None or due is None:
        return 0.0
    return max(0.0, (moment - due.replace(tzinfo=datetime.UTC)).total_seconds())


def stamp(folder: Path, moment: datetime.datetime | None) -> str | None:
    """Let nbgrader read our receipt: it believes ``timestamp.txt``. Gives what stood there."""
    path = folder / "timestamp.txt"
    text = "" if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S.%f %Z")
    before = path.read_bytes()[:200].decode("utf-8", "replace") if path.is_file() else None
    if before is not None and before.strip() == text:
        return None
    if moment is None:
        path.unlink(missing_ok=True)
    else:
        write_atomically(path, f"{text}\n".encode())
    return before


def _utc(text: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(text)
    return moment.replace(tzinfo=moment.tzinfo or datetime.UTC).astimezone(datetime.UTC)
