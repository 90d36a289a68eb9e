"""Keep the records of verification: write them, or see within a budget that they hold.

``write`` verifies parts whole and records what it saw. ``check`` writes nothing. It verifies

    fitting    some, drawn at random, again: what is seen must be as it is recorded, so that no
               record can be written by hand
    stale      those that the budget has room for, the cheapest ones first; the others wait
    unrecorded they wait, since there is no earlier result to compare with

What waits is named and fails nothing: whoever changed it runs ``make verify`` before the commit is
shared, or a later check has room for it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autograder.author.verify.record import Part, differences
from autograder.author.verify.whole import Seen

__all__ = ["Tally", "check", "write"]

_SHOWN = 20  # differences of a part
Look = Callable[[Part, float], Seen]  # verifies a part within so many seconds


@dataclass
class Tally:
    """How many parts are as they must be, how many not, and which wait."""

    passed: int = 0
    failed: int = 0
    waiting: list[Part] = field(default_factory=list)

    @property
    def closing(self) -> str:
        """The last line of the output."""
        return f"{self.passed} passed, {self.failed} failed"


def write(
    parts: Sequence[Part], look: Look, deadline_s: float, say: Callable[[str], None] = print
) -> Tally:
    """Verify all parts and record each that is as it must be, at once after it is seen."""
    tally = Tally()
    for part in parts:
        seen = look(part, deadline_s)
        say(seen.text)
        if seen.faults or seen.unfinished:
            tally.failed += 1
            why = "NOT as it must be" if seen.faults else f"not seen whole in {deadline_s:g} s"
            say("\n".join([f"{part.name}: {why}, not recorded", *_lines(seen.faults)]))
            continue
        tally.passed += 1
        changes = differences(part.read().get("seen", {}), seen.rows)
        path = part.write(seen.rows, seen.minutes)
        say(f"{part.name}: {len(changes)} rows differ from the last record; written to {path}")
    return tally


def check(
    parts: Sequence[Part],
    look: Look,
    *,
    again: int,
    minutes: float,
    say: Callable[[str], None] = print,
    draw: Callable[[Sequence[Part], int], list[Part]] = random.sample,
) -> Tally:
    """Verify stale parts, and some fitting ones again, within so many minutes in all."""
    tally, end = Tally(), time.monotonic() + 60 * minutes
    fitting = [part for part in parts if part.fits()]
    small = [part for part in fitting if part.minutes <= minutes]
    drawn = draw(small, min(again, len(small)))
    unrecorded = [part for part in parts if not part.read()]
    stale = [part for part in parts if part not in fitting and part not in unrecorded]
    stale.sort(key=lambda part: part.minutes)
    say(f"{len(fitting)} records fit, {len(stale)} are stale.")
    for part in [*drawn, *stale]:
        left_s = end - time.monotonic()
        if 60 * part.minutes > left_s:
            tally.waiting.append(part)
            continue
        seen = look(part, left_s)
        if seen.unfinished:
            tally.waiting.append(part)
            continue
        changes = differences(part.read().get("seen", {}), seen.rows)
        bad = bool(seen.faults or (changes and part in drawn))
        tally.failed += bad
        tally.passed += not bad
        say("\n".join(_judged(part, seen, changes, recorded=part in drawn)))
    if tally.waiting:
        costs = ", ".join(f"{part.name} ({part.minutes} min)" for part in tally.waiting)
        say(f"No time is left for: {costs}.")
    if unrecorded:
        say(f"Never recorded: {', '.join(part.name for part in unrecorded)}.")
    if to_record := [*stale, *unrecorded]:
        units = " ".join(dict.fromkeys(part.plan.name.partition("_")[0] for part in to_record))
        say(f'`make verify UNITS="{units}"` writes these records.')
    return tally


def _judged(part: Part, seen: Seen, changes: list[str], *, recorded: bool) -> list[str]:
    """What is said of a part."""
    if seen.faults:
        return [f"{part.name}: NOT as it must be", *_lines(seen.faults)]
    if not recorded:
        return [
            f"{part.name}: as it must be; {len(changes)} rows differ from the stale record",
            *_lines(changes),
        ]
    if changes:
        return [f"{part.name}: verified again, and NOT as it is recorded", *_lines(changes)]
    return [f"{part.name}: verified again, as it is recorded"]


def _lines(sentences: Sequence[str]) -> list[str]:
    more = [f"and {len(sentences) - _SHOWN} more"] if len(sentences) > _SHOWN else []
    return [f"  {sentence}" for sentence in [*sentences[:_SHOWN], *more]]
