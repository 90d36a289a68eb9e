"""Which run a failure's timeline shows."""

from __future__ import annotations

from ringside.checking.assertions import Verdict
from ringside.session.session import Result

_KINDS = ("schedule", "speed")  # where a reader wants to see what came when
_MOST_OPS = 20_000  # drawn in less time than the run took


def pictured(kind: str, verdict: Verdict) -> Result | None:
    """The run that failed a test of this kind, if it is worth its picture."""
    run = verdict.run
    if kind not in _KINDS or not isinstance(run, Result):
        return None
    counts = list(map(len, run.trace.ops))
    return run if len(counts) > 1 and 0 < sum(counts) <= _MOST_OPS else None
