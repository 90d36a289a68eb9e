"""What Slurm adds to the grading of a submission: job arrays against grading here, in turns.

    python benchmarks/slurm_overhead.py [--submissions 32] [--turns 2]

The same submissions (a03's `cost`, right, each with a comment of its own, so that none is another's
result) are graded by `autograder grade` on this machine, two modules at a time, and by
`--executor slurm` on a real Slurm of two nodes on this machine (tests/cluster/minislurm.py), two
tasks at a time of one core each: so both have the same two cores. Once with a task for each
submission, once with as many to a task as the kit chooses. Every run has an empty store.

A grading through Slurm costs beside the grading itself: sbatch, Slurm's scheduling, a start of
Python with all it imports for every task, and looks at the queue. The module is cheap on purpose,
so the ratio is a bound: with dearer submissions the seconds stay, and the ratio falls to 1.

Needs root and Slurm's daemons; elsewhere it says so and ends.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NAME = "a03_allreduce"
WAYS = {
    "here": [],
    "a task each": ["array_chunk=1"],
    "the kit's choice": ["array_chunk=0"],
}


def minislurm() -> Any:
    """The tests' Slurm, which is no package."""
    path = ROOT / "tests" / "cluster" / "minislurm.py"
    specification = importlib.util.spec_from_file_location("minislurm", path)
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def grade(slurm: Any, folder: Path, paths: list[str], changes: list[str]) -> tuple[float, str]:
    """Grade these with an empty store; gives the seconds, and what was said."""
    kit = Path(tempfile.mkdtemp(dir=folder))
    shutil.copytree(ROOT / "solutions" / NAME, kit / "solutions" / NAME)
    command = ["env", f"PYTHONPATH={ROOT}", f"RINGSIDE_KIT={kit}", f"RINGSIDE_COURSE={kit}"]
    command += [sys.executable, "-m", "autograder", "grade", NAME, *paths, "--jobs", "2"]
    command += ["--json", str(kit / "out.json")]
    if changes:
        changes = [*changes, "array_limit=2", "ranks_per_node=1", "cpus_per_rank=1"]
        changes += ["memory_per_cpu=2G", f"exports=PYTHONPATH={ROOT}"]
        command += ["--executor", "slurm", "--site", "generic", "--no-fallback"]
        command += [word for change in changes for word in ("--set", change)]
    begun_s = time.monotonic()
    result = slurm.run(command, cwd=kit, timeout_s=1800)
    took_s = time.monotonic() - begun_s
    if result.returncode:
        raise SystemExit(result.stderr)
    found = json.loads((kit / "out.json").read_text())["submissions"]
    assert [each["score"] for each in found] == [10.0] * len(paths), found
    return took_s, str(result.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--submissions", type=int, default=32, metavar="N")
    parser.add_argument("--turns", type=int, default=2, metavar="N")
    options = parser.parse_args()
    module = minislurm()
    reason = module.why_not()
    if reason:
        print(f"no Slurm here: {reason}")
        return 0
    count = options.submissions
    folder = Path(tempfile.mkdtemp(prefix="ringside-benchmark-", dir="/var/tmp"))
    paths = []
    text = (ROOT / "solutions" / NAME / "cost.py").read_text(encoding="utf-8")
    for number in range(count):
        place = folder / "class" / f"student{number:03}"
        place.mkdir(parents=True)
        (place / "cost.py").write_text(f"{text}# {number}\n", encoding="utf-8")
        paths.append(str(place))
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    try:
        with module.MiniSlurm(2, shared=[ROOT, Path(sys.prefix)]) as slurm:
            for _ in range(options.turns):
                for way, changes in WAYS.items():
                    took_s, said = grade(slurm, folder, paths, changes)
                    seconds[way].append(took_s)
                    tasks = [line for line in said.splitlines() if "submitted to" in line]
                    print(f"{way:18} {took_s:7.1f} s  {' '.join(tasks)}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    here = seconds["here"]
    print(f"\n{count} submissions, {options.turns} turns; medians\n")
    print("| | s a submission | Slurm's part, s a submission | ratio |\n| --- | --- | --- | --- |")
    for way, took in seconds.items():
        added = statistics.median(b - a for a, b in zip(here, took, strict=True)) / count
        ratio = statistics.median(b / a for a, b in zip(here, took, strict=True))
        print(f"| {way} | {statistics.median(took) / count:.2f} | {added:.2f} | {ratio:.2f} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
