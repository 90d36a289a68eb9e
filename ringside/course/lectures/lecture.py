"""A lecture: a text source in the percent format, and the executed notebook beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ringside.errors import RingsideError


class LectureError(RingsideError):
    """A lecture that cannot be built, or whose notebook doesn't belong to its text."""


@dataclass(frozen=True)
class Lecture:
    """A text source and the notebook beside it."""

    source: Path

    @property
    def name(self) -> str:
        return self.source.stem

    @property
    def notebook(self) -> Path:
        return self.source.with_suffix(".ipynb")

    @property
    def tree(self) -> Path:
        """The folder that holds ``lectures/`` and ``ringside/``."""
        return self.source.resolve().parent.parent


def find(folder: Path, names: Sequence[str] = ()) -> list[Lecture]:
    """Return the lectures of a folder, all or those named (``03_allreduce``, or ``03``).

    Raises:
        LectureError: a name that no lecture has.
    """
    lectures = [Lecture(path) for path in sorted(folder.resolve().glob("[0-9][0-9]_*.py"))]
    chosen = []
    for name in names:
        stem = Path(name).stem
        matching = [one for one in lectures if one.name == stem or one.name.startswith(f"{stem}_")]
        if not matching:
            choices = ", ".join(one.name for one in lectures) or "none"
            raise LectureError(f"no lecture {name!r} in {folder}: there are {choices}.")
        chosen += matching
    return chosen if names else lectures
