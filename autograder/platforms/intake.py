"""From the paths of a command line to submissions: a platform's download is taken as it comes.

What a download says of times is written into ``build/receipts/platform``; what isn't plain is said.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from pathlib import Path
from zoneinfo import ZoneInfo

from autograder.collect import completeness, submissions, submitted_tree, team_submissions
from autograder.collect.submissions import Layout, Submission
from autograder.course import teams
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.platforms import downloads, unpacking
from autograder.platforms.canvas import submissions as canvas_submissions
from autograder.platforms.downloads import Download, Upload
from autograder.platforms.moodle.worksheet import Worksheet
from autograder.terminal import say
from ringside.units import format_count

__all__ = ["take"]

MAX_NAMES = 8
LONG, FAR = (datetime.datetime(year, 1, 1, tzinfo=datetime.UTC) for year in (1, 9999))


def take(
    plan: Assignment,
    paths: Sequence[Path],
    course: Course,
    *,
    roster: Path | None = None,
    times: Path | None = None,
    timezone: ZoneInfo | None = None,
    layout: Layout | None = None,
) -> list[Submission]:
    """The submissions under `paths`, whatever they are.

    Args:
        roster: if it is Moodle's grading worksheet, it says who handed in, and when.
        times: Canvas's list of the submissions, which says when they were handed in.
        timezone: of times without one; None: this machine's, for a worksheet's.
        layout: of all paths, as `submissions` lists them; None: the names at their tops tell.

    Raises:
        PathError: a path isn't there, is a mix, holds nothing, or a student has two submissions; or
            the times are those of other submissions.
    """
    worksheet = (
        Worksheet.read(roster, timezone)
        if roster is not None and Worksheet.is_one(roster)
        else None
    )
    class_downloads: list[Download] = []
    if layout in (None, "download"):
        class_downloads = _downloads(plan, paths, course, worksheet, timezone)
    if times is not None:
        _add_times(times, class_downloads, timezone)
    handins: list[Submission] = []
    for download in class_downloads:
        batch = unpacking.unpack(download, plan, course)
        students = [upload.student for upload in download.uploads]
        completeness.call(
            students,
            [submission.student for submission in batch],
            f"{download.tree.path}, unpacked",
        )
        handins += batch
        _record(plan, download, batch, course, timezone)
    if not class_downloads:
        handins = submissions.find(plan, paths, layout)
    submissions.check_names(handins)
    if not handins:
        raise submissions.PathError(f"There is no submission under {', '.join(map(str, paths))}.")
    for sentence in team_submissions.doubts(plan, handins, course):
        say(sentence)
    shared = team_submissions.share(plan, handins, course)
    if any(
        submission.team and submission.rejected and submission not in handins
        for submission in shared
    ):
        say(team_submissions.cure(plan, course))
    return shared


def _downloads(
    plan: Assignment,
    paths: Sequence[Path],
    course: Course,
    worksheet: Worksheet | None,
    timezone: ZoneInfo | None,
) -> list[Download]:
    """The downloads, if all paths are some.

    Among other paths one that looks like a download is a submission: a student gives files the
    names of a platform, and would add students.
    """
    class_downloads: list[Download] = []
    mixed: list[submissions.PathError] = []
    for path in paths:
        if _is_collected(path, course):
            continue
        try:
            download = downloads.recognise(plan, path, worksheet, timezone)
        except submissions.PathError as error:
            mixed.append(error)
            continue
        class_downloads += [] if download is None else [download]
    if len(class_downloads) + len(mixed) < len(paths):
        for entry in class_downloads:
            say(
                f"{entry.tree.path} looks like a download from {entry.platform}. Among other paths "
                "it is read as one submission: if it is a class, grade it in a call of its own."
            )
        return []
    if mixed:
        raise mixed[0]
    return class_downloads


def _add_times(path: Path, given: Sequence[Download], timezone: ZoneInfo | None) -> None:
    """Note in the uploads of Canvas's downloads when each was handed in, and by whom.

    Raises:
        PathError: it is no list of Canvas's, or somebody in a download isn't in it.
    """
    handed = canvas_submissions.read(path, timezone)
    if not given or any(download.platform != "Canvas" for download in given):
        raise submissions.PathError(
            f"--times {path} is for a download of Canvas, and this is none: Moodle's --roster and "
            "Gradescope's own metadata say when things were handed in."
        )
    uploads = [upload for download in given for upload in download.uploads]
    without = [u for u in uploads if u.student not in handed or not handed[u.student].received]
    if without:
        raise submissions.PathError(
            f"{path} has no time for {_names(without)}: it is of another assignment, of one page "
            "of several, or older than the download. Get all pages of it again."
        )
    for upload in uploads:
        entry = handed[upload.student]
        upload.received, upload.email = entry.received, entry.email or upload.email
        upload.name = entry.name or upload.name
    for download in given:
        download.table = str(path)
    there = {upload.student for upload in uploads}
    absent = [
        Upload(student, record.name)
        for student, record in handed.items()
        if record.received and student not in there
    ]
    if absent:  # of a group that is graded as one, Canvas's zip has one member's files
        say(
            f"{path} says that these handed in, and nothing of theirs is in the download: "
            f"{_names(absent)}. If they aren't partners of others, download it again."
        )


def _is_collected(path: Path, course: Course) -> bool:
    """Whether a path is in nbgrader's tree, where folders are named after students."""
    submitted = (course.build / "submitted").resolve()
    return path.resolve().is_relative_to(submitted)


def _record(
    plan: Assignment,
    given: Download,
    own: Sequence[Submission],
    course: Course,
    timezone: ZoneInfo | None,
) -> None:
    """Keep the times and groups of a download, and say what is to be known of it."""
    from autograder.course import receipt  # and nbgrader with it, which takes seconds

    if given.platform == "Gradescope":
        teams.record_platform(course, plan.name, given.teams)
    if given.teams:
        say(
            f"{given.table} names {format_count(len(given.teams), 'team')}: kept in "
            f"{course.platform_teams(plan.name)}. {course.teams(plan.name)} goes first."
        )
    moments = {u.student: u.received for u in given.uploads if u.received is not None}
    before = receipt.received(course, plan.name)
    # Where one of the two times is missing, nothing was handed in again.
    again = [
        submission
        for submission in own
        if before.get(submission.student, FAR) < moments.get(submission.student, LONG)
    ]
    for submission in again:
        if submitted_tree.is_same_work(
            plan, submission, course
        ):  # with a request for a regrade, or nothing new
            moments[submission.student] = before[submission.student]
    if moments:
        receipt.record_platform(course, plan.name, moments)
    say(f"A download from {given.platform}: {format_count(len(given.uploads), 'student')}.")
    if moments:
        which = f" Its times are taken as {timezone or 'this machine'}'s; --timezone names another."
        say(
            f"{given.table} says when {len(moments)} of them handed in."
            + (which if given.platform == "Moodle" else "")
        )
    elif given.platform == "Moodle":
        say(
            "It doesn't say when they handed in: --roster FILE takes Moodle's grading worksheet, "
            "which does, and by which they are known in all assignments."
        )
    written = receipt.written(course, plan.name)
    other = [
        u for u in given.uploads if u.received and written.get(u.student, u.received) != u.received
    ]
    if other:
        say(
            f"{course.receipts(plan.name)} has other times for {_names(other)}: it goes first. "
            f"Remove a line there to take what {given.platform} says."
        )
    late = [u for u in given.uploads if u.late and not u.received and u.student not in written]
    if late:
        say(
            f"{given.platform} marks as late, and doesn't say by how much: {_names(late)}. Nothing "
            f"is taken off until --times gives {given.platform}'s list of submissions, or you "
            f"write when they handed in into {course.receipts(plan.name)} (student,received)."
        )


def _names(uploads: Iterable[Upload]) -> str:
    people = [f"{u.student} ({u.name})" if u.name else u.student for u in uploads]
    return ", ".join(people[:MAX_NAMES]) + (
        f" and {len(people) - MAX_NAMES} more" if len(people) > MAX_NAMES else ""
    )
