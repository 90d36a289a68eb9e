"""A platform's own list of students, in which our marks are filled in.

A student here has one name (nbgrader's id, or the folder's name). It is looked for in the columns
that identify people on the platform, whole or as the part of an address before the ``@``, without
regard to case. A name that fits no row, or two, is an error: nothing is guessed from real names.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.gradebook.marks import ExportError, Mark
from autograder.safe_csv import write_csv


@dataclass
class Roster:
    """A CSV as it came: its columns in order, and its rows."""

    path: Path
    columns: list[str]
    rows: list[dict[str, str]]

    @classmethod
    def read(cls, path: Path) -> Roster:
        """Read a CSV with a line of column names; `,` or `;` between cells.

        Raises:
            ExportError: it can't be read, or a column is named twice.
        """
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ExportError(f"{path} is no UTF-8: save it as CSV UTF-8.") from error
        except OSError as error:
            raise ExportError(f"{path} can't be read: {error}") from error
        first = text.split("\n", 1)[0]
        between = ";" if first.count(";") > first.count(",") else ","
        table = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=between) if row]
        if not table:
            raise ExportError(f"{path} is empty.")
        columns = [name.strip() for name in table[0]]
        twice = sorted({name for name in columns if name and columns.count(name) > 1})
        if twice:
            raise ExportError(f"{path} has more than one column {twice[0]!r}.")
        rows = [dict(zip(columns, row + [""] * len(columns), strict=False)) for row in table[1:]]
        return cls(path, columns, rows)

    def match(
        self, marks: Sequence[Mark], keys: Sequence[str], *, leave_out: bool = False
    ) -> dict[int, Mark]:
        """The mark of each row, by the row's index; `keys` are the columns that identify people.

        Raises:
            ExportError: a student is in no row (unless `leave_out`), or in two.
        """
        present = [key for key in keys if key in self.columns]
        if not present:
            raise ExportError(
                f"{self.path} has none of the columns {', '.join(keys)}, which say who is who; "
                f"it has {', '.join(self.columns)}."
            )
        where: dict[str, set[int]] = {}
        for at, row in enumerate(self.rows):
            for key in present:
                for name in _names(row[key]):
                    where.setdefault(name, set()).add(at)
        by_row: dict[int, Mark] = {}
        missing = []
        for mark in marks:
            at_rows = where.get(mark.student.strip().lower()) or where.get(
                mark.email.strip().lower() or "\0", set()
            )
            if len(at_rows) > 1 or (at_rows and next(iter(at_rows)) in by_row):
                raise ExportError(f"{self.path}: more than one row or student is {mark.student!r}.")
            if at_rows:
                by_row[at_rows.pop()] = mark
            else:
                missing.append(mark.student)
        if missing and not leave_out:
            raise ExportError(
                f"{len(missing)} of {len(marks)} students are in no row of {self.path}: "
                f"{', '.join(missing[:20])}{', ...' if len(missing) > 20 else ''}. Looked for in "
                f"{', '.join(present)}. Add them there, or leave them out by --leave-out-unmatched."
            )
        return by_row


def _names(cell: str) -> set[str]:
    name = cell.strip().lower()
    number = name.removeprefix("participant ")  # in Moodle's worksheet
    return {key for key in (name, name.partition("@")[0], number) if key}


def write(path: Path, columns: Sequence[str], rows: Sequence[dict[str, object]]) -> None:
    """Write a CSV that no spreadsheet executes; a dash alone, as Moodle writes, stays one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_csv(path, columns, rows, as_is=("-",))
