"""`ringside check` on modules that don't end: which rank, which line, and nothing left behind."""

from __future__ import annotations

import dataclasses
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ringside.checking import public_tests
from ringside.checking.public_tests import ModuleReport, TestRecord
from ringside.checking.pytest_process import TestsError, follow
from ringside.checking.requirements import Requirement, Requirements
from ringside.errors import Interrupted
from tests.requirements import lay_requirements

TESTS = """
from dataclasses import dataclass

from ringside.checking.cases import Case
from ringside.checking.suite import Suite

suite = Suite("MODULE")


@dataclass(frozen=True)
class F(Case):
    target = "MODULE:f"

    def inputs(self, rank):
        return ()

    def right(self):
        return [1] * self.p


@suite.test("first", "values", F())
def test_the_first(case, run):
    pass


@suite.test("second", "values", F())
def test_the_second(case, run):
    pass


@suite.test("third", "values", F())
def test_the_third(case, run):
    pass
"""
OF_COST = """
from dataclasses import dataclass

from ringside.checking.cases import Formula
from ringside.checking.suite import Suite


@dataclass(frozen=True)
class F(Formula):
    target = "cost:f"
    ranks: int = 4


@Suite("cost").test("all", "values", F())
def test_a_formula(case, run):
    pass
"""
RIGHT = "def f(comm):\n    return 1\n"
LOOP = """
def f(comm):
    comm.Barrier()
    if comm.rank == 1:
        while True:
            pass
    comm.recv(source=1)
"""
STEP = """
import numpy as np


def f(comm):
    x, step = np.zeros(3), 0
    while step < comm.size - 1:
        comm.Sendrecv(x, 1 - comm.rank, recvbuf=np.empty(3), source=1 - comm.rank)
"""
FORMULA = """
def f(p):
    steps = 0
    while p > 1:
        steps += 1
    return steps
"""
FLOOD = """
def f(comm):
    while comm.rank == 0:
        print("sum" * 100)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An assignment's folder with right modules."""
    for name in ("ring", "star"):
        (tmp_path / f"{name}.py").write_text(RIGHT)
    lay_tests(tmp_path, "ring", "star")
    return tmp_path


def lay_tests(folder: Path, *modules: str) -> None:
    (folder / "checks").mkdir()
    for name in modules:
        text = OF_COST if name == "cost" else TESTS.replace("MODULE", name)
        (folder / "checks" / f"test_{name}.py").write_text(text)
        points = {"all": 100} if name == "cost" else {"first": 50, "second": 30, "third": 20}
        lay_requirements(folder / "checks", name, **points)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of each of four modules that never end, what one check says."""
    folder = tmp_path_factory.mktemp("endless")
    bad = {"ring": LOOP, "star": FLOOD, "step": STEP, "cost": FORMULA}
    for name, text in bad.items():
        (folder / f"{name}.py").write_text(text)
    lay_tests(folder, *bad)
    report = public_tests.run(folder, list(bad), timeout_s=2.0)
    alone = [dataclasses.replace(report, modules=[module]) for module in report.modules]
    return {one.modules[0].name: public_tests.text(one) for one in alone}


def test_an_endless_loop_is_named_with_rank_and_line_and_met_once(told: dict[str, str]) -> None:
    assert "f on 2 ranks: did not end within 2 s." in told["ring"]
    assert "rank 0 is blocked in recv(source=1, tag=ANY_TAG) at ring.py:7" in told["ring"]
    assert "rank 1 is computing at ring.py:" in told["ring"]
    assert " (in f), after Barrier() at ring.py:3" in told["ring"]
    assert "not run: an earlier call of ring.py did not end." in told["ring"]
    assert "the same in 1 more test (20 points): the third" in told["ring"]
    assert "ring: 0 of 100 public points" in told["ring"]


def test_the_line_of_a_loop_is_told_where_its_test_is_not_the_first_that_is_shown(
    folder: Path,
) -> None:
    (folder / "ring.py").write_text(LOOP)
    report = public_tests.run(folder, ["ring"], timeout_s=2.0)
    (module,) = report.modules
    backwards = dataclasses.replace(module.requirements, each=module.requirements.each[::-1])
    shown = dataclasses.replace(module, requirements=backwards)
    said = public_tests.text(dataclasses.replace(report, modules=[shown]))
    assert said.index(public_tests.NOT_BEGUN) < said.index("is computing at ring.py:")


def test_a_forgotten_step_is_named_with_its_line(told: dict[str, str]) -> None:
    assert "did not end within 2 s." in told["step"]
    assert "Sendrecv(" in told["step"] and "at step.py:8" in told["step"]


def test_a_loop_in_a_function_without_ranks_is_named_with_its_line(told: dict[str, str]) -> None:
    assert "rank 0 is computing at cost.py:" in told["cost"]


def test_of_a_print_flood_the_amount_is_told_and_the_line(told: dict[str, str]) -> None:
    assert "rank 0 is computing at star.py:" in told["star"]
    assert ", and has printed more than " in told["star"]
    assert len(told["star"]) < 2000


def test_as_many_calls_as_the_network_takes_are_told_with_the_last_ones_line(
    folder: Path,
) -> None:
    from ringside import Session
    from ringside.network.bounds import Limits as OfTheNetwork

    (folder / "ring.py").write_text(STEP)
    with Session(folder, limits=OfTheNetwork(operations=100)) as session:
        error = session.call("ring:f", 2).error
    assert "made more than 100 operations" in str(error)
    assert "in all; the last is Sendrecv(" in str(error)
    assert "at ring.py:8" in str(error)


BYTES, OWN, INPUTS = (
    Requirement("bytes", 80, "A rank sends two shards a step at most."),
    Requirement("own", 15, "The rank's own messages carry the data."),
    Requirement("inputs", 5, "Inputs stay as they were."),
)
ASKED = Requirements("own", 30, (BYTES, OWN, INPUTS))


def shown(*tests: TestRecord) -> list[str]:
    module = ModuleReport("ring", list(tests), ASKED)
    return public_tests.text(public_tests.Report(Path(), [module])).splitlines()


def test_each_requirement_has_its_points_and_a_cause_is_told_once() -> None:
    def failed(number: int, why: str, requirement: str) -> TestRecord:
        words = f"f on {number} ranks, n = {number * 3}, float64: {why}\nand more"
        return TestRecord(
            f"test_on_{number}_ranks", "ring", "values", requirement, 5.0, message=words,
            reproduce=f"ringside run --ranks {number}",
        )  # fmt: skip

    many = "rank 0 sent {} bytes; none may."
    tests = [failed(number, many.format(number * 8), "bytes") for number in range(2, 18)]
    tests += [TestRecord("test_own", "ring", "values", "own", 15.0, 15.0)]
    tests.append(failed(18, "rank 1 changed its input; it must stay as it was.", "inputs"))
    lines = shown(*tests)
    assert [line.split()[:2] for line in lines if line[2:6].strip()][:-1] == [
        ["ring:", "15"], ["FAIL", "0/80"], ["ok", "15/15"], ["FAIL", "0/5"],
    ]  # fmt: skip
    said = " ".join(" ".join(lines).split())
    assert "the same in 15 more tests (75 points): on 3 ranks; on 4" in said
    assert max(map(len, lines)) <= 110


def test_without_the_point_of_the_exercise_not_all_counts_and_it_is_said_once() -> None:
    right = TestRecord("test_bytes", "ring", "values", "bytes", 80.0, 80.0)
    none = TestRecord("test_own", "ring", "values", "own", 15.0, message="none.")
    lines = shown(right, none)
    assert lines[0] == "ring: 30 of 95 public points"
    said = " ".join(" ".join(lines).split())
    assert "80 points, of which 30 count: the point of the exercise is missing" in said
    assert said.count("(The point of the exercise: without it at most 30 of 100.)") == 1
    assert lines.index("  ok        80/80  A rank sends two shards a step at most.")


# -- stopped ---------------------------------------------------------------------------------------

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts a program in the folder whose ring never ends, and waits until its ranks run."""
    (folder / "ring.py").write_text(LOOP)
    started: list[subprocess.Popen[str]] = []

    def begin(*words: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            env={**os.environ, "RINGSIDE_TEST": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            # Tests that run in the background may have inherited that SIGINT is ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def ranks_of(process: subprocess.Popen[str], how_many: int = 4) -> list[psutil.Process]:
    """What a check has started: pytest, the zygote and two ranks, one of which computes."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = psutil.Process(process.pid).children(recursive=True)
        with_time = [each for each in found if _spent_s(each) > 0.3]
        if len(found) == how_many and found[-1] in with_time:
            return found
        time.sleep(0.02)
    raise AssertionError(f"no ranks: {found}")


def _spent_s(process: psutil.Process) -> float:
    try:
        return float(process.cpu_times().user)
    except psutil.Error:
        return 0.0


def assert_all_gone(processes: list[psutil.Process]) -> None:
    assert psutil.wait_procs(processes, timeout=30)[1] == []


def test_ctrl_c_ends_a_check_and_says_where_it_was(start: Start) -> None:
    process = start("-m", "ringside", "check", "ring")
    started = ranks_of(process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and output == ""
    assert errors.startswith("ringside: stopped in ring's test 'the first' after ")
    assert "rank 1 is computing at ring.py:" in errors and "rank 0 is blocked in recv" in errors
    assert "Traceback" not in errors
    assert_all_gone(started)


def test_a_killed_check_leaves_no_process(start: Start) -> None:
    process = start("-m", "ringside", "check", "ring")
    started = ranks_of(process)
    process.kill()
    assert_all_gone(started)


def test_interrupt_in_a_notebook_shows_where_it_was_and_no_frames(start: Start) -> None:
    cell = "from ringside.checking import public_tests; public_tests.check('ring')"
    process = start("-m", "IPython", "--colors=NoColor", "--no-banner", "-c", cell)
    started = ranks_of(process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert "stopped in ring's test 'the first' after " in output + errors
    assert "rank 1 is computing at ring.py:" in output + errors
    assert "Traceback" not in output + errors and "pytest_process.py" not in output + errors
    assert_all_gone(started)


def test_ctrl_c_in_a_run_says_where_the_ranks_are(start: Start) -> None:
    process = start("-m", "ringside", "run", "ring.py:f", "--ranks", "2")
    started = ranks_of(process, 3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.startswith("ringside: stopped:\n  rank 0 is blocked in recv")
    assert_all_gone(started)


def test_a_stopped_session_starts_new_ranks_for_its_next_call(folder: Path) -> None:
    from ringside import Session

    (folder / "ring.py").write_text(LOOP)
    with Session(folder) as session:
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        try:
            with pytest.raises(Interrupted, match=r"stopped:\n  rank 0 is "):
                session.call("ring:f", 2)
        finally:
            signal.signal(signal.SIGALRM, before)
        assert session.call("star:f", 2).values == [1, 1]


def test_what_hangs_outside_of_any_call_is_ended_and_named(folder: Path) -> None:
    (folder / "test_endless.py").write_text("while True:\n    pass\n")
    words = ["-p", "ringside.checking.pytest_plugin", "-c", os.devnull, "test_endless.py"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    before = psutil.Process().children()
    with (
        (folder / "output").open("wb") as output,
        pytest.raises(TestsError, match=r"collecting the tests did not end within 0\.5 s\."),
    ):
        follow(words, folder, environment, output, test_s=0.5)
    assert psutil.Process().children() == before


# -- shown -----------------------------------------------------------------------------------------


def test_a_terminal_shows_which_test_runs_and_clears_the_line(start: Start, folder: Path) -> None:
    (folder / "ring.py").write_text(RIGHT)
    master, slave = pty.openpty()
    process = start("-m", "ringside", "check", "ring", stderr=slave)
    os.close(slave)
    shown = b""
    try:
        while data := os.read(master, 4096):
            shown += data
    except OSError:  # the other side has closed
        pass
    os.close(master)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and "ring: 100 of 100" in output
    for line in ("starting the tests", "ring 1/3: the first, 0 s", "ring 3/3: the third, 0 s"):
        assert line in shown.decode()
    assert shown.endswith(b"\r\x1b[K")


def test_elsewhere_no_progress_is_shown(start: Start, folder: Path) -> None:
    (folder / "ring.py").write_text(RIGHT)
    _, errors = start("-m", "ringside", "check", "ring").communicate(timeout=60)
    assert errors == ""


def test_stacks_that_ranks_were_asked_for_are_no_output_of_theirs(folder: Path) -> None:
    from ringside import Session

    (folder / "ring.py").write_text(LOOP.replace("    comm.Barrier()", "    print('hello')"))
    with Session(folder) as session:
        result = session.call("ring:f", 3, timeout_s=2.0)
    assert "rank 1 is computing at ring.py:" in str(result.error)
    assert result.output == ["hello\n"] * 3
