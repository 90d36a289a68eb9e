"""Grading one whole submission, against a suite whose every test starts its own ranks.

    python benchmarks/grading_against_launches.py [a03_allreduce] [a05_ddp] [--pairs 1]

The first figure is the wall time of `autograder grade` on the reference: a fresh process, nothing
cached, all modules and all tests, the sandbox, real MPI and real gloo included.

The second is that of starting ranks alone. A test runs on the world sizes that its own runs used
when it was graded here (the grader notes them, strangers outside of `comm` included), and needs at
least one start for each of them: `mpiexec -n P`, or for a module of torch `torchrun
--nproc-per-node P`. That many are started, one after another as pytest runs tests, each importing
the module, summing 1000 numbers over the ranks and checking the sum. Left out, so in favour of the
other side: what the tests do, and their other cases, which are taken to share the start; one more
start after each failure or hang; pytest itself; a sandbox; and whatever such a suite would do to
count bytes or to tell the time of a cluster.

It takes some minutes: a03's reference alone is some 350 starts of mpiexec.
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
WITH_MPI = """
import importlib, sys
import numpy as np
from mpi4py import MPI
importlib.import_module(sys.argv[1])
comm = MPI.COMM_WORLD
assert (comm.allreduce(np.full(1000, float(comm.rank))) == sum(range(comm.size))).all()
"""
WITH_TORCH = """
import importlib, sys
import torch
import torch.distributed as dist
importlib.import_module(sys.argv[1])
dist.init_process_group("gloo")
x = torch.full((1000,), float(dist.get_rank()))
dist.all_reduce(x)
assert (x == sum(range(dist.get_world_size()))).all()
dist.destroy_process_group()
"""
Starts = Counter[tuple[str, int]]  # (module, world size): how many tests used it


def starts_of_tests(assignment: str, folder: Path) -> tuple[int, Starts]:
    """The number of tests, and what each of them ran on, from grading the folder once."""
    sys.path.insert(0, str(ROOT))
    grading = importlib.import_module("autograder.grade.grading")
    plan = importlib.import_module("autograder.course.assignment").load(assignment)
    sources = grading.sources_in(plan, folder)
    starts: Starts = Counter()
    count = 0
    for module in plan.modules:
        result = grading.grade_module(assignment, sources, module.name, secret="benchmark")
        assert result.error is None, result.error
        for test in result.tests:
            assert test.world_sizes, test
            count += 1
            starts.update((module.name, world_size) for world_size in test.world_sizes)
    return count, starts


def grade(assignment: str, folder: Path, record: Path) -> float:
    """Seconds that grading takes."""
    argv = [sys.executable, "-m", "autograder", "grade", assignment, str(folder)]
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
    """Seconds that all these starts take, one after another."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=f"{folder}{os.pathsep}{ROOT}")
    (folder / "with_mpi.py").write_text(WITH_MPI)
    (folder / "with_torch.py").write_text(WITH_TORCH)
    begin = time.perf_counter()
    for (module, world_size), times in starts.items():
        if module.endswith("_torch"):
            argv = [program("torchrun"), "--standalone", f"--nproc-per-node={world_size}"]
            argv += ["with_torch.py", module]
        else:
            argv = [
                program("mpiexec"),
                "-n",
                str(world_size),
                sys.executable,
                "with_mpi.py",
                module,
            ]
        for _ in range(times):
            subprocess.run(argv, check=True, cwd=folder, env=environment, capture_output=True)
    return time.perf_counter() - begin


def program(name: str) -> str:
    return shutil.which(name, path=sysconfig.get_path("scripts")) or name


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("assignment", nargs="*", default=["a03_allreduce", "a05_ddp"])
    parser.add_argument("--pairs", type=int, default=1)
    options = parser.parse_args()
    for assignment in options.assignment:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "reference"
            shutil.copytree(ROOT / "solutions" / assignment, folder)
            count, starts = starts_of_tests(assignment, folder)
            with_torch = sum(n for (module, _), n in starts.items() if module.endswith("_torch"))
            for _ in range(options.pairs):
                ours = grade(assignment, folder, Path(name) / "record.json")
                theirs = start_each(folder, starts)
                print(
                    f"{assignment}, {count} tests: autograder {ours:.1f} s   "
                    f"{starts.total() - with_torch} starts of mpiexec and {with_torch} "
                    f"of torchrun, one a test and world size, {theirs:.1f} s   "
                    f"ratio {theirs / ours:.1f}"
                )


if __name__ == "__main__":
    main()
