"""One submission graded 20 times, half of them while both cores are kept busy.

    python benchmarks/repeatability.py

The submission asks for trouble: its star receives from ANY_SOURCE and its ring polls with Test.
Prints a digest of scores, messages, counts, traces and virtual times for each run; all must be the
same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import shutil
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from autograder.course import assignment as assignments
from autograder.grade.grading import grade_module, sources_in
from ringside import Session

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "solutions" / "a03_allreduce"
PLAN = assignments.load("a03_allreduce")
UNUSUAL = ROOT / "solutions" / "a03_allreduce" / "right"


def submission(folder: Path) -> None:
    """Modules whose course depends on calls that observe time."""
    for module in ("shards", "sharded_server", "recursive", "cost", "tree"):
        shutil.copy(REFERENCE / f"{module}.py", folder)
    shutil.copy(UNUSUAL / "star__any_source.py", folder / "star.py")
    shutil.copy(UNUSUAL / "ring__polls_with_test.py", folder / "ring.py")


def digest_of_grading(folder: Path) -> str:
    """Everything that grading says, less the real seconds it took."""
    sources = sources_in(PLAN, folder)
    names = [module.name for module in PLAN.modules]
    results = [grade_module(PLAN.name, sources, name, secret="repeatability") for name in names]
    for result in results:
        assert result.error is None, result.error
    return digest(without_seconds([asdict(result) for result in results]))


def without_seconds(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_seconds(item) for key, item in value.items() if key != "seconds"}
    return [without_seconds(item) for item in value] if isinstance(value, list) else value


def digest_of_traces(folder: Path) -> str:
    """Traces and virtual times of the two modules on 5 ranks."""
    parts = []
    with Session(folder, machine="zaratan") as session:
        for target in ("star:all_reduce", "ring:all_reduce"):
            args = [(np.arange(1000.0) + rank,) for rank in range(5)]
            result = session.call(target, 5, args).raise_for_error()
            parts += [result.trace.ops, result.trace.sites, result.timeline.makespan_ps]
    return digest(parts)


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def spin() -> None:
    while True:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    seen = set()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        submission(folder)
        for run in range(options.runs):
            busy = run % 2 == 1
            load = [
                multiprocessing.Process(target=spin) for _ in range(os.cpu_count() or 1) if busy
            ]
            for process in load:
                process.start()
            begin = time.perf_counter()
            try:
                digests = (digest_of_grading(folder), digest_of_traces(folder))
            finally:
                for process in load:
                    process.kill()
            seen.add(digests)
            state = "busy" if busy else "idle"
            print(
                f"run {run + 1:2} {state}  {time.perf_counter() - begin:5.1f} s  {digests}",
                flush=True,
            )
    print("all the same" if len(seen) == 1 else f"{len(seen)} DIFFERENT outcomes")
    raise SystemExit(len(seen) != 1)


if __name__ == "__main__":
    main()
