"""An honest class has the same table on an idle machine, and on one that others keep busy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.author.verify import verify
from autograder.collect.submissions import Submission
from autograder.course import assignment as plans
from autograder.course import edits
from autograder.course.course import Course
from autograder.course.limits import Limits
from autograder.grade import pipeline
from autograder.grade.cache import Store
from autograder.sandbox.sandbox import Tier, best_tier

PLAN = plans.load("a03_allreduce")
SOLUTION = Course.here().solution(PLAN.name)
MODULES = ("ring",)
LIMITS = Limits(cpu_s=15.0)  # five times what it takes, so that the one that burns ends soon
ODD = {"bob": "ring__rotated_ownership", "cyd": "ring__send_cycle"}
# 240 threads that work in NumPy, most of the time without the interpreter's lock.
BURNER = """
import threading
import numpy as np

def burn():
    noise = np.ones(1 << 16)
    while True:
        np.sqrt(noise, out=noise)

def all_reduce(comm, *given):
    for _ in range(240 // comm.size):
        threading.Thread(target=burn, daemon=True).start()
    burn()

reduce_scatter = all_gather = all_reduce
"""

pytestmark = [pytest.mark.release, pytest.mark.slow, pytest.mark.sandbox]


@pytest.fixture(scope="module", autouse=True)
def few() -> Iterator[None]:
    """The limits of this class."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline.limits, "load", lambda *_: LIMITS)
        yield


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> list[Submission]:
    """One with full marks, two with a mistake, and one that has just begun."""
    if best_tier(trust_submissions=True) == Tier.NONE:
        pytest.skip("no sandbox works on this machine")
    reference = {name: (SOLUTION / f"{name}.py").read_text() for name in MODULES}
    texts = {"ada": reference, "dee": {name: verify.stub(reference[name]) for name in MODULES}}
    for student, name in ODD.items():
        texts[student] = {**reference, name.partition("__")[0]: edits.one(SOLUTION, name).source}
    root = tmp_path_factory.mktemp("class")
    return [submission(root, student, texts[student]) for student in sorted(texts)]


def submission(root: Path, student: str, texts: dict[str, str]) -> Submission:
    (root / student).mkdir()
    for name, text in texts.items():
        (root / student / f"{name}.py").write_text(text)
    return Submission(student, root / student)


def table(course: Path, submissions: list[Submission], jobs: int) -> dict[str, dict[str, object]]:
    """Per student and test, points and sentence; nothing of it is known before."""
    here = replace(Course.here(), given_secret="s")
    session = pipeline.GradingSession(PLAN, here, pipeline.suite_grader(here), jobs=jobs)
    session.store = Store(course)
    graded = session.grade(submissions)
    return {
        outcome.student: {
            f"{name} {test.name}": (test.earned, test.message)
            for name in MODULES
            for test in outcome.tests(name)
        }
        | {"status": outcome.status}
        for outcome in graded
    }


@pytest.fixture(scope="module")
def idle(honest: list[Submission], tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    found = table(tmp_path_factory.mktemp("idle"), honest, jobs=1)
    points = {name: sum(e[0] for k, e in each.items() if k != "status")  # type: ignore[index]
              for name, each in found.items()}  # fmt: skip
    assert points["ada"] == pytest.approx(100) and 100 > points["bob"] > points["dee"] == 0
    return dict(found)


def test_beside_other_programs_and_a_submission_that_burns_every_core(
    honest: list[Submission], idle: dict[str, object], tmp_path: Path
) -> None:
    burner = submission(tmp_path, "zoe", {"ring": BURNER})
    with busy():
        found = table(tmp_path / "results", [burner, *honest], jobs=2)
    sentences = {test[1] for test in list(found.pop("zoe").values())[:-1]}  # type: ignore[index]
    assert any("s of CPU time" in sentence for sentence in sentences)
    assert found == idle


@contextmanager
def busy() -> Iterator[None]:
    """One program for each core that never rests."""
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
        for _ in os.sched_getaffinity(0)
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
