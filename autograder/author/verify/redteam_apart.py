"""Attacks in processes of their own, which end with all that an attack leaves behind in them.

A few attacks share a process, so that the libraries are imported once for all of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from autograder.author.verify.attacks import Attack
from ringside import kit

TOGETHER = 6  # attacks in one process
Outcomes = dict[str, dict[str, Any]]


def run(attacks: Sequence[Attack]) -> Outcomes:
    """The outcome of each attack by its name, as `redteam_run --json` prints it.

    An attack that ends the process leaves no outcome; its faults say so.
    """
    names = [attack.name for attack in attacks]
    process = subprocess.run(
        [sys.executable, "-m", "autograder.author.verify.redteam_run", *names, "--json"],
        cwd=kit.ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    outcomes = {name: _lost(f"there is no outcome: {process.stderr[-2000:]}") for name in names}
    for line in process.stdout.splitlines():
        outcome = json.loads(line)
        outcomes[outcome["attack"]] = outcome
    return outcomes


def run_all(
    attacks: Sequence[Attack],
    *,
    jobs: int,
    deadline_s: float,
    progress: Callable[[Outcomes], None] = lambda outcomes: None,
) -> Outcomes:
    """The outcomes of many attacks, `jobs` processes at once; what is late has a fault."""
    started = time.monotonic()
    groups = [attacks[at : at + TOGETHER] for at in range(0, len(attacks), TOGETHER)]

    def one(group: Sequence[Attack]) -> Outcomes:
        if time.monotonic() - started <= deadline_s:
            return run(group)
        late = _lost(f"not run in {deadline_s:g} s") | {"not_run": True}
        return {attack.name: late for attack in group}

    outcomes: Outcomes = {}
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        for some in pool.map(one, groups):
            outcomes |= some
            progress(some)
    return outcomes


def _lost(fault: str) -> dict[str, Any]:
    return {"ok": False, "status": "", "percent": 0.0, "faults": [fault]}


def faults(outcomes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line for each fault of each attack."""
    return [
        f"redteam/{name}: {fault}"
        for name, outcome in outcomes.items()
        for fault in outcome["faults"]
    ]


def summary(assignment: str, outcomes: Mapping[str, Mapping[str, Any]]) -> str:
    """How many attacks gain what they may, and a line for each fault."""
    held = sum(outcome["ok"] for outcome in outcomes.values())
    first = f"{assignment}: {held} of {len(outcomes)} attacks gain what they may"
    return "\n".join([first, *(f"  {fault}" for fault in faults(outcomes))])
