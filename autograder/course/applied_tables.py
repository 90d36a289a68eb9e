"""What nbgrader's gradebook was told of our tables, so that a removed line takes its effect back.

The gradebook keeps a due date and an extension, and not who set them. A table of our own in the
same file says what came from us:

    nbgrader's value    ours is    it is
    none, or as told    another    ours to change: ours is written, or nothing where ours is none
    as ours             as well    noted as told
    another             whatever   a person's, who set it in nbgrader: it goes first

Of a cell it notes likewise what of its points is ours: a decision, a partner's points, the suite's.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

__all__ = ["DUE", "Told", "agreed", "read", "write"]

DUE = ""  # stands for the student where an assignment's due date is meant
_TABLE = "ringside_told"  # assignment, student, value

Value = datetime.datetime | datetime.timedelta | str | None
# (assignment, student), or (assignment/cell/what is noted, student) -> the value as text
Told = Mapping[tuple[str, str], str]


def read(book: Any) -> Told:
    """All that the gradebook was told."""
    sql = book.db.connection().exec_driver_sql
    if not sql("SELECT 1 FROM sqlite_master WHERE name = ?", (_TABLE,)).first():
        return {}
    rows = sql(f"SELECT assignment, student, value FROM {_TABLE}")
    return {(str(name), str(student)): str(value) for name, student, value in rows}


def agreed(told: Told, key: tuple[str, str], recorded: Value) -> bool:
    """Whether what the gradebook has is ours to change."""
    return recorded is None or told.get(key) == _text(recorded)


def write(book: Any, key: tuple[str, str], value: Value) -> None:
    """Note what the gradebook is told; the caller commits."""
    if read(book).get(key) == (None if value is None else _text(value)):
        return
    columns = "assignment TEXT, student TEXT, value TEXT, PRIMARY KEY (assignment, student)"
    # In the session's own transaction: a note is kept with what it is about, or neither is.
    sql = book.db.connection().exec_driver_sql
    sql(f"CREATE TABLE IF NOT EXISTS {_TABLE} ({columns})")
    if value is None:
        sql(f"DELETE FROM {_TABLE} WHERE assignment = ? AND student = ?", key)
    else:
        sql(f"INSERT OR REPLACE INTO {_TABLE} VALUES (?, ?, ?)", (*key, _text(value)))


def _text(value: Value) -> str:
    if isinstance(value, datetime.timedelta):
        return f"{value.total_seconds():g} s"
    if isinstance(value, str):
        return value
    return "" if value is None else value.isoformat()
