"""The file of results as a page reads it, and numbers as the cells of its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ringside.units import three_digits

Item = dict[str, Any]
DASH = "—"


class Results:
    """The file of results, by section and name; absent numbers are None."""

    def __init__(self, results: dict[str, Any]) -> None:
        self.facts: dict[str, Any] = results["facts"]
        self.sections: dict[str, Any] = results["sections"]

    def items(self, section: str, start: str = "") -> dict[str, Item]:
        """What was measured of a section, names without their start."""
        items = self.sections.get(section, {}).get("items", {})
        return {
            name.removeprefix(start): item
            for name, item in items.items()
            if name.startswith(start) and not {"error", "skipped"} & item.keys()
        }

    def number(self, section: str, item: str, key: str) -> float | None:
        """One number."""
        return self.items(section).get(item, {}).get(key)

    def peak(self, kind: str) -> float | None:
        """Of the data sheet, in FLOP/s or bytes a second."""
        value = (self.facts.get("data_sheet") or {}).get(kind)
        return None if value is None else float(value)


def table(heads: str, rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table; the heads are divided by bars."""
    columns = heads.count("|") + 1
    yield from (f"| {heads} |", "|---" + "|---:" * (columns - 1) + "|")
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def shown(form: Callable[[float], str], value: float | None) -> str:
    """A number in its form, or a dash."""
    return DASH if value is None else form(value)


def per(value: float | None, other: float | None) -> float | None:
    """Their quotient, where both are there."""
    return None if value is None or not other else value / other


def tera(value: float) -> str:
    """FLOP/s or FLOP, in 10^12; small ones with three digits as well."""
    return three_digits(value / 1e12)


def giga(value: float) -> str:
    """Bytes a second, in 10^9."""
    return three_digits(value / 1e9)


def percent(value: float) -> str:
    """A share."""
    return f"{value:.0%}"


def two(value: float) -> str:
    """A quotient or a few bytes."""
    return f"{value:.2f}"
