"""What an assignment's notebook is worth, read from its cells: modules, run, texts.

    check_ring      a code cell that checks a module; 0 points: the module is extra credit
    ring_cluster    another graded code cell: the run on a cluster
    cluster_report  a graded markdown cell: a text that a person grades

Grading takes points from the course's own plan; these are what the student was told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringside.checking import notebook

STUB = "Your text here"  # what stands in a text's cell when it is released
_CHECK = "check_"


@dataclass(frozen=True)
class Text:
    """A cell that is graded by hand."""

    name: str
    points: float
    notebook: str
    number: int  # of the cell, from 1
    written: bool

    @property
    def notice(self) -> str:
        """What to say before it is handed in without a text."""
        return (
            f'the text {self.name!r} (cell {self.number} of {self.notebook}) still holds "{STUB}": '
            f"it is worth {self.points:g} points, by hand."
        )


@dataclass(frozen=True)
class Worth:
    """The points of a folder's notebooks."""

    modules: float
    run: float
    texts: tuple[Text, ...]
    extra: tuple[str, ...]

    @property
    def total(self) -> float:
        """The handout's total; extra credit comes on top."""
        return self.modules + self.run + sum(text.points for text in self.texts)

    def sentence(self, *, has_run: bool) -> str:
        """The total and its parts; empty where nothing is graded."""
        if not self.total:
            return ""
        parts = [f"modules {self.modules:g}"]
        if self.run:
            parts.append(f"run.json {self.run:g} ({'it is there' if has_run else 'none is there'})")
        if self.texts:
            number = sum(text.points for text in self.texts)
            parts.append(f"{'texts' if len(self.texts) > 1 else 'text'} {number:g}, by hand")
        extra = f"; extra credit on top: {', '.join(self.extra)}" if self.extra else ""
        return f"{self.total:g} points in all: {', '.join(parts)}{extra}."


def of_notebooks(books: Sequence[Path]) -> Worth:
    """What the cells of some notebooks are worth."""
    modules, run, texts, extra = 0.0, 0.0, [], []
    for number, cell, name, points, book in _graded_cells(books):
        if cell.get("cell_type") == "markdown":
            source = cell.get("source", "")
            text = "".join(source) if isinstance(source, list) else str(source)
            texts.append(Text(name, points, book.name, number, STUB not in text))
        elif not name.startswith(_CHECK):
            run += points
        elif points:
            modules += points
        else:
            extra.append(name.removeprefix(_CHECK))
    return Worth(modules, run, tuple(texts), tuple(extra))


def _graded_cells(
    books: Sequence[Path],
) -> Iterator[tuple[int, dict[str, Any], str, float, Path]]:
    for book in books:
        for number, cell in enumerate(notebook.read(book)["cells"], start=1):
            metadata = cell.get("metadata") if isinstance(cell, dict) else None
            marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
            if not isinstance(marks, dict) or not marks.get("grade"):
                continue
            points = marks.get("points")
            worth = float(points) if isinstance(points, int | float) else 0.0
            yield number, cell, str(marks.get("grade_id", "")), worth, book
