"""How far grading a class is, how fast it goes, and when it will be done.

    grading ━━━━━━━━╺━━━━━━━━━━ 212/700 modules · 38 a minute · about 13 min left

On a terminal that is a line which changes; elsewhere, such as in the log of a job, a line is
written every half a minute, for classes that are large enough to be waited for.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from autograder.grade.pipeline import Note

__all__ = ["Pace", "duration", "shown"]

_EVERY_S = 30.0
_LARGE = 20  # modules to grade


class Pace:
    """Counts what is graded, and tells how long the rest takes.

    What is in the store already is done before the first call, and says nothing of the speed.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: float | None = None
        self.stored = self.done = self.total = 0

    def note(self, done: int, total: int) -> None:
        """So many modules have a result; the first call is made before any is graded."""
        if self._began is None:
            self._began, self.stored = self._clock(), done
        self.done, self.total = done, total

    @property
    def per_minute(self) -> float | None:
        """Modules graded a minute so far; None before the first."""
        graded = self.done - self.stored
        if self._began is None or graded <= 0:
            return None
        return 60.0 * graded / max(self._clock() - self._began, 1e-3)

    @property
    def left_s(self) -> float | None:
        """Seconds that the rest takes at this pace; None where nothing is known of it."""
        if self.done >= self.total:
            return 0.0
        return (
            None if self.per_minute is None else 60.0 * (self.total - self.done) / self.per_minute
        )

    def __str__(self) -> str:
        parts = [f"{self.done}/{self.total} modules"]
        if self.stored:
            parts.append(f"{self.stored} were stored")
        if self.per_minute is not None:
            parts.append(f"{self.per_minute:.0f} a minute")
        if self.left_s:
            parts.append(f"about {duration(self.left_s)} left")
        return " · ".join(parts)


@contextmanager
def shown(
    stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[Note]:
    """Show how far it is, on standard error; gives what is to be called with each step."""
    stream = stream or sys.stderr
    pace = Pace(clock)
    screen = Console(file=stream)
    if not screen.is_terminal:
        yield _lines(pace, stream, clock)
        return
    columns = (TextColumn("grading"), BarColumn(), TextColumn("{task.fields[pace]}"))
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("modules", total=None, pace="")

        def note(done: int, total: int) -> None:
            pace.note(done, total)
            bar.update(task, completed=done, total=total, pace=str(pace))

        yield note


def _lines(pace: Pace, stream: TextIO, clock: Callable[[], float]) -> Note:
    said_at = clock()

    def note(done: int, total: int) -> None:
        nonlocal said_at
        pace.note(done, total)
        large = total - pace.stored >= _LARGE
        if large and done < total and clock() - said_at >= _EVERY_S:
            said_at = clock()
            print(f"grading: {pace}", file=stream, flush=True)

    return note


def duration(seconds: float) -> str:
    """In the unit that a person would use.

    >>> duration(40), duration(200), duration(7300)
    ('40 s', '3 min', '2.0 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
