"""The secret of a course: hidden inputs are drawn from it, so it decides what students can't guess.

    RINGSIDE_COURSE_SECRET   goes first, where it is set
    root/course_secret.txt   the course's own; `autograder new-course` draws it
    kit/course_secret.txt    of courses that were begun in the kit, or beside it
    none of these            it is drawn now, into root/course_secret.txt, and that is said

Only its owner may read the file. Of graders that start together one draws, and the others read.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from pathlib import Path

from ringside.errors import RingsideError

__all__ = ["FILE", "PUBLIC_SECRET", "VARIABLE", "SecretError", "draw", "of"]

VARIABLE = "RINGSIDE_COURSE_SECRET"
FILE = "course_secret.txt"
PUBLIC_SECRET = "no secret was set"  # known to everybody: for `verify`, the demo and tests alone


class SecretError(RingsideError):
    """A course's secret can't be read or written; the message names the file and the cure."""


def of(root: Path, kit: Path) -> str:
    """The secret of the course at `root`, drawn where there is none.

    Raises:
        SecretError: its file holds none, can't be read, or can't be written.
    """
    secret = os.environ.get(VARIABLE)
    if secret:
        return secret
    for folder in dict.fromkeys((root, kit)):
        if os.path.lexists(folder / FILE):
            return _read(folder / FILE)
    if draw(root):
        print(
            f"autograder: this course had no secret; one was drawn at random into {root / FILE}. "
            "Keep it: with another one the whole class is graded anew, on other inputs.",
            file=sys.stderr,
        )
    return _read(root / FILE)


def draw(root: Path) -> bool:
    """Write a random secret into the course, whole or not at all; False if it has one by now.

    Raises:
        SecretError: it can't be written.
    """
    path = root / FILE
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(prefix=".secret-", dir=root)  # 0600
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as stream:
                stream.write(secrets.token_urlsafe(32) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            try:
                os.link(name, path)  # unlike a rename, it never replaces another grader's
            except FileExistsError:
                return False
        finally:
            os.unlink(name)
    except OSError as error:
        raise SecretError(
            f"This course has no secret, and {path} can't be written: "
            f"{error.strerror or error}. Make the folder writable, or put a long random text into "
            f"that file, or into the variable {VARIABLE}."
        ) from error
    return True


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SecretError(
            f"{path}, the secret of this course, can't be read: {why}. "
            "Make it readable for this account, or move it away to have a new one drawn."
        ) from error
    if not text:
        raise SecretError(
            f"{path} is empty: everybody could guess the hidden inputs. Remove it to have a secret "
            "drawn at random, or put a long random text into it."
        )
    return text
