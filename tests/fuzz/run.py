"""Fuzz for a while, and tell what was seen: ``make fuzz``, or ``FUZZ_MINUTES=60 make fuzz``.

``python -m tests.fuzz.run network`` takes only that target, ``-v`` tells all outcomes.

Every target has its turn, again and again, with new random examples. What fails is kept in
build/fuzz by hypothesis, which tries it first the next time.
"""

from __future__ import annotations

import os
import resource
import sys
import time
import traceback
import warnings
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.stateful import run_state_machine_as_test

from tests.fuzz import stage, test_programs, test_protocol, test_readers

KEPT = Path(__file__).resolve().parents[2] / "build" / "fuzz"
TURN = 300  # examples
MEASURED = 10  # every so many turns with the memory of each example, which takes longer


def main() -> int:
    """Returns 1 where something has failed."""
    minutes = float(os.environ.get("FUZZ_MINUTES", "10"))
    end = time.monotonic() + 60 * minutes
    warnings.simplefilter("error")
    KEPT.mkdir(parents=True, exist_ok=True)
    names = ("network", "programs", *test_readers.TARGETS)
    wanted = [name for name in sys.argv[1:] if name in names] or names
    figures = {name: stage.Figures() for name in wanted}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    turn = 0
    while time.monotonic() < end:
        turn += 1
        for name, seen in figures.items():
            stage.FIGURES, began = seen, time.monotonic()
            try:
                _target(name, turn % MEASURED == 1)()
            except Exception:
                traceback.print_exc()
                print(f"\n{name} failed; the example is kept in {KEPT}", file=sys.stderr)
                return 1
            seen.seconds += time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, seen in figures.items():
        print(seen.told(name))
        for outcome, count in seen.outcomes.most_common(200 if "-v" in sys.argv else 5):
            print(f"  {count:8}  {outcome}")
    print(f"process: {before >> 10} MiB at the beginning, at most {after >> 10} MiB")
    return 0


def _target(name: str, measured: bool):  # type: ignore[no-untyped-def]
    often = settings(
        max_examples=TURN if name == "network" else TURN // 3,
        deadline=None,
        database=DirectoryBasedExampleDatabase(KEPT),
        suppress_health_check=list(HealthCheck),
    )
    if name == "programs":
        fewer = settings(often, max_examples=TURN // 5, stateful_step_count=25)
        return lambda: run_state_machine_as_test(test_programs.Programs, settings=fewer)
    if name == "network":
        return often(given(st.data())(lambda data: test_protocol.attack(data, measured)))
    return often(given(st.data())(test_readers.TARGETS[name]))


if __name__ == "__main__":
    sys.exit(main())
