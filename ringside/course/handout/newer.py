"""The newer handout: a folder, a checkout, a zip, or what the installed package brings."""

from __future__ import annotations

import contextlib
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ringside import kit
from ringside.course.handout.manifest import NAME, HandoutError

__all__ = ["opened", "tree_above"]

_MAX_BYTES = 2 << 30


def tree_above(start: Path) -> Path:
    """The students' tree that a folder lies in.

    Raises:
        HandoutError: it lies in none, or in the course's own repository.
    """
    path = start.resolve()
    if not path.is_dir():
        raise HandoutError(f"{start} is no folder.")
    for folder in (path, *path.parents):
        if (folder / "solutions").is_dir() and (folder / "autograder").is_dir():
            raise HandoutError(
                f"{folder} is the course's own repository, not a students' tree: use `git pull`."
            )
        if (folder / NAME).is_file() or _looks_like_one(folder):
            return folder
    raise HandoutError(
        f"{path} lies in no students' tree: go to the folder that you unpacked, or name it with "
        "--tree FOLDER."
    )


def _looks_like_one(folder: Path) -> bool:
    """Whether it is a tree of the time before handouts listed their files."""
    return (folder / "assignments").is_dir() and (
        (folder / "ringside").is_dir() or (folder / "lectures").is_dir()
    )


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Path]:
    """Give the newer tree's folder; a zip is unpacked elsewhere while it is looked at.

    Raises:
        HandoutError: it is none, or a zip that is damaged or would write outside.
    """
    if path == kit.handout_folder():
        yield path  # packages hold no list: the files are as they were installed
        return
    if path.is_dir():
        yield _root_in(path)
        return
    if not path.is_file():
        raise HandoutError(f"there is no {path}: name the zip or the folder of the newer handout.")
    with tempfile.TemporaryDirectory(prefix="ringside-update-") as scratch:
        _unpack(path, Path(scratch))
        yield _root_in(Path(scratch), path)


def _root_in(folder: Path, named: Path | None = None) -> Path:
    """The folder itself or the only one in it that is a handout."""
    folders = [folder, *sorted(entry for entry in folder.iterdir() if entry.is_dir())]
    handouts = [path for path in folders if (path / NAME).is_file()]
    if not handouts:
        raise HandoutError(
            f"{named or folder} is no handout, for it has no {NAME}: give the zip or the folder "
            "that `autograder bundle` made."
        )
    if len(handouts) > 1 and handouts[0] != folder:
        names = ", ".join(path.name for path in handouts)
        raise HandoutError(f"{named or folder} holds several handouts ({names}): name one.")
    return handouts[0]


def _unpack(path: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            # What entries declare is enough: zipfile unpacks no more of one than its declared size.
            if sum(entry.file_size for entry in entries) > _MAX_BYTES:
                raise HandoutError(f"{path} would unpack to more than {_MAX_BYTES >> 30} GiB.")
            for entry in entries:
                parts = PurePosixPath(entry.filename.replace("\\", "/")).parts
                link = stat.S_ISLNK(entry.external_attr >> 16)
                if (
                    link
                    or ".." in parts
                    or entry.filename.startswith("/")
                    or ":" in "".join(parts[:1])
                ):
                    raise HandoutError(f"{path} has an entry that leads outside: {entry.filename}.")
                archive.extract(entry, folder)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise HandoutError(f"{path} is no whole zip: {error}. Download it again.") from None
