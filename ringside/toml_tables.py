"""What a table of ours may hold. What it may not is an error with the file, the key, the cure.

A word that is passed over in silence (``duedate`` for ``due``) is a date that nobody
keeps. So is a right word in the wrong place: in TOML what stands below ``[[module]]`` is that
module's.
"""

from __future__ import annotations

import datetime
import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = [
    "EXAMPLE", "NUMBER", "Kinds", "TableError", "check", "line_of", "meant", "moment", "read",
]  # fmt: skip

Kinds = Mapping[str, type | tuple[type, ...]]  # key -> what its value may be
NUMBER = (int, float)
_WANTED = {
    bool: "true or false", str: "a text", int: "a whole number", NUMBER: "a number",
    list: "a list", dict: "a table", datetime.datetime: "a date with a time",
}  # fmt: skip
EXAMPLE = "2026-03-01T23:59:00Z"


class TableError(ValueError):
    """Something in a table that it may not hold; the message names where, what and the cure."""


def read(path: Path) -> dict[str, Any]:
    """A TOML file's tables.

    Raises:
        TableError: it is no TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TableError(f"{path}: {error}") from None


def check(
    table: Mapping[str, Any],
    kinds: Kinds,
    where: str = "",
    *,
    needs: Iterable[str] = (),
    above: Iterable[str] = (),
) -> None:
    """Compare a table with what it may hold.

    Args:
        where: the table in words, such as ``[[module]] 'ring'``; empty at the top of a file.
        needs: keys that must be there.
        above: keys that belong to the top of the file, so above all ``[tables]``.

    Raises:
        TableError: a key is unknown, misplaced or missing, or a value of another kind.
    """
    start = f"{where}: " if where else ""
    for key, value in table.items():
        if key not in kinds:
            setting = f"{start}{key} = {_shown(value)}"
            if key in above:
                raise TableError(
                    f"{setting} stands below {where.partition(' ')[0]} and so belongs to it; move "
                    "it above the first line that begins with [."
                )
            raise TableError(f"{setting}: there is no such key; {meant(key, kinds)}")
        kind = kinds[key]
        # A bool is an int to Python, and no number in a table.
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            example = f", like {EXAMPLE}" if kind is datetime.datetime else ""
            raise TableError(f"{start}{key} = {_shown(value)}: {_WANTED[kind]} is wanted{example}.")
    for key in needs:
        if key not in table:
            raise TableError(f"{start}{key} is missing.")


def _shown(value: object) -> str:
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)[:80]


def meant(word: str, known: Iterable[str]) -> str:
    """What to say of a word that isn't known: the nearest one, else all.

    >>> meant("duedate", ["title", "due"])
    "did you mean 'due'?"
    >>> meant("colour", ["title", "due"])
    'known are due, title.'
    """
    names = sorted(known)
    starts = [name for name in names if len(name) > 2 and word.lower().startswith(name)]
    near = starts or difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names) or 'none'}."


def line_of(path: Path, key: str, table: str = "") -> str:
    """``, line 7`` where one line of the file alone sets `key`; else nothing.

    Args:
        table: the name of the ``[table]`` that the line stands in; empty: anywhere.
    """
    numbers, inside = [], ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if head := re.match(r"\s*\[+\s*([\w.-]+)", line):
            inside = head[1]
        elif re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
            numbers += [number] if table in ("", inside) else []
    return f", line {numbers[0]}" if len(numbers) == 1 else ""


def moment(value: datetime.datetime) -> datetime.datetime:
    """A moment of a table; without a zone it is UTC."""
    return value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
