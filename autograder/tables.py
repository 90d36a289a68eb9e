"""Our tables: lists in CSV, which are read here, and TOML, which ``ringside.toml_tables`` reads.

A line that a list may not hold is an error with the file, the line and the cure.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from ringside.toml_tables import (
    EXAMPLE,
    NUMBER,
    Kinds,
    TableError,
    check,
    line_of,
    meant,
    moment,
    read,
)

__all__ = [
    "EXAMPLE", "NUMBER", "Kinds", "TableError", "check", "line_of", "meant", "moment", "read",
    "rows",
]  # fmt: skip


def rows(
    path: Path, columns: Sequence[str], also: Sequence[str] | None = None
) -> Iterator[tuple[int, dict[str, str]]]:
    """The lines of a list of ours: its number in the file, and the cells without blanks around.

    Args:
        columns: what the first line must name, in any order.
        also: what it may name besides; None: anything, as a learning platform's list has.

    Raises:
        TableError: the first line names something else, or a line has other cells than it.
    """
    first = ",".join(columns)
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream)
            names = [str(name).strip() for name in reader.fieldnames or ()]
            reader.fieldnames = names
            header = f"{path}: its first line is {','.join(names)!r}"
            if missing := [name for name in columns if name not in names]:
                raise TableError(f"{header}; {missing[0]} isn't in it. Write {first}.")
            strangers = [n for n in names if n not in columns and n not in (also or ())]
            if also is not None and strangers:
                raise TableError(f"{header}; {strangers[0]!r} is no column of it. Write {first}.")
            for row in reader:
                if None in row or None in row.values():
                    count = sum(cell is not None for cell in row.values())
                    count += len(row[None]) - 1 if None in row else 0
                    raise TableError(
                        f"{path}, line {reader.line_num}: {count} cells, where the first line "
                        f"names {len(names)}: {', '.join(names)}."
                    )
                yield reader.line_num, {name: cell.strip() for name, cell in row.items()}
    except (UnicodeDecodeError, csv.Error) as error:
        raise TableError(f"{path}: {error}. Save it as CSV, in UTF-8, with commas.") from None
