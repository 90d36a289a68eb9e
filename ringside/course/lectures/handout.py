"""An executed notebook as slides and pages show it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ringside.course.lectures.build import Notebook, untyped
from ringside.course.lectures.lecture import LectureError


@dataclass(frozen=True)
class Handout:
    """A lecture's or an assignment's notebook."""

    path: Path
    is_lecture: bool

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def unit(self) -> str:
        """Two digits, by which a lecture and its assignment belong together."""
        return re.sub(r"\D*(\d\d).*", r"\1", self.name)

    @property
    def title(self) -> str:
        """The heading, without "Lecture 3:"."""
        first = self.read().cells[0].source.splitlines()[0]
        return re.sub(r"^# (?:Lecture \d+: )?", "", first)

    def read(self) -> Notebook:
        """Return the notebook, without what cells that write a file say about it.

        Raises:
            LectureError: there is none.
        """
        if not self.path.is_file():
            raise LectureError(f"{self.name} has not been executed: build it first.")
        notebook = untyped("nbformat").read(self.path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code" and cell.source.startswith("%%writefile"):
                cell.outputs = []
        return notebook
