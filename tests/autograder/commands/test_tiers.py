"""The same grade on every tier of sandbox, each named; and none without one."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest
from rich.console import Console

from autograder.commands.cli import main
from autograder.course import assignment
from autograder.grade.outcome import Outcome
from autograder.grade.suite.result import ModuleResult
from autograder.gradebook.report import report
from autograder.sandbox import sandbox
from autograder.sandbox.sandbox import Tier
from ringside.ranks import landlock
from tests.unprivileged import run_unprivileged

KIT = Path(__file__).resolve().parents[3]
# Right values, and a message too many: the network's points are lost, on any tier.
CHATTY = """
import numpy as np


def all_reduce(comm, x):
    total = np.array(x, copy=True)
    if comm.size > 1:
        if comm.rank == 0:
            for source in range(1, comm.size):
                part = np.empty_like(total)
                comm.Recv(part, source=source)
                total += part
            for dest in range(1, comm.size):
                comm.Send(total, dest=dest)
                comm.Send(total, dest=dest)
        else:
            comm.Send(np.ascontiguousarray(x), dest=0)
            comm.Recv(total, source=0)
            comm.Recv(total, source=0)
    return total
"""
GRADE = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
os.environ["PATH"] = sys.argv[2]
from pathlib import Path
from autograder.grade.grading import grade_module
sources = {"star": Path(sys.argv[3], "star.py").read_text()}
result = grade_module("a03_allreduce", sources, "star", secret="s")
tests = {test.name: test.earned for test in result.tests}
print(json.dumps([result.error, result.sandbox, tests]))
"""


def graded(folder: Path, path: str) -> tuple[str, dict[str, float]]:
    """The tier that an ordinary user gets with this PATH, and the points of each test."""
    words = [sys.executable, "-c", GRADE, str(KIT), path, str(folder)]
    process = run_unprivileged(words, [KIT, folder], timeout_s=240)
    assert process.returncode == 0, process.stderr
    error, tier, tests = json.loads(process.stdout.splitlines()[-1])
    assert error is None
    return tier, tests


@pytest.mark.release
@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.skipif(landlock.abi() < 1, reason="this kernel has no Landlock")
def test_a_submission_has_the_same_points_with_and_without_bubblewrap(tmp_path: Path) -> None:
    if sandbox._bubblewrap_fails() is not None:
        pytest.skip(f"bubblewrap does not work here: {sandbox._bubblewrap_fails()}")
    tmp_path.chmod(0o755)
    (tmp_path / "star.py").write_text(CHATTY)
    tier, tests = graded(tmp_path, os.environ["PATH"])
    assert tier in Tier.IN_BUBBLEWRAP
    assert 0 < sum(tests.values()) < 100
    alone, same = graded(tmp_path, "")  # no bwrap is found
    assert alone == Tier.LANDLOCK
    assert same == tests  # without real ranks, their test looks at simulated ones


@pytest.mark.skipif(landlock.abi() < 1, reason="this kernel has no Landlock")
def test_who_does_nothing_earns_nothing_where_there_are_no_real_ranks(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "star.py").write_text("def all_reduce(comm, x):\n    return x.copy()\n")
    tier, tests = graded(tmp_path, "")
    assert tier == Tier.LANDLOCK
    assert set(tests.values()) == {0}


def test_where_namespaces_are_refused_bubblewrap_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = tmp_path / "bwrap"
    said = "bwrap: No permissions to create a new namespace"
    refusing.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    if not sys.platform.startswith("linux") or not os.path.exists("/usr/bin/setpriv"):
        pytest.skip("bubblewrap is not tried here: it needs Linux and util-linux")
    reason = sandbox._bubblewrap_fails.__wrapped__()
    assert reason == said


def test_without_a_sandbox_nothing_is_graded_unless_submissions_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sandbox, "_bubblewrap_fails", lambda: "bwrap is not installed")
    monkeypatch.setattr(sandbox, "_landlock_fails", lambda: "this kernel has none")
    (tmp_path / "star.py").write_text("raise SystemExit('it ran')\n")
    assert main(["grade", "a03_allreduce", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert "no sandbox works on this machine" in said.err
    assert "--trust-submissions" in said.err
    assert said.out == ""


@pytest.mark.parametrize("words", ["demo --to {}/class", "verify a03_allreduce"])
def test_without_a_sandbox_a_class_gets_one_sentence_before_any_work(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sandbox, "_bubblewrap_fails", lambda: "bwrap is not installed")
    monkeypatch.setattr(sandbox, "_landlock_fails", lambda: "this kernel has none")
    assert main(words.format(tmp_path).split()) == 2
    said = capsys.readouterr()
    assert said.err.count("no sandbox works on this machine") == said.err.count("\n") == 1
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []


def test_the_table_of_scores_names_the_sandbox() -> None:
    graded = Outcome("ada", "graded", results={"star": ModuleResult("star", sandbox=Tier.LANDLOCK)})
    screen = Console(width=120, file=io.StringIO())
    screen.print(report.scores_table(assignment.load("a03_allreduce"), [graded]))
    assert isinstance(screen.file, io.StringIO)
    assert f"graded in: {Tier.LANDLOCK}" in screen.file.getvalue()


@pytest.mark.sandbox
@pytest.mark.skipif(os.geteuid() != 0, reason="another user inside: only where root grades")
def test_a_sandbox_that_can_not_read_modules_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    if sandbox._bubblewrap_fails() is not None:
        pytest.skip(f"bubblewrap does not work here: {sandbox._bubblewrap_fails()}")
    copy = sandbox.copy_modules

    def closed(modules: Path, target: Path, files: object = None) -> None:
        copy(modules, target, files)
        target.chmod(0o700)

    monkeypatch.setattr(sandbox, "copy_modules", closed)
    why = sandbox._bubblewrap_fails.__wrapped__()
    assert why is not None and "Permission denied" in why
