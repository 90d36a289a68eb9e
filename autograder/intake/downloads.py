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

The files are unpacked, under the names that students gave them, into a folder for each student in
``build/downloads/<assignment>/<hash of the download>/``, which may be removed at any time.
"""

from __future__ import annotations

import dataclasses
import datetime
import errno
import hashlib
import json
import os
import re
import tempfile
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Protocol
from zoneinfo import ZoneInfo

from autograder import file_names, storage
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.course.limits import Limits
from autograder.intake.gradescope_metadata import MAX_BYTES, METADATA, Author, of_text
from autograder.intake.moodle_worksheet import Worksheet
from autograder.submission.finding import PathError, Submission
from autograder.submission.quarantine import (
    DAMAGED,
    MIB,
    Rejected,
    directory_size,
    inspect,
    read_regular,
    size_cap,
)
from ringside.handin.handin import RUN_FILES

__all__ = ["Download", "Upload", "recognise", "unpack"]

# The first of these in a name is the platform's; what follows is the student's own.
_MARK = re.compile(r"_(\d+)_(?:(\d+)_|assignsubmission_(file|onlinetext)(?:_|$))")
_SUBMISSION = re.compile(r"submission_(\d+)")
_AGAIN = re.compile(r"(.*)-(\d+)((?:\.\w+)*)")  # Canvas' `a03-1.zip`
_NO_FILES = {"__MACOSX", "Thumbs.db", "desktop.ini"}
_MOST_ENTRIES = 100_000  # of a platform's archive: hundreds of students' files
_MOST_LISTED = 8


class Tree(Protocol):
    """A download: a folder, or an archive."""

    path: Path

    def tops(self) -> dict[str, bool]:
        """The names at its top, and whether each is a folder."""

    def below(self, top: str, limits: Limits) -> tuple[list[str], list[str]]:
        """The files in a folder at its top; and what is said of those that aren't read."""

    def read(self, name: str, max_bytes: int) -> bytes:
        """A file of at most so many bytes. Raises Rejected."""

    def stamp(self, name: str) -> str:
        """What changes where the file does."""


class Folder:
    """An unpacked download."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def tops(self) -> dict[str, bool]:
        with os.scandir(self.path) as entries:
            return {each.name: each.is_dir(follow_symlinks=False) for each in entries}

    def below(self, top: str, limits: Limits) -> tuple[list[str], list[str]]:
        found = inspect(self.path / top, limits)
        return list(found.files), [f"{name} {why}." for name, why in found.refused.items()]

    def read(self, name: str, max_bytes: int) -> bytes:
        return read_regular(self.path / name, max_bytes)

    def stamp(self, name: str) -> str:
        status = os.lstat(self.path / name)
        return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"


class Archive:
    """A platform's archive; a folder around everything is taken off."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._archive = zipfile.ZipFile(path)
        members = {each.filename: each for each in self._archive.infolist() if not each.is_dir()}
        members = {name: each for name, each in members.items() if not _is_ignored(name)}
        tops = {name.split("/")[0] for name in members}
        around = tops.pop() if len(tops) == 1 else ""
        if _kind(around, True) is None and all(each.startswith(f"{around}/") for each in members):
            members = {name.split("/", 1)[1]: each for name, each in members.items()}
        self._members = members

    def tops(self) -> dict[str, bool]:
        return {name.split("/")[0]: "/" in name for name in self._members}

    def below(self, top: str, limits: Limits) -> tuple[list[str], list[str]]:
        names = [name.split("/", 1)[1] for name in self._members if name.startswith(f"{top}/")]
        return names, []

    def read(self, name: str, max_bytes: int) -> bytes:
        try:
            with self._archive.open(self._members[name]) as stream:
                content = stream.read(max_bytes + 1)
        except (*DAMAGED, OSError) as error:
            raise Rejected(f"{name} is damaged in {self.path.name}: {error}.") from error
        if len(content) > max_bytes:
            raise Rejected(f"{name} is larger than {max_bytes / MIB:g} MiB.")
        return content

    def stamp(self, name: str) -> str:
        return f"{self._members[name].CRC} {self._members[name].file_size}"


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


@dataclass
class Download:
    """A class as a platform gives it."""

    platform: str
    tree: Tree
    uploads: list[Upload]
    table: str = ""  # that says when things arrived


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
    tree = _tree(path)
    if tree is None:
        return None
    names = {name: folder for name, folder in tree.tops().items() if not _is_ignored(name)}
    kinds = {name: _kind(name, folder) for name, folder in names.items()}
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
        own = {assignment.notebook, *(module.filename for module in assignment.modules)}
        if len(odd) > counts[platform] and (isinstance(tree, Archive) or own & names.keys()):
            return None  # a submission, one file of which has an odd name
        raise _mixed(path, platform, [n for n, kind in kinds.items() if kind == platform], odd)
    names = {name: folder for name, folder in names.items() if kinds[name] == platform}
    table = ""
    if platform == "Canvas":
        planned = {assignment.notebook, *(m.filename for m in assignment.modules), *RUN_FILES}
        uploads = _canvas(names, planned)
    elif platform == "Moodle":
        uploads = _moodle(tree, names, assignment.limits, worksheet)
        table = str(worksheet.path) if worksheet else ""
    else:
        uploads, table = _gradescope(tree, names, assignment.limits), METADATA
    for upload in uploads:  # it names a folder, and nbgrader looks for folders by patterns
        upload.student = re.sub(r"[/\\\0*?\[\]]|^\.", "_", upload.student)
    return Download(platform, tree, uploads, table)


def _tree(path: Path) -> Tree | None:
    if path.is_dir():
        return Folder(path) if os.access(path, os.R_OK | os.X_OK) else None
    if path.suffix != ".zip" or path.is_symlink():
        return None
    try:
        directory_size(path, most=_MOST_ENTRIES, max_bytes=32 * MIB)
        return Archive(path)
    except (Rejected, OSError, *DAMAGED):
        return None  # that is said where it is read as a submission


def _is_ignored(name: str) -> bool:
    parts = name.split("/")
    return any(part.startswith(".") or part in _NO_FILES for part in parts[:1] + parts[-1:])


def _kind(name: str, folder: bool) -> str | None:
    """The platform that gives such names."""
    if (folder and _SUBMISSION.fullmatch(name)) or (name == METADATA and not folder):
        return "Gradescope"
    mark = _MARK.search(name)
    if mark is None:
        return None
    if mark[3]:
        return "Moodle" if not folder or mark.end() == len(name) else None
    return "Canvas" if not folder and mark.end() < len(name) else None


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
        mark = _MARK.search(name)
        assert mark is not None
        person, user, number, own = name[: mark.start()], mark[1], int(mark[2]), name[mark.end() :]
        late = person.endswith("_LATE")
        upload = uploads.setdefault(user, Upload(user, person.removesuffix("_LATE")))
        upload.late = upload.late or late
        again = _AGAIN.fullmatch(own)
        first = again[1] + again[3] if again else own
        if first not in planned and not first.endswith((".zip", ".ipynb")):
            again, first = None, own  # a file of the student's, whose name ends so
        version = _Version(number, int(again[2]) if again else 0, own, name)
        # Of several archives one is the submission, whatever they are called.
        family = "(archive)" if own.endswith(".zip") else first
        versions.setdefault((user, family), []).append(version)
    for (user, family), found in versions.items():
        *older, newest = sorted(found)
        uploads[user].files[newest.own if family == "(archive)" else family] = newest.name
        if older:
            listed = ", ".join(each.own for each in older)
            uploads[user].says.append(
                f"{newest.own} counts, the newest of {len(found)}; not {listed}."
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
    for name, folder in sorted(names.items()):
        mark = _MARK.search(name)
        assert mark is not None
        number = mark[1]
        if mark[3] != "file":
            continue  # a text that was typed into Moodle
        upload = uploads.setdefault(number, Upload(number, name[: mark.start()]))
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
    upload.files |= {own: f"{top}/{own}" for own in files}


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
            found = by_author.setdefault(author.student or name, [])
            found.append((submission.received, name, author))
    uploads = []
    for student, own in by_author.items():
        *older, (received, name, author) = sorted(own, key=lambda each: each[:2])
        upload = Upload(student, author.name, author.email, received=received)
        if older:
            others = ", ".join(each[1] for each in older)
            upload.says.append(f"{name} counts, the newest of {len(own)}; not {others}.")
        if name in folders:
            _add_folder(upload, tree, name, limits)
        else:
            upload.says.append(f"{name} is in {METADATA}, and has no folder.")
        uploads.append(upload)
    return uploads


# -- unpacking -------------------------------------------------------------------------------------


def unpack(found: Download, assignment: Assignment, course: Course) -> list[Submission]:
    """Each student's files in a folder, under their own names; what was unpacked before is kept."""
    outer = course.build / "downloads" / assignment.name
    place = outer / _digest(found, assignment.limits)
    try:
        if not place.is_dir():
            storage.private_folder(outer)
            with tempfile.TemporaryDirectory(dir=outer, prefix=".") as fresh:
                _write(found, assignment.limits, Path(fresh) / place.name)
                if not place.is_dir():
                    os.rename(Path(fresh) / place.name, place)
        listed = json.loads((place / "submissions.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise storage.explain(error.filename or place, error) from error
    return [
        Submission(
            each["student"],
            place / each["folder"],
            each["name"],
            each["email"],
            tuple(each["says"]),
            each["rejected"],
        )
        for each in listed
    ]


def _digest(found: Download, limits: Limits) -> str:
    known = [
        (
            upload.student, upload.name, upload.email, upload.says,
            [(own, name, found.tree.stamp(name)) for own, name in sorted(upload.files.items())],
        )
        for upload in found.uploads
    ]  # fmt: skip
    text = json.dumps([known, dataclasses.asdict(limits)], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _write(found: Download, limits: Limits, place: Path) -> None:
    place.mkdir()
    uploads = sorted(found.uploads, key=lambda upload: upload.student)
    folders = file_names.of([upload.student for upload in uploads])
    listed: list[dict[str, Any]] = []
    for upload in uploads:
        folder = place / folders[upload.student]
        folder.mkdir()
        says, rejected = list(upload.says), ""
        try:
            says += _write_files(found.tree, upload, folder, limits)
        except Rejected as refused:
            rejected = str(refused)
        if not rejected and not any(folder.iterdir()) and says:
            rejected = " ".join(says)
        listed.append(
            {
                "student": upload.student,
                "folder": folder.name,
                "name": upload.name,
                "email": upload.email,
                "says": says,
                "rejected": rejected,
            }
        )
    text = json.dumps(listed, indent=1)
    (place / "submissions.json").write_text(text + "\n", encoding="utf-8")


def _write_files(tree: Tree, upload: Upload, folder: Path, limits: Limits) -> list[str]:
    """Write a student's files; gives what is said of those that were not read."""
    if len(upload.files) > limits.submission_files:
        raise Rejected(f"The submission holds more than {limits.submission_files} files.")
    left, refused = limits.submission_bytes, []
    for own, name in sorted(upload.files.items()):
        parts = PurePosixPath(own).parts
        if own.startswith("/") or ".." in parts or not parts or "\0" in own or "\\" in own:
            refused.append(f"{own!r} is no name of a file in a folder.")
            continue
        if len(parts) > limits.submission_depth:
            refused.append(f"{own} is nested deeper than {limits.submission_depth} folders.")
            continue
        try:
            content = tree.read(name, size_cap(own, limits))
        except Rejected as rejected:
            refused.append(str(rejected))
            continue
        left -= len(content)
        if left < 0:
            raise Rejected(f"The submission is larger than {limits.submission_bytes // MIB} MiB.")
        path = folder / own
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            refused.append(f"{own} stands where another file's folder is.")
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            refused.append(f"{own[:60]}... has too long a name for a file.")
    return refused
