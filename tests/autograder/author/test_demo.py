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


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run of `autograder demo`, as a person would start it."""
    if reason := sandbox_missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("demo") / "class"
    environment = {**os.environ, "PYTHONPATH": str(KIT), "COLUMNS": "160"}
    started = time.monotonic()
    answer = subprocess.run(
        [sys.executable, "-m", "autograder", "demo", "--to", str(folder)],
        cwd=KIT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (folder / "output.txt").write_text(answer.stdout)
    (folder / "seconds.txt").write_text(str(time.monotonic() - started))
    return folder


@pytest.mark.slow
@pytest.mark.sandbox
def test_the_class_is_graded_as_it_deserves(demo: Path) -> None:
    with (demo / "build" / "grades.csv").open(newline="") as stream:
        rows = {row["student"]: row for row in csv.DictReader(stream)}
    assert sorted(rows) == sorted(student.name for student in STUDENTS)
    score = {name: float(row["score"]) for name, row in rows.items()}
    core = plans.load(ASSIGNMENT, REAL).module_points
    assert score["bela"] == score["ivo"] == core
    assert core + 20 <= score["ada"] <= core + 25  # the run is graded where MPI works
    assert score["fay"] == score["hana"] == 0
    assert score["chen"] == 60
    for name in ("dora", "emil", "lea", "max"):
        assert 0 < score[name] < core
    assert score["gus"] < 10  # for the honest part of cost.py
    assert float(rows["jun"]["late_penalty"]) == pytest.approx(core * 0.2)
    assert int(rows["kim"]["late_seconds"]) == 7200
    assert rows["bela"]["needs_manual_grade"] == "yes"
    output = (demo / "output.txt").read_text()
    assert all(student.name in output for student in STUDENTS)


@pytest.mark.slow
@pytest.mark.sandbox
def test_every_submission_has_its_page_and_no_page_runs_anything(demo: Path) -> None:
    for student in STUDENTS:
        path = demo / "build" / "feedback" / student.name / ASSIGNMENT / f"{ASSIGNMENT}.html"
        page = path.read_text()
        assert "<script" not in page and "default-src 'none'" in page
        assert student.name in page
    emil = demo / "build" / "feedback" / "emil" / ASSIGNMENT / f"{ASSIGNMENT}.html"
    assert "ranks are blocked and no message is in flight" in emil.read_text()


@pytest.fixture
def server(demo: Path) -> Iterator[str]:
    """A Jupyter server in the demo's course."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": str(KIT),
        "JUPYTER_CONFIG_DIR": str(demo / ".jupyter"),
    }
    options = {"port": port, "port_retries": 0, "root_dir": demo, "open_browser": False}
    command = [sys.executable, "-m", "jupyter", "server", "--allow-root"]
    command += [f"--ServerApp.{name}={value}" for name, value in options.items()]
    process = subprocess.Popen(
        [*command, "--IdentityProvider.token="],
        cwd=demo,
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
def test_formgrader_lists_the_class_after_grading(server: str, tmp_path: Path) -> None:
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
    for student in STUDENTS:
        assert f"{student.family}, {student.name.title()}" in page
    assert "needs manual grading" in page
    assert page.count(">graded<") >= 3


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
