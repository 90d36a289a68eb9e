"""Grading one whole submission, against starting mpiexec once for every test.

    python benchmarks/grading_against_mpiexec.py

The first figure is `autograder grade` on the reference, nothing cached. The second starts each
module under `mpiexec -n 4` as many times as its suite has tests: one small call each, values only.
That is less than such a suite would need, which has to try several world sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "solutions" / "a03_allreduce"
DRIVER = """
import importlib, sys
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
x = np.full(1000, float(comm.rank))
module = importlib.import_module(sys.argv[1])
call = {
    "recursive": lambda: module.halving_doubling(comm, x),
    "tree": lambda: module.all_reduce(comm, x, 4),
    "cost": lambda: x * 0 + 6,
}.get(sys.argv[1], lambda: module.all_reduce(comm, x))
assert (call() == sum(range(comm.size))).all()
"""


def grade(folder: Path, record: Path) -> tuple[float, dict[str, int]]:
    """Seconds that grading takes, and the number of tests of each module."""
    argv = [sys.executable, "-m", "autograder", "grade", "a03_allreduce", str(folder)]
    environment = dict(os.environ, RINGSIDE_COURSE_SECRET=f"benchmark {time.time_ns()}")
    begin = time.perf_counter()
    subprocess.run(
        [*argv, "--json", str(record)], check=True, cwd=ROOT, env=environment, capture_output=True
    )
    seconds = time.perf_counter() - begin
    submission = json.loads(record.read_text())["submissions"][0]
    assert submission["score"] >= submission["max_score"], submission
    return seconds, {name: len(m["tests"]) for name, m in submission["modules"].items()}


def start_each_test(folder: Path, tests: dict[str, int]) -> float:
    """Seconds that one mpiexec for every test takes."""
    mpiexec = shutil.which("mpiexec", path=sysconfig.get_path("scripts")) or "mpiexec"
    begin = time.perf_counter()
    for module, count in tests.items():
        for _ in range(count):
            argv = [mpiexec, "-n", "4", sys.executable, str(folder / "driver.py"), module]
            subprocess.run(argv, check=True, cwd=folder, env=dict(os.environ, OMP_NUM_THREADS="1"))
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "reference"
        folder.mkdir()
        for module in REFERENCE.glob("*.py"):
            if module.stem in (
                "shards",
                "star",
                "sharded_server",
                "ring",
                "recursive",
                "cost",
                "tree",
            ):
                shutil.copy(module, folder)
        for _ in range(options.pairs):
            ours, tests = grade(folder, Path(name) / "record.json")
            (folder / "driver.py").write_text(DRIVER)
            theirs = start_each_test(folder, tests)
            (folder / "driver.py").unlink()
            print(
                f"{sum(tests.values())} tests: autograder {ours:5.1f} s   "
                f"an mpiexec each {theirs:5.1f} s   ratio {theirs / ours:4.1f}"
            )


if __name__ == "__main__":
    main()
