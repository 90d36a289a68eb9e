"""What a learning platform gives for a class, as it comes: who handed in which files, and when.

    Canvas       adeyemiada_1023_9001_a03.zip        name, user's ID, upload, the file's own name;
                 adeyemiada_LATE_1023_9001_a03-1.zip  late; handed in again
    Moodle       Ada Adeyemi_55123_assignsubmission_file_/a03.zip    name, participant's number;
                 Ada Adeyemi_55123_assignsubmission_file_a03.zip     without folders
    Gradescope   submission_4711/ring.py             the submission's number;
                 submission_metadata.yml             its authors, and when it arrived

A download is known by the names at its top, in a folder or in the platform's own archive, and all
of them must be one platform's. Who a student is, they say, and the platform's own table: Moodle's
grading worksheet, Gradescope's metadata. What lies inside a submission is never asked.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from autograder import file_names
from autograder.collect.quarantine import (
    Rejected,
)
from autograder.collect.submissions import PathError
from autograder.course.assignment import Assignment
from autograder.course.limits import Limits
from autograder.platforms.download_tree import (
    MARK,
    Archive,
    Folder,
    Tree,
    is_ignored,
    platform_of,
    tree_of,
)
from autograder.platforms.gradescope.metadata import MAX_BYTES, METADATA, Author, of_text
from autograder.platforms.moodle.worksheet import Worksheet
from ringside.course.handin.handin import BESIDE

__all__ = ["Download", "Upload", "recognise"]

_AGAIN = re.compile(r"(.*)-(\d+)((?:\.\w+)*)")  # Canvas' `a03-1.zip`
_MOST_LISTED = 8


@dataclass
class Upload:
    """What one student handed in.

    Attributes:
        student: by which our tables and the platform's know the student.
        name: as the platform writes it, for a reader.
        late: the platform says so, and not when it arrived.
        files: each file's own name, and where it is in the download.
        says: what was taken, where it isn't plain.
    """

    student: str
    name: str = ""
    email: str = ""
    late: bool = False
    received: datetime.datetime | None = None
    files: dict[str, str] = field(default_factory=dict)
    says: list[str] = field(default_factory=list)
    team: str = ""  # the submission of several authors that is the newest of each of them


@dataclass
class Download:
    """A class as a platform gives it."""

    platform: str
    tree: Tree
    uploads: list[Upload]
    table: str = ""  # that says when things arrived
    teams: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # a submission's authors


def recognise(
    assignment: Assignment,
    path: Path,
    worksheet: Worksheet | None = None,
    timezone: ZoneInfo | None = None,
) -> Download | None:
    """The platform's download at `path`; None where it is none.

    Args:
        worksheet: Moodle's, which says who its participants are, and when they handed in;
            None: one that lies in the download.
        timezone: of its times; None: this machine's.

    Raises:
        PathError: it is a mix, or a table is missing that says who is who.
    """
    tree = tree_of(path)
    if tree is None:
        return None
    names = {name: folder for name, folder in tree.tops().items() if not is_ignored(name)}
    kinds = {name: platform_of(name, folder) for name, folder in names.items()}
    counts = Counter(kind for kind in kinds.values() if kind)
    if not counts:
        return None
    platform = counts.most_common(1)[0][0]
    odd = sorted(name for name, kind in kinds.items() if kind != platform)
    if platform == "Moodle" and isinstance(tree, Folder):
        tables = [name for name in odd if name.lower().endswith(".csv")]
        sheets = [each for each in tables if Worksheet.is_one(path / each)]
        odd = [name for name in odd if name not in sheets]
        if len(sheets) == 1 and worksheet is None:
            worksheet = Worksheet.read(path / sheets[0], timezone)
    if odd:
        plan_files = {assignment.notebook, *(module.filename for module in assignment.modules)}
        if len(odd) > counts[platform] and (isinstance(tree, Archive) or plan_files & names.keys()):
            return None  # a submission, one file of which has an odd name
        raise _mixed(path, platform, [n for n, kind in kinds.items() if kind == platform], odd)
    names = {name: folder for name, folder in names.items() if kinds[name] == platform}
    table = ""
    if platform == "Canvas":
        planned = {assignment.notebook, *(m.filename for m in assignment.modules), *BESIDE}
        uploads = _canvas(names, planned)
    elif platform == "Moodle":
        uploads = _moodle(tree, names, assignment.limits, worksheet)
        table = str(worksheet.path) if worksheet else ""
    else:
        uploads, table = _gradescope(tree, names, assignment.limits), METADATA
    together: dict[str, list[str]] = {}
    for upload in uploads:  # it names a folder, and nbgrader looks for folders by patterns
        upload.student = file_names.in_tree(upload.student)
        if upload.team:
            together.setdefault(upload.team, []).append(upload.student)
    teams = {name: tuple(each) for name, each in together.items() if len(each) > 1}
    return Download(platform, tree, uploads, table, teams)


def _mixed(path: Path, platform: str, fitting: Sequence[str], odd: Sequence[str]) -> PathError:
    fewer = sorted(odd if len(odd) <= len(fitting) else fitting)
    listed = ", ".join(fewer[:_MOST_LISTED]) + (", ..." if len(fewer) > _MOST_LISTED else "")
    are = "aren't" if fewer[0] in odd else "are"
    return PathError(
        f"{path} is a mix: {len(fitting)} of its {len(fitting) + len(odd)} names are as {platform} "
        f"gives them. These {are}: {listed}. Keep {platform}'s files in a folder of their own."
    )


# -- Canvas ----------------------------------------------------------------------------------------


def _canvas(names: Iterable[str], planned: Collection[str]) -> list[Upload]:
    uploads: dict[str, Upload] = {}
    versions: dict[tuple[str, str], list[_Version]] = {}
    for name in sorted(names):
        mark = MARK.search(name)
        assert mark is not None
        person, user, number, file_name = (
            name[: mark.start()],
            mark[1],
            int(mark[2]),
            name[mark.end() :],
        )
        late = person.endswith("_LATE")
        upload = uploads.setdefault(user, Upload(user, person.removesuffix("_LATE")))
        upload.late = upload.late or late
        again = _AGAIN.fullmatch(file_name)
        first = again[1] + again[3] if again else file_name
        if first not in planned and not first.endswith((".zip", ".ipynb")):
            again, first = None, file_name  # a file of the student's, whose name ends so
        version = _Version(number, int(again[2]) if again else 0, file_name, name)
        # Of several archives one is the submission, whatever they are called.
        family = "(archive)" if file_name.endswith(".zip") else first
        versions.setdefault((user, family), []).append(version)
    for (user, family), candidates in versions.items():
        *older, newest = sorted(candidates)
        uploads[user].files[newest.own if family == "(archive)" else family] = newest.name
        if older:
            listed = ", ".join(other.own for other in older)
            uploads[user].says.append(
                f"{newest.own} counts, the newest of {len(candidates)}; not {listed}."
            )
    return list(uploads.values())


class _Version(NamedTuple):
    """An upload; Canvas numbers all uploads, and those of one name of a student again."""

    number: int
    again: int
    own: str
    name: str


# -- Moodle ----------------------------------------------------------------------------------------


def _moodle(
    tree: Tree, names: Mapping[str, bool], limits: Limits, worksheet: Worksheet | None
) -> list[Upload]:
    uploads: dict[str, Upload] = {}
    folders: dict[str, str] = {}
    typed: list[str] = []
    for name, folder in sorted(names.items()):
        mark = MARK.search(name)
        assert mark is not None
        number = mark[1]
        upload = uploads.setdefault(number, Upload(number, name[: mark.start()]))
        if mark[3] != "file":
            typed.append(number)
            continue
        if folder:
            if number in folders:
                raise PathError(
                    f"{tree.path} has two folders of participant {number}: {folders[number]} and "
                    f"{name}. Keep the one that counts."
                )
            folders[number] = name
            _add_folder(upload, tree, name, limits)
        else:
            upload.files[name[mark.end() :]] = name
    for number in typed:
        if not uploads[number].files and number not in folders:
            uploads[number].says.append("A text was typed into Moodle, and no file handed in.")
    if worksheet is not None:
        absent = [number for number in uploads if number not in worksheet.people]
        if absent:
            raise PathError(
                f"{worksheet.path} has no participant {', '.join(sorted(absent)[:_MOST_LISTED])}, "
                f"who is in {tree.path}: download the worksheet of this assignment again."
            )
        for number, upload in uploads.items():
            person = worksheet.people[number]
            upload.student, upload.email = person.student, person.email
            upload.name = person.name or upload.name
            upload.received = person.received
    return list(uploads.values())


def _add_folder(upload: Upload, tree: Tree, top: str, limits: Limits) -> None:
    try:
        files, refused = tree.below(top, limits)
    except Rejected as rejected:
        upload.says.append(str(rejected))
        return
    upload.says += refused
    upload.files |= {name: f"{top}/{name}" for name in files}


# -- Gradescope ------------------------------------------------------------------------------------


def _gradescope(tree: Tree, names: Mapping[str, bool], limits: Limits) -> list[Upload]:
    if METADATA not in names:
        raise PathError(
            f"{tree.path} looks like Gradescope's export, and its {METADATA}, which says who "
            "handed in what, isn't there: put it beside the folders."
        )
    try:
        listed = of_text(tree.read(METADATA, MAX_BYTES), f"{METADATA} of {tree.path}")
    except Rejected as rejected:
        raise PathError(f"{tree.path}: {rejected}") from rejected
    folders = {name for name, folder in names.items() if folder}
    if unknown := sorted(folders - listed.keys()):
        raise PathError(
            f"{METADATA} of {tree.path} doesn't say whose these are: "
            f"{', '.join(unknown[:_MOST_LISTED])}. Export the submissions again."
        )
    by_author: dict[str, list[tuple[datetime.datetime, str, Author]]] = {}
    for name, submission in listed.items():
        for author in submission.authors:
            entries = by_author.setdefault(author.student or name, [])
            entries.append((submission.received, name, author))
    newest = {
        student: max(each[:2] for each in handins)[1] for student, handins in by_author.items()
    }
    groups = {
        name
        for name, submission in listed.items()
        if len(submission.authors) > 1
        and all(newest[author.student or name] == name for author in submission.authors)
    }
    uploads = []
    for student, handins in by_author.items():
        *older, (received, name, author) = sorted(handins, key=lambda each: each[:2])
        upload = Upload(student, author.name, author.email, received=received)
        upload.team = name if name in groups else ""
        if older:
            others = ", ".join(each[1] for each in older)
            upload.says.append(f"{name} counts, the newest of {len(handins)}; not {others}.")
        if name in folders:
            _add_folder(upload, tree, name, limits)
        else:
            upload.says.append(f"{name} is in {METADATA}, and has no folder.")
        uploads.append(upload)
    return uploads
