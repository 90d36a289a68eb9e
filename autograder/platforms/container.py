"""Grade one submission in a platform's container, or say why nothing counts.

The platform starts us as root, beside the submission, in a container without namespaces:

    closed     the suite, the secret, the submission and the results: root's alone, before all else
    ranks      another user's, confined by Landlock and seccomp; else nothing is run
    memory     what the container has, less what the grader takes, is what a submission may use
    time       a grading that would be cut off by the platform ends before, with a reason
    real MPI   can't be started here: its points leave the maximum, and nobody is given them

A fault of ours, or of the container, is no student's zero: ``NoGrade`` says it to the instructor.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from autograder.collect.submissions import Submission
from autograder.course import assignment as plans
from autograder.course import limits
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade import pipeline
from autograder.grade.outcome import Outcome
from autograder.grade.suite.result import ModuleResult
from autograder.platforms.contents import LIMITS, limits_text
from autograder.platforms.reality_points import KIND
from autograder.platforms.settings import Settings
from autograder.sandbox.sandbox import Tier, best_tier
from ringside.checking.requirements import ALL_POINTS
from ringside.errors import RingsideError
from ringside.files import write_atomically

__all__ = ["LEFT_OUT", "NoGrade", "close", "fresh_results", "grade", "tell", "without_reality"]

MB = 1 << 20
GRADER_MB = {"memory_mib": 200, "memory_torch_mib": 350}  # what grades beside the ranks
LEFT_OUT = (
    "No real MPI can be started in this container: its tests did not run, and their {:g} points "
    "are not part of the maximum."
)
LEAST_MB = 256  # in less, nothing is graded
END_EARLY_S = 30.0  # before the platform would cut us off
_LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_KILLS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


class NoGrade(RingsideError):
    """Nothing counts: the platform, or the grader, is at fault. The message is the instructor's."""


def close(*paths: Path) -> None:
    """Take folders and files from everybody but their owner.

    Raises:
        NoGrade: one of them stays open.
    """
    for path in paths:
        with contextlib.suppress(OSError):
            path.chmod(stat.S_IMODE(path.stat().st_mode) & 0o700)
        if path.stat().st_mode & 0o077:
            raise NoGrade(f"{path} can't be closed: students' code could read the hidden suite.")


def grade(settings: Settings, course: Course, submission: Submission) -> Outcome:
    """Grade the container's submission, one module after another.

    Raises:
        NoGrade: nothing counts.
        SandboxUnavailable: nothing here confines submissions.
        AssignmentError, LimitsError: the autograder wasn't made as it should be.
    """
    best_tier()  # said before anything else is done
    leave_memory(settings, course)
    plan = plans.load(settings.assignment, course)
    # A count since the container began: what it had before is not this submission's.
    killed = _killed_for_memory()
    with _ended_after(60 * settings.minutes - END_EARLY_S):
        session = pipeline.GradingSession(plan, course, pipeline.suite_grader(course))
        [outcome] = session.grade([submission])
    if _killed_for_memory() > killed:
        raise NoGrade(
            "The container's memory was used up, and the kernel ended something there. Choose a "
            "larger container, and run the autograder again; or see what the submission does."
        )
    if outcome.status == "grader_error":
        raise NoGrade(outcome.message)
    return outcome


def leave_memory(settings: Settings, course: Course) -> None:
    """Let a submission use no more than the container has beside the grader.

    Raises:
        NoGrade: that is too little even for the reference.
    """
    has = memory_bytes()
    if has is None:
        return
    if has // MB < max(settings.memory_mb, LEAST_MB):
        raise NoGrade(
            f"The container has {has // MB} MB, and the reference of {settings.assignment} alone "
            f"takes {settings.memory_mb} MB. Choose a larger container: "
            f"`autograder platform` prints which."
        )
    path, name = course.root / LIMITS, settings.assignment
    table = limits.read(path)
    section = dict(table.get(name, {}))
    # Without namespaces the kernel doesn't show us which pages ranks share, and the watchdog counts
    # too much: what the course allows would end references of many ranks in a large container.
    for key, grader_mb in GRADER_MB.items():
        section[key] = max(LEAST_MB, has // MB - grader_mb)
    write_atomically(path, limits_text({**table, name: section}).encode())


def memory_bytes() -> int | None:
    """What the container's processes may use together; None where nothing limits them."""
    for name in _LIMIT_FILES:
        with contextlib.suppress(OSError, ValueError):
            limit = int(Path(name).read_text())
            return limit if limit < 1 << 50 else None  # an old kernel's way to say "max"
    return None


def _killed_for_memory() -> int:
    """How many processes the kernel has ended here since it had no memory left."""
    for name in _KILLS:
        with contextlib.suppress(OSError, ValueError, StopIteration):
            lines = Path(name).read_text().splitlines()
            return int(next(line for line in lines if line.startswith("oom_kill ")).split()[1])
    return 0


@contextlib.contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """End what is done here before the platform does, which would leave no reason.

    Raises:
        NoGrade: the time was up.
    """

    def up(number: int, frame: FrameType | None) -> None:
        raise NoGrade(
            f"It was not graded within {seconds / 60:.1f} minutes. Give the autograder more "
            "minutes or processors, and run it again; or see whether the submission hangs in one "
            "module after another."
        )

    before = signal.signal(signal.SIGALRM, up)
    # No time left must not be 0, which would switch the alarm off.
    signal.setitimer(signal.ITIMER_REAL, max(1.0, seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def without_reality(plan: Assignment, outcome: Outcome, settings: Settings) -> float:
    """Take the tests on real ranks out, if none could be started; gives their points of the total.

    They leave the maximum of every submission alike. Points are the assignment's.
    """
    if best_tier() in Tier.IN_BUBBLEWRAP:
        return 0.0
    for result in outcome.results.values():
        _without_reality(result, settings.reality)
    return settings.points_of_real_ranks(plan)


def _without_reality(result: ModuleResult, reality: Mapping[str, float]) -> None:
    for test in result.tests:
        if test.kind == KIND:
            test.earned = test.points = 0.0
            test.detail = test.reproduce = ""
            test.message = (
                "Not run: no real ranks can be started in this container. Its points are not part "
                "of the maximum."
            )
        elif test.name == "module_is_there":
            test.points = ALL_POINTS - reality.get(result.module, 0.0)


def tell(sentences: Sequence[str]) -> None:
    """Say something to the instructor, who alone sees what we print."""
    for sentence in sentences:
        print(sentence, file=sys.stderr, flush=True)


def fresh_results(path: Path) -> None:
    """Make the folder of the results, ours alone, and remove what lies there in their place.

    Raises:
        NoGrade: it can't be closed.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    close(path.parent)
