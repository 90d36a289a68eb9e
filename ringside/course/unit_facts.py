"""The facts of a unit: what the map, the first page and the calendars say of it.

    solutions/aNN_name/assignment.toml    [unit]: where an instructor writes them
    assignments/aNN_name/aNN_name.ipynb   its metadata: where the build puts them, with the hours
    lectures/NN_name.toml                 [unit]: of a lecture that has no assignment

The map reads the last two, so it can be drawn where no solutions are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ringside import toml_tables
from ringside.toml_tables import NUMBER, Kinds, TableError

__all__ = ["KEY", "UnitFacts", "of_lecture", "of_notebook", "parse"]

KEY = "unit"  # of the table, and of the notebook's metadata
_KINDS: Kinds = {"name": str, "after": list, "can": str, "column": NUMBER}


@dataclass(frozen=True)
class UnitFacts:
    """What a unit says of itself; all of it may be left out.

    Attributes:
        name: what fits into its box on the map; empty: made of the file's name.
        after: the numbers of the units that it builds upon directly.
        can: what a student can do after it: "After this course you can ...".
        column: of its box, 0 to 3, where arrows over several rows pass beside boxes.
        hours: of each of the assignment's modules; None where no build has said.
        core: the modules that make up the assignment's total; the others are extra.
    """

    name: str = ""
    after: tuple[str, ...] = ()
    can: str = ""
    column: float = 0.0
    hours: Mapping[str, float] | None = None
    core: tuple[str, ...] = ()

    def in_notebook(self, hours: Mapping[str, float], core: Iterable[str]) -> dict[str, Any]:
        """What the build writes into a notebook's metadata."""
        facts = asdict(replace(self, hours=dict(hours)))
        return facts | {"after": list(self.after), "core": list(core)}


def parse(table: Mapping[str, Any], number: str) -> UnitFacts:
    """Read a table ``[unit]``.

    Args:
        number: of the unit, in two digits.

    Raises:
        TableError: it holds something else, or the unit is to come after a later one.
    """
    toml_tables.check(table, _KINDS, f"[{KEY}]")
    after = table.get("after", [])
    for one in after:
        if not isinstance(one, str) or not (len(one) == 2 and one.isdecimal()):
            raise TableError(f'[{KEY}]: after = {after!r}: numbers of units are wanted, as "03".')
        if one >= number:
            raise TableError(
                f"[{KEY}]: after = {after!r}: unit {number} can build upon units with lower "
                f"numbers only, and {one} is none."
            )
    return UnitFacts(**{**table, "after": tuple(after), "column": float(table.get("column", 0))})


def of_lecture(path: Path) -> UnitFacts | None:
    """The facts beside a lecture's text; None where there are none.

    Raises:
        TableError: the file holds something else.
    """
    source = path.with_suffix(".toml")
    if not source.is_file():
        return None
    table = toml_tables.read(source)
    try:
        toml_tables.check(table, {KEY: dict}, needs=(KEY,))
        return parse(table[KEY], path.name[:2])
    except TableError as error:
        raise TableError(f"{source}: {error}") from None


def of_notebook(path: Path) -> UnitFacts:
    """The facts that the build has put into an assignment's notebook; none before it has.

    Raises:
        TableError: its metadata hold something else.
    """
    metadata = json.loads(path.read_text(encoding="utf-8")).get("metadata", {})
    table = dict(metadata.get(KEY, {}))
    hours, core = table.pop("hours", None), tuple(table.pop("core", ()))
    try:
        return replace(parse(table, path.name[1:3]), hours=hours, core=core)
    except TableError as error:
        raise TableError(f"{path}: {error} `autograder build {path.stem}` writes it.") from None
