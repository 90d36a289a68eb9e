"""The tests of an assignment with their points, as pytest collects them.

    python -m autograder.grade.suite.collected solutions/a03_allreduce   one line of JSON, the last

No test is run. Suites are imported in a process of their own, so that a change of a file counts.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from autograder.course.assignment import CHECKS, Assignment, AssignmentError
from autograder.course.course import Course
from ringside.checking.points import MARK, Worth, give_points, worth_of
from ringside.checking.requirements import RequirementsError

__all__ = ["CollectedTest", "of_assignment"]

_KIT = Path(__file__).resolve().parents[3]
_INI = Path(__file__).with_name("pytest.ini")


@dataclass(frozen=True)
class CollectedTest:
    """One test, with what is known of it (``ringside.checking.points``)."""

    file: str  # checks/test_ring.py
    name: str
    module: str  # empty: it has no mark
    kind: str
    points: float
    requirement: str = ""


def of_assignment(plan: Assignment, course: Course) -> tuple[CollectedTest, ...]:
    """All tests of an assignment; none where it has no checks.

    Raises:
        AssignmentError: a file of tests can't be read.
    """
    folder = course.solution(plan.name)
    if not (folder / CHECKS).is_dir():
        return ()
    files = [*folder.rglob("*.py"), *folder.glob(f"{CHECKS}/*.toml")]
    stamps = [(p, p.stat()) for p in sorted(files) if "__pycache__" not in p.parts]
    state = tuple((str(path), stat.st_mtime_ns, stat.st_size) for path, stat in stamps)
    return _collected(folder, course.kit, state)


@functools.lru_cache(maxsize=32)
def _collected(
    folder: Path, kit: Path, _state: tuple[tuple[str, int, int], ...]
) -> tuple[CollectedTest, ...]:
    arguments = [sys.executable, "-m", "autograder.grade.suite.collected", str(folder)]
    paths = (str(kit), str(_KIT), os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, cwd="/")
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()[-12:]
        raise AssignmentError("\n".join([f"The tests of {folder.name} can't be read:", *lines]))
    return tuple(CollectedTest(**test) for test in json.loads(done.stdout.splitlines()[-1]))


class _Collector:
    """Takes what the marks of the collected tests say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tests: list[CollectedTest] = []

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", MARK)
        config.addinivalue_line("markers", "filterwarnings(filter): pytest's own")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        try:
            give_points(items, all_of_them=True)
        except RequirementsError as error:
            raise pytest.UsageError(str(error)) from None
        for item in items:
            file = item.path.relative_to(self.folder).as_posix()
            worth = worth_of(item) or Worth("", "", "", 0.0)
            self.tests.append(
                CollectedTest(
                    file, item.name, worth.module, worth.kind, worth.points, worth.requirement
                )
            )


def main(folder: str) -> int:
    """Print the tests as JSON, in the last line."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the students' plugin isn't asked
    solution = Path(folder).resolve()
    sys.path.insert(0, str(solution))  # tests import `checks` and `given`
    collector = _Collector(solution)
    suites = map(str, sorted((solution / CHECKS).glob("test_*.py")))
    options = ["--collect-only", "-q", "-c", str(_INI)]
    if status := pytest.main([*options, *suites], plugins=[collector]):
        return int(status)
    if (solution / "hidden" / "cases.py").is_file():
        importlib.import_module("hidden.cases")  # each of its cases is of a test that is there
    print(json.dumps([asdict(test) for test in collector.tests]))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
