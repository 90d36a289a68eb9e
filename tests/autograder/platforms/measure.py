"""Measure what each assignment's reference takes in a container, and write it for the command::

    nice -n 5 python -m tests.autograder.platforms.measure [ASSIGNMENT...]

The memory is that of all processes, the grader's too; the seconds are CPU time, which a busy
machine stretches a little. It writes autograder/platforms/sizes.toml and the table in
docs/platforms.md, row by row.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from autograder.course import assignment as plans
from autograder.course.course import Course
from autograder.platforms import contents, sizes
from autograder.platforms.gradescope import autograder_zip
from tests.autograder.platforms import box, places

HEAD = """\
# What each assignment's reference takes in a container without namespaces, its modules graded one
# after another: the memory of all processes in MB, and their CPU time in seconds.
# Measured by `python -m tests.autograder.platforms.measure`, which writes this file.
"""
PAGE = box.KIT / "docs" / "platforms.md"
BEGIN, END = "<!-- sizes -->", "<!-- end of sizes -->"
LARGE_MB = 6144
ROUND_MB = 16


def main(names: Sequence[str]) -> int:
    """Measure these assignments, or all of them."""
    if reason := box.why_not():
        print(reason, file=sys.stderr)
        return 2
    course = Course.here()
    rows = sizes.measured()
    for name in names or plans.known(course):
        rows[name] = measure(name, course)
        text = "".join(
            f"\n[{each}]\nmemory_mb = {memory_mb}\ncpu_s = {cpu_s:.0f}\n"
            for each, (memory_mb, cpu_s) in sorted(rows.items())
        )
        sizes.FILE.write_text(HEAD + text)
        write_page()
        print(sizes.advice(name), flush=True)
    return 0


def write_page() -> None:
    """Put the table into docs/platforms.md."""
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{sizes.table()}\n{END}{rest.split(END)[1]}")


def measure(name: str, course: Course) -> tuple[int, float]:
    """MB and seconds of CPU time."""
    plan = plans.load(name, course)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        settings = replace(contents.settings_of(plan, course, "visible"), minutes=40)
        package = autograder_zip.make(plan, course, place / "autograder.zip", settings)
        own = place / "reference"
        own.mkdir()
        for module in plan.modules:
            shutil.copy(course.solution(name) / module.filename, own)
        graded = places.gradescope(package, own, place / "box", memory_mb=LARGE_MB, limit_s=2400)
        if graded.results is None or not graded.ended.peak_mb:
            raise SystemExit(f"{name} was not graded, or not measured: {graded.ended}")
        tests = [each for each in graded.results["tests"] if "run.json" not in each["name"]]
        if lost := [each["name"] for each in tests if each["score"] < each["max_score"]]:
            raise SystemExit(f"{name}: the reference loses points: {lost}")
        peak = -(-graded.ended.peak_mb // ROUND_MB) * ROUND_MB
        print(f"{name}: wall {graded.ended.wall_s:.0f} s", file=sys.stderr, flush=True)
        return int(peak), graded.ended.cpu_s


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
