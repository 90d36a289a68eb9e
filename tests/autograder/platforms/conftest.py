"""Autograders of a03 for the containers, made once; and a submission of three modules for them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from autograder.course import assignment as plans
from autograder.course import edits
from autograder.course.course import Course
from autograder.grade.suite.result import ModuleResult
from autograder.platforms import contents, reality_points
from autograder.platforms.gradescope import autograder_zip
from autograder.platforms.prairielearn import question as prairielearn

NAME = "a03_allreduce"
MODULES = ["star", "sharded_server", "cost"]
SECRET = "the secret of this course"

# A right program that first tries everything that would pay: where anything succeeds, its result
# is wrong. So full marks mean that nothing did.
TRIES = """
import os
import sys

PLACES = [
    "/autograder/source/kit/solutions/a03_allreduce/hidden/cases.py",
    "/autograder/source/kit/course_secret.txt",
    "/autograder/submission/star.py",
    "/autograder/submission_metadata.json",
    "/grade/tests/kit/solutions/a03_allreduce/hidden/cases.py",
    "/grade/tests/kit/course_secret.txt",
    "/grade/data/data.json",
    "/etc/passwd",
    "/proc/1/environ",
    "/proc/self/mem",
]
RESULTS = ["/autograder/results/results.json", "/grade/results/results.json", "/tmp/notes"]


def succeeded():
    for name in PLACES:
        try:
            with open(name, "rb") as stream:
                stream.read(1)
            return name
        except OSError:
            pass
    for name in RESULTS:
        try:
            with open(name, "wb") as stream:
                stream.write(b'{"score": 100.0}')
            return name
        except OSError:
            pass
    for folder in ("/autograder", "/autograder/results", "/grade", "/grade/tests", "/tmp"):
        try:
            if os.listdir(folder):
                return folder
        except OSError:
            pass
    for call in (lambda: os.setuid(0), lambda: os.kill(1, 0), os.fork):
        try:
            call()
            return "a system call"
        except OSError:
            pass
    return "root" if os.geteuid() == 0 else ""


def spoiled(result):
    return result + 1 if succeeded() else result
"""


@pytest.fixture(scope="session")
def reference() -> Path:
    return Course.here().solution(NAME)


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory, reference: Path) -> Path:
    """cost.py right, sharded_server.py wrong, star.py right and hostile; the others are missing."""
    folder = tmp_path_factory.mktemp("mixed")
    shutil.copy(reference / "cost.py", folder)
    wrong = next(each for each in edits.variants(reference, ["sharded_server"]) if each.fails)
    (folder / "sharded_server.py").write_text(wrong.source)
    star = (reference / "star.py").read_text()
    for before, after in (
        ("import numpy as np\n", f"{TRIES}\nimport numpy as np\n"),
        ("    return total\n", "    return spoiled(total)\n"),
    ):
        assert star.count(before) == 1
        star = star.replace(before, after)
    (folder / "star.py").write_text(star)
    return folder


@pytest.fixture(scope="session")
def a03_course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    return Course(
        kit=Course.here().kit, root=tmp_path_factory.mktemp("course"), given_secret=SECRET
    )


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory, a03_course: Course) -> Path:
    """The zip for Gradescope."""
    path = tmp_path_factory.mktemp("gradescope") / "autograder.zip"
    plan = plans.load(NAME, a03_course)
    settings = contents.settings_of(plan, a03_course, "after_due_date")
    return autograder_zip.make(plan, a03_course, path, settings)


@pytest.fixture(scope="session")
def question(tmp_path_factory: pytest.TempPathFactory, a03_course: Course) -> Path:
    """The question for PrairieLearn."""
    folder = tmp_path_factory.mktemp("prairielearn") / NAME
    plan = plans.load(NAME, a03_course)
    settings = contents.settings_of(plan, a03_course, "visible")
    return prairielearn.make(plan, a03_course, folder, settings, "registry.example/ringside:1")


@pytest.fixture(scope="session")
def points_without_real_ranks(a03_course: Course) -> float:
    """What can be earned where no real ranks can be started."""
    plan = plans.load(NAME, a03_course)
    left_out = reality_points.of_assignment(plan, a03_course)
    weights = {module.name: module.weight for module in plan.modules if not module.extra}
    return plan.machine_points - sum(left_out[name] * of / 100 for name, of in weights.items())


@pytest.fixture(scope="session")
def graded_here(mixed: Path) -> list[ModuleResult]:
    """What `autograder grade` gives here."""
    from autograder.grade.grading import grade_module, sources_in

    sources = sources_in(plans.load(NAME), mixed)
    results = [grade_module(NAME, sources, module, secret=SECRET) for module in MODULES]
    assert all(result.error is None for result in results)
    return results
