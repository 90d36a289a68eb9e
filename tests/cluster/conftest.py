"""A real Slurm on three nodes for the tests marked `slurm`, started once; another with accounts."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from autograder.course.secret import VARIABLE

ROOT = Path(__file__).resolve().parents[2]
Launch = Callable[..., list[str]]
# Files of jobs/ that run until their wall time of a minute is over, or nearly.
SLOW_JOBS = {
    "hangs": [
        *("--set", "ranks_per_node=1", "--set", "checkpoint_signal_s=0"),
        *("--set", "deadline_s=600"),  # Slurm is first
    ],
    "resumes": [
        *("--nodes", "2", "--set", "ranks_per_node=1"),
        *("--set", "checkpoint_signal_s=20", "--set", "max_requeues=1"),
    ],
}


def _minislurm() -> Any:
    """The start script beside this file, which is no package."""
    specification = importlib.util.spec_from_file_location(
        "minislurm", Path(__file__).with_name("minislurm.py")
    )
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def _running(num_nodes: int, *, accounts: bool = False) -> Iterator[Any]:
    minislurm = _minislurm()
    reason = minislurm.why_not(accounts)
    if reason:
        pytest.skip(f"no Slurm here: {reason}")
    with minislurm.MiniSlurm(
        num_nodes, shared=[ROOT, Path(sys.prefix)], accounts=accounts
    ) as running:
        running.environment.pop(VARIABLE, None)  # courses draw secrets, which the nodes see
        yield running


@pytest.fixture(scope="session")
def slurm() -> Iterator[Any]:
    """Three nodes without accounts; partition scavenger has the last one."""
    yield from _running(3)


@pytest.fixture(autouse=True)
def _slow_jobs_run_beside_the_other_tests(request: pytest.FixtureRequest) -> None:
    """Jobs that wait for their wall time's end start with the first test that has a Slurm."""
    if "slurm" in request.fixturenames:
        awaited = {name for item in request.session.items for name in _fixtures(item)}
        for name in ("slow_jobs", "slow_grading"):
            if name in awaited:
                request.getfixturevalue(name)


def _fixtures(item: pytest.Item) -> Sequence[str]:
    return getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def slow_jobs(slurm: Any, launch_command: Launch) -> Iterator[dict[str, Any]]:
    """Launches of jobs that run to the end of their minute: of "hangs", and of "resumes"."""
    begun, folders = {}, []
    for name, words in SLOW_JOBS.items():
        folder = Path(tempfile.mkdtemp(prefix="ringside-test-", dir="/var/tmp"))
        folders.append(folder)
        shutil.copy(Path(__file__).with_name("jobs") / f"{name}.py", folder)
        words = [*words, "--set", "time=00:01:00", "--set", "directives=--exclude=node3"]
        begun[name] = slurm.begin(launch_command(f"{name}.py", *words, "--json"), cwd=folder)
    yield begun
    for folder in folders:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def slow_grading(slurm: Any, grade_command: Any) -> Any:
    """A class one of whose tasks runs to the end of its minute, and is tried again."""
    course = grade_command.folder / "slow"
    for student, text in {"anna": "# half", "ben": "# hangs once"}.items():
        (course / "class" / student).mkdir(parents=True)
        (course / "class" / student / "one.py").write_text(f"{text}\n")
    students = [str(course / "class" / student) for student in ("anna", "ben")]
    words = [*students, "--set", "time=00:01:00", "--set", "directives=--exclude=node3"]
    return slurm.begin(grade_command(course, *words), cwd=course)


@pytest.fixture(scope="module")
def grading_slurm() -> Iterator[Any]:
    """Four nodes whose slurmctld may be restarted; partition scavenger has the last one."""
    yield from _running(4)


@pytest.fixture(scope="session")
def accounting_slurm() -> Iterator[Any]:
    """Two nodes with slurmdbd: account class-aac may run jobs, dry-aac has no units left."""
    yield from _running(2, accounts=True)


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that every node sees; /tmp is private to each."""
    folder = Path(tempfile.mkdtemp(prefix="ringside-test-", dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def launch_command() -> Launch:
    """Make the words of `ringside launch` for these nodes; words of the launched file come last."""

    def command(target: str, *words: str, site: str = "zaratan", after: str = "") -> list[str]:
        start = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "ringside", "launch", target]
        start += ["--site", site, "--set", f"exports=PYTHONPATH={ROOT}", *words]
        return [*start, *(["--", *after.split()] if after else [])]

    return command


TOY = """
title = "A toy"
[[module]]
name = "one"
title = "The first"
weight = 100
hours = 1
"""


class GradeCommand:
    """Makes the words of `autograder grade --executor slurm`, with a suite that is pretended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kit = folder / "kit" / "solutions" / "a99_toy"
        kit.mkdir(parents=True)
        (kit / "assignment.toml").write_text(TOY)
        shutil.copy(Path(__file__).with_name("jobs") / "sitecustomize.py", folder)

    def __call__(self, course: Path, *words: str) -> list[str]:
        path = f"PYTHONPATH={self.folder}:{ROOT}"
        start = ["env", path, f"RINGSIDE_KIT={self.folder / 'kit'}", f"RINGSIDE_COURSE={course}"]
        start += [sys.executable, "-m", "autograder", "grade", "a99_toy", *words]
        start += ["--executor", "slurm", "--site", "generic", "--json", str(course / "out.json")]
        return [*start, "--set", f"exports={path}", "--set", "memory_per_cpu=100M"]


@pytest.fixture(scope="session")
def grade_command() -> Iterator[GradeCommand]:
    """Graders of courses in a folder that the nodes see; all courses have one store of results."""
    folder = Path(tempfile.mkdtemp(prefix="ringside-test-", dir="/var/tmp"))
    yield GradeCommand(folder)
    shutil.rmtree(folder)
