"""Where things are in a timeline's picture: times to the right, a row for each rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SHARE_WIDTH = 64.0  # of the column at the right that shows how each rank spent its time


@dataclass(frozen=True)
class Layout:
    """Where things are, in pixels."""

    width: float
    left: float  # where time 0 is
    right: float  # where `until_s` is
    edge: float  # where rows end: beyond `right` if some rank never finishes
    top: float  # of the first row
    pitch: float  # from row to row
    bar: float  # height of a bar
    rows: dict[int, int]  # rank -> row
    until_s: float
    names: Mapping[int, str] = field(default_factory=dict)  # of rows that stand for several ranks

    def x(self, time_s: float) -> float:
        return self.left + (self.right - self.left) * time_s / (self.until_s or 1.0)

    def y(self, rank: int) -> float:
        """The upper edge of a rank's bar."""
        return self.top + self.rows[rank] * self.pitch + (self.pitch - self.bar) / 2

    @property
    def bottom(self) -> float:
        return self.top + (max(self.rows.values(), default=-1) + 1) * self.pitch


def row_sizes(num_rows: int) -> tuple[float, float]:
    """Pitch and bar height: few ranks get room for arrows and words, many get a line each."""
    sizes = ((4, 46.0, 26.0), (8, 36.0, 20.0), (16, 26.0, 15.0), (32, 16.0, 12.0), (64, 10.0, 8.0))
    for most, pitch, bar in sizes:
        if num_rows <= most:
            return pitch, bar
    pitch = max(3.0, 640 / num_rows)
    return pitch, max(2.0, 0.8 * pitch)
