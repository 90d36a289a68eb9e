"""Grading one whole submission, against a suite whose every test starts its own mpiexec.

    python benchmarks/grading_against_mpiexec.py

The first figure is the wall time of `autograder grade a03_allreduce` on the reference: a fresh
process, nothing cached, all modules and all tests, the sandbox and real MPI included.

The second is that of starting MPI alone. A test runs on the world sizes that its own runs used when
it was graded here (the grader notes them, strangers outside of `comm` included), and needs at least
one `mpiexec -n P` for each of them: that many are started, one after another as pytest runs tests,
each with the same module on the same number of ranks, for one call on 1000 numbers and a check of
the sum. Left out, so in favour of mpiexec: the tests' other cases, which are taken to share the
start; one more start after each failure or hang; pytest itself; a sandbox; and whatever such
a suite would do to count bytes or to tell the time of a cluster.

It takes some minutes: the reference alone is some 350 starts.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "solutions" / "a03_allreduce"
DRIVER = """
import importlib, sys, types
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
x = np.full(1000, float(comm.rank))
module = importlib.import_module(sys.argv[1])
if sys.argv[1] == "cost":
    machine = types.SimpleNamespace(alpha_s=1e-6, beta_s_per_byte=1e-9)
    assert module.ring_s(1000, 1, machine) == 0
else:
    call = {
        "recursive": lambda: module.halving_doubling(comm, x),
        "tree": lambda: module.all_reduce(comm, x, 4),
    }.get(sys.argv[1], lambda: module.all_reduce(comm, x))
    assert (call() == sum(range(comm.size))).all()
"""
Starts = Counter[tuple[str, int]]  # (module, world size): how many tests used it


def starts_of_tests(folder: Path) -> tuple[int, Starts]:
    """The number of tests, and what each of them ran on, from grading the folder once."""
    sys.path.insert(0, str(ROOT))
    grading = importlib.import_module("autograder.grading")
    report = grading.grade_modules("a03_allreduce", folder, secret="benchmark")
    assert report["error"] is None, report["error"]
    starts: Starts = Counter()
    count = 0
    for name, module in report["modules"].items():
        for test in module["tests"]:
            assert test["world_sizes"], test
            count += 1
            starts.update((name, world_size) for world_size in test["world_sizes"])
    return count, starts


def grade(folder: Path, record: Path) -> float:
    """Seconds that grading takes."""
    argv = [sys.executable, "-m", "autograder", "grade", "a03_allreduce", str(folder)]
    environment = dict(os.environ, RINGSIDE_COURSE_SECRET=f"benchmark {time.time_ns()}")
    begin = time.perf_counter()
    subprocess.run(
        [*argv, "--json", str(record)], check=True, cwd=ROOT, env=environment, capture_output=True
    )
    seconds = time.perf_counter() - begin
    submission = json.loads(record.read_text())["submissions"][0]
    assert submission["score"] >= submission["max_score"], submission
    return seconds


def start_each(folder: Path, starts: Starts) -> float:
    """Seconds that all these starts of mpiexec take, one after another."""
    mpiexec = shutil.which("mpiexec", path=sysconfig.get_path("scripts")) or "mpiexec"
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT))
    (folder / "driver.py").write_text(DRIVER)
    begin = time.perf_counter()
    for (module, world_size), times in starts.items():
        argv = [mpiexec, "-n", str(world_size), sys.executable, str(folder / "driver.py"), module]
        for _ in range(times):
            subprocess.run(argv, check=True, cwd=folder, env=environment)
    seconds = time.perf_counter() - begin
    (folder / "driver.py").unlink()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "reference"
        folder.mkdir()
        for module in ("shards", "star", "sharded_server", "ring", "recursive", "cost", "tree"):
            shutil.copy(REFERENCE / f"{module}.py", folder)
        count, starts = starts_of_tests(folder)
        for _ in range(options.pairs):
            ours = grade(folder, Path(name) / "record.json")
            theirs = start_each(folder, starts)
            print(
                f"{count} tests: autograder {ours:.1f} s   {starts.total()} starts of mpiexec, "
                f"one a test and world size, {theirs:.1f} s   ratio {theirs / ours:.1f}"
            )


if __name__ == "__main__":
    main()
