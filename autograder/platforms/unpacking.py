"""A download's files, unpacked into a folder for each student under their own names.

That is ``build/downloads/<assignment>/<hash of the download>/``, which may be removed at any time.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
from pathlib import Path, PurePosixPath
from typing import Any

from autograder import file_names, storage
from autograder.collect.quarantine import Rejected, size_cap
from autograder.collect.submissions import Submission
from autograder.collect.zip_archive import MIB
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.course.limits import Limits
from autograder.platforms.download_tree import Tree
from autograder.platforms.downloads import Download, Upload
from ringside import output_folder


def unpack(found: Download, assignment: Assignment, course: Course) -> list[Submission]:
    """Each student's files in a folder, under their own names; what was unpacked before is kept."""
    outer = course.build / "downloads" / assignment.name
    folder = outer / _digest(found, assignment.limits)
    try:
        if not folder.is_dir():
            storage.private_folder(outer)
            with output_folder.beside(folder) as fresh:
                _write(found, assignment.limits, fresh)
                # Another grader may have unpacked the same meanwhile.
                if not folder.is_dir():
                    os.rename(fresh, folder)
        listed = json.loads((folder / "submissions.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise storage.explain(error.filename or folder, error) from error
    return [
        Submission(
            entry["student"],
            folder / entry["folder"],
            entry["name"],
            entry["email"],
            tuple(entry["says"]),
            entry["rejected"],
        )
        for entry in listed
    ]


def _digest(found: Download, limits: Limits) -> str:
    facts = [
        (
            upload.student, upload.name, upload.email, upload.says,
            [(path, name, found.tree.stamp(name)) for path, name in sorted(upload.files.items())],
        )
        for upload in found.uploads
    ]  # fmt: skip
    text = json.dumps([facts, dataclasses.asdict(limits)], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _write(found: Download, limits: Limits, place: Path) -> None:
    uploads = sorted(found.uploads, key=lambda upload: upload.student)
    listed: list[dict[str, Any]] = []
    for upload in uploads:
        folder = place / file_names.of(upload.student)
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
    rest_bytes, refused = limits.submission_bytes, []
    for file_name, name in sorted(upload.files.items()):
        parts = PurePosixPath(file_name).parts
        if (
            file_name.startswith("/")
            or ".." in parts
            or not parts
            or "\0" in file_name
            or "\\" in file_name
        ):
            refused.append(f"{file_name!r} is no name of a file in a folder.")
            continue
        if len(parts) > limits.submission_depth:
            refused.append(f"{file_name} is nested deeper than {limits.submission_depth} folders.")
            continue
        try:
            content = tree.read(name, size_cap(file_name, limits))
        except Rejected as rejected:
            refused.append(str(rejected))
            continue
        rest_bytes -= len(content)
        if rest_bytes < 0:
            raise Rejected(f"The submission is larger than {limits.submission_bytes // MIB} MiB.")
        path = folder / file_name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            refused.append(f"{file_name} stands where another file's folder is.")
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            refused.append(f"{file_name[:60]}... has too long a name for a file.")
    return refused
