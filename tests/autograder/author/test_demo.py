"""The demo's class, through nbgrader's own commands, and its list in a real browser."""

from __future__ import annotations

import csv
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest

from autograder.author.demo.students import ASSIGNMENT, STUDENTS, Student, hand_in, source
from autograder.course import assignment as plans
from autograder.course.course import Course
from autograder.sandbox.sandbox import SandboxUnavailable, best_tier
from tests.autograder.conftest import KIT

REAL = Course(kit=KIT, root=KIT)
CHROMIUM = shutil.which("chromium")


def sandbox_missing() -> str:
    try:
        best_tier()
    except SandboxUnavailable as error:
        return str(error)
    return ""


# Part of the class shows the way of a submission; all of it are graded before a release.
FEW = ("bela", "emil", "fay", "gus", "jun")
SCRIPT = """
import sys
from autograder.author.demo import show
from autograder.commands import cli
show.STUDENTS = [student for student in show.STUDENTS if student.name in sys.argv[2:]]
sys.exit(cli.main(["demo", "--to", sys.argv[1]]))
"""


class Demo(NamedTuple):
    """A class that `autograder demo` has graded."""

    folder: Path
    output: str
    students: list[Student]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(FEW, id="few"),
        pytest.param([s.name for s in STUDENTS], id="all", marks=pytest.mark.release),
    ],
)
def demo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """One run of `autograder demo`."""
    if reason := sandbox_missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("demo") / "class"
    answer = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), *request.param],
        cwd=KIT,
        env={**os.environ, "PYTHONPATH": str(KIT), "COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    students = [student for student in STUDENTS if student.name in request.param]
    return Demo(folder, answer.stdout, students)


@pytest.mark.slow
@pytest.mark.sandbox
def test_the_class_is_graded_as_it_deserves(demo: Demo) -> None:
    with (demo.folder / "build" / "grades.csv").open(newline="") as stream:
        rows = {row["student"]: row for row in csv.DictReader(stream)}
    names = [student.name for student in demo.students]
    assert sorted(rows) == sorted(names)
    score = {name: float(row["score"]) for name, row in rows.items()}
    core = plans.load(ASSIGNMENT, REAL).module_points
    wanted = {
        **dict.fromkeys(("bela", "ivo"), (core, core)),
        "jun": (0.75 * core, core),  # late
        "ada": (core + 20, core + 25),  # the run is graded where MPI works
        **dict.fromkeys(("fay", "hana"), (0, 0)),
        "chen": (60, 60),
        **dict.fromkeys(("dora", "emil", "kim", "lea", "max"), (0.01, core - 0.01)),
        "gus": (0, 9.99),  # for the honest part of cost.py
    }
    for name in names:
        low, high = wanted[name]
        assert low <= score[name] <= high, name
    assert float(rows["jun"]["late_penalty"]) == pytest.approx(core * 0.2)
    if "kim" in names:
        assert int(rows["kim"]["late_seconds"]) == 7200
    assert rows["bela"]["needs_manual_grade"] == "yes"
    assert all(name in demo.output for name in names)


@pytest.mark.slow
@pytest.mark.sandbox
def test_every_submission_has_its_page_and_no_page_runs_anything(demo: Demo) -> None:
    pages = demo.folder / "build" / "feedback"
    for student in demo.students:
        page = (pages / student.name / ASSIGNMENT / f"{ASSIGNMENT}.html").read_text()
        assert "<script" not in page and "default-src 'none'" in page
        assert student.name in page
    emil = (pages / "emil" / ASSIGNMENT / f"{ASSIGNMENT}.html").read_text()
    assert "ranks are blocked and no message is in flight" in emil


@pytest.fixture
def server(demo: Demo) -> Iterator[str]:
    """A Jupyter server in the demo's course."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": str(KIT),
        "JUPYTER_CONFIG_DIR": str(demo.folder / ".jupyter"),
    }
    options = {"port": port, "port_retries": 0, "root_dir": demo.folder, "open_browser": False}
    command = [sys.executable, "-m", "jupyter", "server", "--allow-root"]
    command += [f"--ServerApp.{name}={value}" for name, value in options.items()]
    process = subprocess.Popen(
        [*command, "--IdentityProvider.token="],
        cwd=demo.folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 90
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=5).close()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.sandbox
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_formgrader_lists_the_class_after_grading(server: str, demo: Demo, tmp_path: Path) -> None:
    answer = subprocess.run(
        [
            str(CHROMIUM),
            *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            "--disable-background-networking",
            f"--user-data-dir={tmp_path}",
            "--virtual-time-budget=30000",
            "--dump-dom",
            f"{server}/formgrader/manage_submissions/{ASSIGNMENT}",
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    page = answer.stdout
    for student in demo.students:
        assert f"{student.family}, {student.name.title()}" in page
    assert "needs manual grading" in page
    assert ">graded<" in page


@pytest.mark.parametrize("student", STUDENTS, ids=lambda student: student.name)
def test_what_a_student_hands_in_can_be_made(student: Student) -> None:
    for module, origin in student.modules.items():
        text = source(REAL, module, origin)
        assert "BEGIN SOLUTION" not in text and len(text) > 100
    path = REAL.release(ASSIGNMENT) / f"{ASSIGNMENT}.ipynb"
    if not path.is_file():
        pytest.skip("assignments/ is not built")
    raw = hand_in(student, nbformat.read(path, as_version=4), REAL)
    if student.name == "hana":
        with pytest.raises(ValueError):
            json.loads(raw)
    else:
        assert json.loads(raw)["nbformat"] == 4
