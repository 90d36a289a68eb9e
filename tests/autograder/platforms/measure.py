"""Measure what each assignment's reference takes in a container, and write it for the command::

    nice -n 5 python -m tests.autograder.platforms.measure [ASSIGNMENT...]

The memory is that of all processes, the grader's too; the seconds are CPU time, which a busy
machine stretches a little. It writes [container] of each assignment.toml and the table in
docs/platforms.md.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from autograder.course import assignment as plans
from autograder.course.assignment import Need
from autograder.course.course import Course
from autograder.platforms import contents, sizes
from autograder.platforms.gradescope import autograder_zip
from tests.autograder.platforms import box, places

PAGE = box.KIT / "docs" / "platforms.md"
BEGIN, END = "<!-- sizes -->", "<!-- end of sizes -->"
LARGE_MB = 6144
ROUND_MB = 16


def with_need(text: str, need: Need) -> str:
    """An assignment.toml's text with what was measured; all else in it stays."""
    lines = f"[container]\nmemory_mb = {need.memory_mb}\ncpu_s = {need.cpu_s:.0f}\n"
    without = re.sub(r"(?m)^\[container\]\n(?:(?!\s*\[).*\n)*\s*", "", text)
    before, bracket, modules = without.partition("[[module]]")
    return f"{before}{lines}\n{bracket}{modules}"


def main(names: Sequence[str]) -> int:
    """Measure these assignments, or all of them."""
    if reason := box.why_not():
        print(reason, file=sys.stderr)
        return 2
    course = Course.here()
    for name in names or plans.known(course):
        file = course.solution(name) / "assignment.toml"
        need = measure(name, course)
        file.write_text(with_need(file.read_text(), need))
        write_page(course)
        print(sizes.advice(plans.load(name, course)), flush=True)
    return 0


def write_page(course: Course) -> None:
    """Put the table into docs/platforms.md."""
    table = sizes.table(plans.load(name, course) for name in plans.known(course))
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n{END}{rest.split(END)[1]}")


def measure(name: str, course: Course) -> Need:
    """What the reference takes in a container that is larger than it needs."""
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
        return Need(int(peak), graded.ended.cpu_s)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
