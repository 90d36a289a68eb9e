"""A course's folder on this machine: where it is, and what other accounts can read of it.

What an instructor keeps (the secret, hidden suites, submissions, grades) is for no student's eyes.
A folder that its owner alone may enter (0700) hides all that lies below it.
"""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Sequence
from pathlib import Path

__all__ = ["CONFIG", "course_above", "exposed", "is_course", "others_read", "shared_machine"]

CONFIG = "nbgrader_config.py"
_OF_COURSE = (
    "course_secret.txt", "build/submitted", "build/gradebook.db", "build/extensions.csv",
    "build/receipts", "build/graded", "build/autograded", "build/feedback", "build/results",
    "build/source",
)  # fmt: skip
_OF_KIT = ("course_secret.txt", "solutions")
_NO_PERSON = ("nologin", "false", "sync", "")


def course_above(start: str | Path | None = None) -> Path | None:
    """The nearest folder from `start` upwards that is a course; None where there is none."""
    try:
        folder = Path(os.getcwd() if start is None else start).resolve()
    except FileNotFoundError:  # the current folder was removed
        return None
    return next((path for path in (folder, *folder.parents) if is_course(path)), None)


def is_course(folder: Path) -> bool:
    """Whether nbgrader's settings there are ours; those of the kit itself make no course."""
    try:
        ours = b"autograder." in (folder / CONFIG).read_bytes()
    except OSError:
        return False
    return ours and not (folder / "autograder").is_dir()


def others_read(root: Path, kit: Path) -> list[str]:
    """What other accounts can read of a course and its kit: a sentence a folder, with the cure."""
    sentences = []
    for folder, names in {kit: _OF_KIT, root: _OF_COURSE}.items():
        looked_at = dict.fromkeys((*_OF_KIT, *_OF_COURSE) if root == kit else names)
        paths = exposed([folder / name for name in looked_at])
        if paths:
            real_path = folder.resolve()
            these = ", ".join(os.path.relpath(path, folder) for path in paths)
            sentences.append(
                f"Other accounts of this machine can read {these} in {real_path}. "
                f"`chmod go-rwx {shlex.quote(str(real_path))}` keeps them out."
            )
    return sentences


def exposed(paths: Sequence[Path]) -> list[Path]:
    """Those of `paths` that are there, and that somebody else than their owner can read."""
    return [path for path in paths if _is_exposed(path)]


def _is_exposed(path: Path) -> bool:
    try:
        real_path = path.resolve(strict=True)
        status = real_path.stat()
        above = [parent.stat() for parent in real_path.parents]
    except OSError:
        return False
    # A folder that may be entered is as good as read: the names in it are no secret.
    bits = 0o5 if stat.S_ISDIR(status.st_mode) else 0o4
    if status.st_mode & bits and all(folder.st_mode & 0o1 for folder in above):
        return True
    # Unix asks one class of bits alone: a member of a folder's group gets the group's bits there,
    # also where all others have more.
    group = status.st_gid
    return (
        bool(status.st_mode & (bits << 3))
        and all(folder.st_mode & (0o10 if folder.st_gid == group else 0o1) for folder in above)
        and not _meant_for(group, [status, *above])
    )


def _meant_for(group: int, folders: Sequence[os.stat_result]) -> bool:
    """Whether a group is its owner's own, or a folder was given to it on purpose (``g+s``)."""
    if any(folder.st_gid == group and folder.st_mode & stat.S_ISGID for folder in folders):
        return True
    try:
        entry, owner = grp.getgrgid(group), pwd.getpwuid(folders[0].st_uid).pw_name
    except KeyError:
        return False
    return entry.gr_name == owner and not set(entry.gr_mem) - {owner}


def shared_machine() -> bool:
    """Whether other people have accounts here, as far as this machine's own list of them tells.

    Not asked of machines that test (the variable CI): nobody works there.
    """
    if os.environ.get("CI"):
        return False
    if _asks_elsewhere():
        return True
    return any(
        # UID_MIN and UID_MAX of Debian's login.defs: accounts of people.
        1000 <= account.pw_uid < 60_000
        and account.pw_uid != os.getuid()
        and Path(account.pw_shell).name not in _NO_PERSON
        for account in pwd.getpwall()
    )


def _asks_elsewhere() -> bool:
    """Whether accounts come from a directory service too, which may not list them."""
    try:
        lines = Path("/etc/nsswitch.conf").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    sources = [line.partition(":")[2].split() for line in lines if line.startswith("passwd:")]
    return any({"ldap", "sss", "winbind", "nis", "nisplus"} & set(names) for names in sources)
