"""What costs points is what a submission uses itself: the accounting, and the decision."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.course.limits import Limits
from autograder.sandbox.allowance import Allowance
from ringside.network import processes
from ringside.network.processes import Reading

LIMITS = Limits(cpu_s=60.0, sleep_s=20.0, clock_s=1800.0)


class Machine:
    """A machine whose clocks stand still until they are told."""

    def __init__(self) -> None:
        self.now_s = self.theirs_s = self.ours_s = 0.0
        self.awake = True
        self.yielded = 0
        self.allowance = Allowance(LIMITS, clock=lambda: self.now_s, own_cpu=lambda: self.ours_s)
        self.allowance.watch(lambda: Reading(self.theirs_s, self.awake), self.lower)

    def lower(self) -> None:
        self.yielded += 1

    def look(self, *, wall_s: float, cpu_s: float = 0.0, awake: bool = True) -> str | None:
        """One look, after so much time on the wall in which they had so much CPU time."""
        self.now_s += wall_s
        self.theirs_s += cpu_s
        self.awake = awake
        return self.allowance.over(not self.allowance.awake())


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_what_burns_is_ended_by_its_cpu_time_on_any_machine() -> None:
    for wall_s in (0.25, 6.0):  # a core of one's own, and one that 24 share
        machine = Machine()
        told = [machine.look(wall_s=wall_s, cpu_s=0.25) for _ in range(240)]
        assert told[:-1] == [None] * 239
        assert told[-1] is not None and "60 s of CPU time" in told[-1]
        assert not machine.allowance.ended_by_clock


def test_what_sleeps_is_ended_by_its_sleep_and_a_late_look_counts_as_one(machine: Machine) -> None:
    assert not any(machine.look(wall_s=5.0, awake=False) for _ in range(79))
    assert "slept for 20 s" in str(machine.look(wall_s=5.0, awake=False))
    assert not machine.allowance.ended_by_clock


def test_what_waits_for_a_processor_uses_up_the_clock_alone(machine: Machine) -> None:
    assert not any(machine.look(wall_s=10.0, cpu_s=0.01) for _ in range(179))
    assert machine.look(wall_s=10.0) == "within 1800 s"
    assert machine.allowance.ended_by_clock
    assert machine.look(wall_s=0.0, cpu_s=100.0) == "within 1800 s"  # it has ended


def test_the_network_works_for_the_submission_while_a_call_lasts(machine: Machine) -> None:
    machine.ours_s = 50.0
    with machine.allowance.calling():
        machine.ours_s += 30.0
        assert machine.allowance.cpu_s == 30.0
    machine.ours_s += 100.0
    assert machine.allowance.cpu_s == 30.0
    assert machine.look(wall_s=1.0, cpu_s=29.0) is None
    assert "CPU time" in str(machine.look(wall_s=1.0, cpu_s=1.0))


def test_threads_that_go_on_after_a_call_count(machine: Machine) -> None:
    with machine.allowance.calling():
        machine.now_s += 1.0
        machine.theirs_s += 60.0
    assert machine.allowance.ended


def test_who_has_used_a_quarter_lets_others_go_first(machine: Machine) -> None:
    machine.look(wall_s=1.0, cpu_s=14.0)
    assert not machine.yielded
    machine.look(wall_s=1.0, cpu_s=1.0)
    assert machine.yielded


def test_a_first_process_that_has_ended_takes_nothing_back(machine: Machine) -> None:
    machine.look(wall_s=1.0, cpu_s=40.0)
    machine.look(wall_s=1.0, cpu_s=-40.0)
    assert machine.allowance.cpu_s == 40.0


# -- what the kernel tells -------------------------------------------------------------------------

FAMILY = """
import os, sys, time
def burn():
    end = time.process_time() + 0.1
    while time.process_time() < end: pass
if not os.fork():
    burn()
    os._exit(0)
os.wait()              # counts with this process
if not os.fork():
    burn()
    os._exit(0)        # counts for itself: nobody waits for it
child = os.fork()
if not child:
    burn()
    print("ready", flush=True)
    sys.stdin.read(1)
    while True: pass
os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
os.waitpid(child, 0)
"""


@pytest.fixture
def family() -> Iterator[subprocess.Popen[str]]:
    if not Path("/proc/self/stat").exists():
        pytest.skip("this system has no /proc")
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", FAMILY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    process.stdin.close()


def state_of(pid: int) -> bytes:
    fields = processes.stat(pid)
    assert fields is not None
    return fields[0]


def test_the_time_of_a_tree_holds_that_of_ended_children(family: subprocess.Popen[str]) -> None:
    assert len(processes.tree(family.pid)) == 3
    while any(state_of(pid) in b"RD" for pid in processes.tree(family.pid)):
        os.sched_yield()  # until the last one reads, and the first one waits
    told = processes.of_tree(family.pid)
    assert 0.27 <= told.cpu_s < 20
    assert not told.awake
    assert family.stdin is not None
    family.stdin.write("x")
    family.stdin.flush()
    while not (now := processes.of_tree(family.pid)).awake:
        os.sched_yield()
    assert now.cpu_s >= told.cpu_s


def test_a_process_whose_second_thread_works_is_awake() -> None:
    told: list[bool] = []

    def look() -> None:  # while the first thread waits for this one
        told.append(processes.of_tree(os.getpid()).awake)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert told == [True]


def test_a_process_that_has_gone_has_used_nothing() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert processes.of_tree(child.pid) == Reading(0.0, False)
