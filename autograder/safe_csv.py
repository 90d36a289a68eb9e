"""Tables as CSV that is safe to open in a spreadsheet, whatever students are called."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ringside.files import write_atomically

# What begins a formula, in any width; spreadsheets of some countries end a cell at ; or a tab.
_FORMULA = frozenset("=+-@|%\N{MINUS SIGN}")
_ENDS_CELL = re.compile("([;\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+)")
_NOT_SEEN = frozenset(("Cc", "Cf", "Zs", "Zl", "Zp"))  # controls, marks of order, spaces


def safe_cell(value: object) -> object:
    """A cell that no spreadsheet takes for a formula: text that looks like one is quoted.

    So is each part that a spreadsheet would take for a cell, were it told another separator.

    >>> safe_cell("=1+1"), safe_cell("ada"), safe_cell(-1.5)
    ("'=1+1", 'ada', -1.5)
    >>> safe_cell("ada;\uff1d1")
    "ada;'\uff1d1"
    """
    if isinstance(value, int | float):
        return value
    parts = _ENDS_CELL.split(str(value).replace("\x00", ""))
    text = "".join(f"'{part}" if _begins_formula(part) else part for part in parts)
    return f"'{text}" if text[:1] in ("\t", "\r", "\n") else text


def _begins_formula(text: str) -> bool:
    """Whether the first character that one sees begins a formula."""
    seen = (char for char in text if unicodedata.category(char) not in _NOT_SEEN)
    return unicodedata.normalize("NFKC", next(seen, ""))[:1] in _FORMULA


def write_csv(
    path: Path,
    columns: Sequence[str],
    table: Sequence[Mapping[str, object]],
    *,
    as_is: Collection[object] = (),
) -> None:
    """Write `table` with `columns`, every cell made safe but those that are one of `as_is`."""
    cells = ([row.get(column, "") for column in columns] for row in table)
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(map(safe_cell, columns))
    writer.writerows([cell if cell in as_is else safe_cell(cell) for cell in row] for row in cells)
    write_atomically(path, stream.getvalue().encode("utf-8", "replace"))  # names of any bytes
