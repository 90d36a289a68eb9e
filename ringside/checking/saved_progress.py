"""What `ringside check` and `handin` leave of an assignment's modules, for `ringside progress`.

    a03_allreduce/.ringside/standing.json
        {"modules": {"ring": {"earned": 95, "points": 100, "best": 100, "checked": "2026-11-..."}},
         "handed_in": "2026-11-...", "way": "exchange"}

It is the student's own view: nothing is graded by it. Where it can't be written or read, it is
as if nothing had been checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from ringside.files import write_atomically

__all__ = ["Standing", "add_hand_in", "add_points", "read"]

FILE = ".ringside/standing.json"


@dataclass(frozen=True)
class Points:
    """Public points of one module, at its last check and at its best one."""

    earned: float
    points: float
    best: float
    checked: str  # ISO 8601


@dataclass(frozen=True)
class Standing:
    """How far an assignment is."""

    modules: Mapping[str, Points] = field(default_factory=dict)
    handed_in: str = ""  # when the last time, as ISO 8601
    way: str = ""  # "exchange", or "zip": packed, and to be uploaded by hand


def read(folder: Path) -> Standing:
    """What is known of the assignment in a folder."""
    try:
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
        modules = {str(name): Points(**entry) for name, entry in content["modules"].items()}
        return Standing(modules, str(content["handed_in"]), str(content["way"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Standing()


def add_points(folder: Path, earned: Mapping[str, tuple[float, float]]) -> None:
    """Keep what modules have earned, of how many points; the best of earlier checks stays."""
    before, now = read(folder), _now()
    modules = dict(before.modules)
    for name, (points, of) in earned.items():
        old = modules.get(name)
        best = max(points, old.best) if old and old.points == of else points
        modules[name] = Points(points, of, best, now)
    _write(folder, replace(before, modules=modules))


def add_hand_in(folder: Path, way: str) -> None:
    """Keep that the assignment was handed in now, by the exchange or as a zip."""
    _write(folder, replace(read(folder), handed_in=_now(), way=way))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _write(folder: Path, standing: Standing) -> None:
    try:
        write_atomically(folder / FILE, json.dumps(asdict(standing), indent=1).encode())
    except OSError:  # a folder that can't be written: the check itself matters more
        return
