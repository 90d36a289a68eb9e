"""How many points a hidden suite gives for real MPI and gloo, found by collecting its tests.

    python -m autograder.platforms.reality_points a03_allreduce     {"star": 4.0, ...}

Where no real ranks can be started, these leave the maximum, for every submission alike: also for
one whose module is missing, and whose tests therefore don't say what they are worth.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course

__all__ = ["of_assignment"]

KIND = "reality"
_KIT = Path(__file__).resolve().parents[2]
_INI = _KIT / "autograder" / "suite" / "pytest.ini"


def of_assignment(plan: Assignment, course: Course) -> dict[str, float]:
    """Module -> points of its tests on real ranks, of 100; suites are imported in another process.

    Raises:
        AssignmentError: a suite can't be read.
    """
    words = [sys.executable, "-m", "autograder.platforms.reality_points"]
    words += [str(course.hidden(plan.name))]
    path = os.pathsep.join(filter(None, [str(_KIT), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path}
    asked = subprocess.run(words, capture_output=True, text=True, env=environment, cwd="/")
    if asked.returncode:
        told = (asked.stdout + asked.stderr).strip()[-600:]
        raise AssignmentError(f"The hidden suite of {plan.name} can't be read: {told}")
    found: dict[str, float] = json.loads(asked.stdout.splitlines()[-1])
    return {module.name: found.get(module.name, 0.0) for module in plan.modules}


class _Collector:
    """Adds up the points of what is collected."""

    def __init__(self) -> None:
        self.points: dict[str, float] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            marker = item.get_closest_marker("points")
            if marker is not None and marker.kwargs.get("kind") == KIND:
                module = item.path.stem.removeprefix("test_")
                self.points[module] = self.points.get(module, 0.0) + float(marker.args[0])


def main(hidden: str) -> int:
    """Print the points as JSON, in the last line."""
    from autograder.suite import plugin

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the students' plugin has other fixtures
    collector = _Collector()
    suites = sorted(map(str, Path(hidden).glob("test_*.py")))
    words = ["--collect-only", "-q", "-c", str(_INI), "-p", "no:cacheprovider", *suites]
    status = pytest.main(words, plugins=[plugin, collector])
    print(json.dumps(collector.points))
    return int(status)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
