"""Who reads the end of a failed run sees what failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import leftovers

KIT = Path(__file__).resolve().parent.parent
FAILS = """
import pytest, socket, subprocess, sys

class Server:
    def __init__(self):
        self.file = open(__file__)
        self.sockets = socket.socketpair()
        self.process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
        raise ValueError("it does not start")

@pytest.fixture(scope="session")
def server():
    return Server()

def test_it_answers(server):
    pass

def test_it_starts():
    Server()
"""
LEAKS = """
class Knot:
    def __init__(self):
        self.file = open(__file__)
        self.itself = self

def test_it_passes():
    Knot()
"""


def run(folder: Path, text: str) -> tuple[int, list[str]]:
    """Exit status and lines, both streams in one, of pytest with the kit's own rules."""
    (folder / "test_one.py").write_text(text)
    words = ["-m", "pytest", "-c", str(KIT / "pyproject.toml"), f"--rootdir={folder}", "-q"]
    done = subprocess.run(
        [sys.executable, *words, "-p", "no:cacheprovider", "-p", leftovers.__name__, "test_one.py"],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(KIT)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout.splitlines()


def test_the_failures_are_the_last_that_a_reader_sees(tmp_path: Path) -> None:
    status, lines = run(tmp_path, FAILS)
    assert status == 1
    assert " short test summary info " in lines[-4]
    assert lines[-3:-1] == [
        "ERROR test_one.py::test_it_answers - ValueError: it does not start",
        "FAILED test_one.py::test_it_starts - ValueError: it does not start",
    ]
    assert lines[-1].startswith("1 failed, 1 error in ")
    above = lines[next(at for at, line in enumerate(lines) if "left open by tests" in line) : -4]
    assert sum("unclosed <socket.socket" in line for line in above) == 4
    assert any("unclosed file" in line and "test_one.py" in line for line in above)


def test_what_is_left_open_where_nothing_failed_is_still_an_error(tmp_path: Path) -> None:
    status, lines = run(tmp_path, LEAKS)
    assert status != 0
    assert any("ResourceWarning: unclosed file" in line for line in lines)


def test_the_kits_own_tests_run_so(pytestconfig: pytest.Config) -> None:
    for name in ("pytest_sessionfinish", "pytest_terminal_summary"):
        callers = getattr(pytestconfig.hook, name).get_hookimpls()
        assert getattr(leftovers, name) in [caller.function for caller in callers]
