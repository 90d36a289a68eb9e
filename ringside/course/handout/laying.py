"""A new students' tree from an installed package: `ringside start`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ringside import kit
from ringside.course.handout.manifest import Handout, HandoutError, files_of
from ringside.output_folder import beside, replace

__all__ = ["lay"]


def lay(folder: Path) -> Path:
    """Lay the course's assignments, lectures and pages out in a new folder; return it.

    Raises:
        HandoutError: the package has none, or the folder holds something.
        OSError: it can't be written.
    """
    source = kit.handout_folder()
    if source is None:
        raise HandoutError(
            "this kit is used from a tree, which has its assignments and lectures already: "
            "`ringside start` lays out those that an installed package brings."
        )
    target = folder.resolve()
    if os.path.lexists(target) and (not target.is_dir() or any(target.iterdir())):
        raise HandoutError(
            f"{target} is there already: name a new folder, or bring it up to date with "
            "`ringside update`."
        )
    with beside(target) as fresh:
        for name, path in files_of(source):
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, fresh / name)
        Handout.of(fresh).write(fresh)
        replace(fresh, target)
    return target
