"""Suites as forks of a nursery: their output, their end, and what happens when somebody dies."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from autograder.grade.suite import nursery as suite_nursery

KIT = Path(__file__).resolve().parents[3]
SLEEPER = """
import os, time, pathlib
def test_sleeps():
    pathlib.Path({pid!r}).write_text(str(os.getpid()))
    time.sleep(600)
"""
GRADER = """
import sys; sys.path.insert(0, {kit!r})
from pathlib import Path
from autograder.grade.suite import nursery as suite_nursery
suite_nursery.run([{suite!r}], Path({folder!r}), 600)
"""


def wait_for(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to hold"
        time.sleep(0.02)


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_a_suite_runs_in_a_process_of_its_own_and_its_output_comes_back(tmp_path):
    (tmp_path / "test_it.py").write_text("def test_it():\n    assert [1] == [2]\n")
    outputs = [suite_nursery.run(["test_it.py"], tmp_path, 60) for _ in range(2)]
    for output in outputs:
        assert "assert [1] == [2]" in output
        assert "1 failed" in output


def test_a_suite_that_does_not_end_is_killed(tmp_path):
    pid = tmp_path / "pid"
    (tmp_path / "test_it.py").write_text(SLEEPER.format(pid=str(pid)))
    output = suite_nursery.run(["test_it.py"], tmp_path, 3)
    assert output.endswith("killed after 3 s")
    wait_for(lambda: not runs(int(pid.read_text())))


def test_a_nursery_that_has_died_is_replaced(tmp_path):
    first = suite_nursery._nursery()
    os.kill(first._process.pid, signal.SIGKILL)
    first._process.wait()
    (tmp_path / "test_it.py").write_text("def test_it():\n    pass\n")
    output = suite_nursery.run(["test_it.py"], tmp_path, 60)
    assert "1 passed" in output
    assert suite_nursery._nursery() is not first


def test_a_suite_ends_with_its_nursery_and_the_grader_hears_of_it(tmp_path):
    pid = tmp_path / "pid"
    (tmp_path / "test_it.py").write_text(SLEEPER.format(pid=str(pid)))
    outputs = []
    grader = threading.Thread(
        target=lambda: outputs.append(suite_nursery.run(["test_it.py"], tmp_path, 600))
    )
    grader.start()
    wait_for(lambda: pid.exists() and pid.read_text())
    os.kill(suite_nursery._nursery()._process.pid, signal.SIGKILL)
    grader.join(30)
    assert len(outputs) == 1 and "passed" not in outputs[0] and "killed" not in outputs[0]
    wait_for(lambda: not runs(int(pid.read_text())))


def test_nothing_runs_on_when_the_grader_is_killed(tmp_path):
    pid = tmp_path / "pid"
    suite = tmp_path / "test_it.py"
    suite.write_text(SLEEPER.format(pid=str(pid)))
    source = GRADER.format(kit=str(KIT), suite=str(suite), folder=str(tmp_path))
    grader = subprocess.Popen([sys.executable, "-c", source])
    wait_for(lambda: pid.exists() and pid.read_text())
    grader.kill()
    grader.wait()
    wait_for(lambda: not runs(int(pid.read_text())))
