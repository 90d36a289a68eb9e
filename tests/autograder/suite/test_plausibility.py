"""Declared work against the kernel's CPU time: what doesn't fit is told to the instructor alone."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from rich.console import Console

from autograder.course import assignment as assignments
from autograder.course.limits import Limits
from autograder.grade import grading
from autograder.grade.outcome import Outcome
from autograder.report.feedback import page_of
from autograder.report.rendering import render
from autograder.report.report import print_report
from autograder.report.summary import summarise
from autograder.sandbox.allowance import Allowance
from autograder.suite.calls import Ranks
from autograder.suite.job import SuiteJob, TestRecord
from autograder.suite.plausibility import BUSY_S, Tally, peak_flop_per_s
from autograder.suite.plugin import Recorder
from ringside import Session

RANKS = """
import time
import numpy as np
import ringside

def _burn(seconds):
    a, end = np.ones((64, 64)), time.process_time() + seconds
    while time.process_time() < end:
        a @ a

def honest(comm):
    a = np.ones((200, 200), dtype="float32")
    for _ in range(20):
        ringside.compute(num_flops=2 * 200**3)
        a @ a
    comm.Barrier()

def lies(comm):
    ringside.compute(num_flops=1e15 if comm.rank == 1 else 1e6)

def rank_0_works_for_all(comm):
    if comm.rank == 0:
        _burn(0.6)
    ringside.compute(num_flops=1e8)
    comm.Barrier()

def all_work(comm):
    _burn(0.05)
    ringside.compute(num_flops=1e8)

def rank_0_has_more(comm):
    _burn(0.55 if comm.rank == 0 else 0.01)
    ringside.compute(num_flops=8e8 if comm.rank == 0 else 1e8)

def raises(comm):
    _burn(0.1)
    raise ValueError("no")
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("work")
    (folder / "work.py").write_text(RANKS)
    with Session(folder) as made:
        yield made


def flags_of(session: Session, function: str, size: int = 3, **options: bool) -> list[str]:
    tally = Tally()
    tally.add(session.call(f"work:{function}", size).raise_for_error(), **options)
    return tally.flags()


def test_kernel_tells_what_each_rank_has_had(session: Session) -> None:
    first = session.call("work:rank_0_works_for_all", 3).raise_for_error().cpu_s
    again = session.call("work:honest", 3).raise_for_error().cpu_s
    assert first[0] is not None and 0.55 <= first[0] < 3
    assert all(spent is not None and spent < 0.5 for spent in [*first[1:], *again])
    (spent,) = session.call("work:raises", 1).cpu_s
    assert spent is not None and spent >= 0.08
    pids = {peer.pid for world in session._worlds.values() for peer in world.peers}
    assert 0 not in pids and os.getpid() not in pids
    assert len(pids) == sum(len(world.peers) for world in session._worlds.values())


@pytest.mark.parametrize("function", ["honest", "all_work", "rank_0_has_more"])
def test_honest_work_is_not_flagged(session: Session, function: str) -> None:
    assert flags_of(session, function) == []


def test_honest_work_is_not_flagged_on_a_busy_machine(session: Session) -> None:
    """CPU time, not time: others on the machine make a rank slow, and charge it nothing."""
    done = threading.Event()

    def others() -> None:
        while not done.is_set():
            sum(range(10_000))

    threads = [threading.Thread(target=others) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert flags_of(session, "honest") == []
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_more_operations_than_a_core_can_make_are_flagged(session: Session) -> None:
    (flag,) = flags_of(session, "lies")
    assert flag.startswith("On 3 ranks, rank 1 declared 1e+15 floating-point operations in 0.")
    assert flags_of(session, "lies", stated=True) == []
    assert peak_flop_per_s() > 1e8


def test_a_lie_on_many_world_sizes_is_told_once(session: Session) -> None:
    tally = Tally()
    for size in (2, 3, 4):
        tally.add(session.call("work:lies", size))
    (flag,) = tally.flags()
    assert flag.startswith("On 4 ranks, rank 1 ") and flag.endswith(" It is so on 2, 3 too.")


def test_one_rank_that_works_for_all_is_flagged(session: Session) -> None:
    (flag,) = flags_of(session, "rank_0_works_for_all")
    assert flag.startswith("On 3 ranks, rank 0 had ") and "declare about as much work" in flag


def test_unknown_cpu_time_says_nothing(session: Session) -> None:
    result = session.call("work:lies", 3)
    result.cpu_s = [None] * 3
    tally = Tally()
    tally.add(result)
    assert tally.flags() == []
    assert BUSY_S > 0


def test_flag_reaches_the_report_and_not_the_student(session: Session, tmp_path: Path) -> None:
    plan = assignments.load("a03_allreduce")
    job = SuiteJob("star", str(session.folder), str(tmp_path / "record.json"), "s", "0", False)
    recorder = Recorder(job)
    recorder.ranks = Ranks(session, recorder.record, job, Allowance(Limits()))
    assert recorder.ranks.call("work:lies", 3, ()).error is None
    recorder.record.tests.append(TestRecord("test_star", "values", 100.0, 100.0))
    recorder.pytest_sessionfinish(Mock(testscollected=1))
    record = json.loads(Path(job.record).read_text())
    report = grading._report(plan, ["star"], {"star": record})
    (flag,) = report["modules"]["star"]["flags"]
    outcome = Outcome("ann", "graded", result=report, modules={"star": ""})
    assert outcome.as_json(plan)["flags"] == [f"star: {flag}"] and "rank 1 declared" in flag
    assert "CPU time" not in render(page_of(plan, outcome))
    screen = Console(file=io.StringIO(), width=400)
    print_report(screen, summarise(plan, [outcome], [], {}))
    assert "ann: flagged: star: On 3 ranks, rank 1 declared" in screen.file.getvalue()
