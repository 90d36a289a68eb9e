"""Control groups: what the kernel does with them, where it lets us; and what is decided before."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.course.limits import Limits
from autograder.sandbox import cgroups, sandbox
from autograder.sandbox.cgroups import ControlGroup
from autograder.sandbox.sandbox import Sandbox, SandboxUnavailable, Tier, best_tier

pytestmark = pytest.mark.sandbox
MIB = 1 << 20
WITHOUT = sandbox.cgroups_fail()
controlled = pytest.mark.skipif(
    WITHOUT is not None,
    reason=f"NO CONTROL GROUPS WITH MEMORY AND PIDS HERE, the first tier is not tested: {WITHOUT}",
)


# -- a group without controllers: most kernels let root make one -----------------------------------


@pytest.fixture
def group() -> Iterator[ControlGroup]:
    try:
        made = ControlGroup.make(cgroups.delegated(), Limits())
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield made
    made.close()
    assert not made.path.exists()


def start(group: ControlGroup, code: str) -> subprocess.Popen[str]:
    words = [*group.enter(), sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


FAMILY = """
import os, signal, sys, time
for number in range(1, 32):
    if number not in (9, 17, 19):
        signal.signal(number, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        break
os.write(1, b"there\\n")  # in one piece: four write to this pipe
time.sleep(1000)
"""


def test_what_a_process_starts_is_in_its_group_and_ends_with_it(group: ControlGroup) -> None:
    process = start(group, FAMILY)
    assert process.stdout is not None
    with process.stdout:
        said = [process.stdout.readline() for _ in range(4)]
    seen = group.processes()
    populated = group.populated()
    group.kill()
    assert not group.populated()
    assert group.processes() == []
    assert process.wait(10) == -9
    assert said == ["there\n"] * 4
    assert populated
    assert process.pid in seen
    assert len(seen) >= 4  # those that only made others may not have ended yet


def test_the_first_command_of_a_group_does_not_tell_where_it_is(group: ControlGroup) -> None:
    process = start(group, "print(open('/proc/self/cmdline').read())")
    said, _ = process.communicate(timeout=20)
    assert "cgroup" not in said and sys.executable in said


def test_a_group_tells_what_its_processes_have_used(group: ControlGroup) -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    process = start(group, burn)
    process.communicate(timeout=60)
    assert 0.2 <= group.usage().cpu_s < 20
    assert group.killed_for(Limits()) is None


def test_groups_that_a_killed_grader_left_are_removed(group: ControlGroup) -> None:
    # A number that is no process's now, as far as its start tells.
    left = ControlGroup(group.path.with_name(f"ringside-{os.getpid()}-1-0"))
    left.path.mkdir()
    process = start(left, "import time; time.sleep(1000)")
    while not left.populated():
        time.sleep(0.001)
    cgroups._sweep(group.path.parent)
    assert not left.path.exists()
    assert group.path.exists()
    process.communicate()
    assert process.returncode == -9


# -- with controllers: where some were delegated, as on a systemd machine --------------------------


def inside(tmp_path: Path, code: str, limits: Limits) -> tuple[int, str, str | None]:
    with Sandbox(tmp_path, tier=Tier.CGROUPS, limits=limits) as place:
        process = place.popen([place.python, "-I", "-c", textwrap.dedent(code)])
        status = process.wait(60)
        output = process.output()
        killed_for = process.killed_for
        place.kill()
        assert place.survivors() == []
    usage = process.usage()
    assert usage is not None and usage.cpu_s > 0
    return status, output.strip(), killed_for


@controlled
def test_the_best_tier_has_groups() -> None:
    assert best_tier() == Tier.CGROUPS


@controlled
def test_memory_that_no_watchdog_sees_meets_the_kernels_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "autograder.sandbox.watchdog.Watchdog.look", lambda self: {}
    )  # it sees nothing
    code = """
    import os
    child = os.fork()
    if child == 0:
        blocks = []
        while True:
            blocks.append(bytearray(os.urandom(4096)) * 1024)
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    few = Limits(memory_bytes=100 * MIB, tmp_bytes=4 * MIB, shm_bytes=4 * MIB)
    status, output, killed_for = inside(tmp_path, code, few)
    assert (status, output) == (0, "child -9")  # the greedy one alone
    assert killed_for is not None and killed_for.startswith("memory: all of 172 MiB used")


@controlled
def test_the_watchdog_decides_where_it_is_fast_enough(tmp_path: Path) -> None:
    code = """
    import time
    blocks = []
    while True:
        blocks.append(bytearray(4 << 20))
        blocks[-1][::4096] = bytes(1024)
        time.sleep(0.02)
    """
    status, _, killed_for = inside(tmp_path, code, Limits(memory_bytes=100 * MIB))
    assert status != 0
    assert killed_for is not None and "100 MiB allowed" in killed_for
    assert "and their files" not in killed_for


@controlled
def test_processes_meet_the_groups_limit_whoever_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the limit of the user's processes did not bind.
    monkeypatch.setattr(Sandbox, "_nproc", lambda self: 10_000)
    code = """
    import os, time
    count = 0
    try:
        while True:
            if os.fork() == 0:
                time.sleep(1000)
            count += 1
    except BlockingIOError:
        print(count, flush=True)
    os._exit(0)
    """
    status, output, _ = inside(tmp_path, code, Limits(processes=40))
    assert status == 0
    assert 35 <= int(output) <= 40 + cgroups._BESIDES


@controlled
def test_a_group_has_the_limits_of_its_sandbox(tmp_path: Path) -> None:
    wanted = Limits(memory_bytes=100 * MIB, processes=40, cpu_cores=3)
    group = ControlGroup.make(cgroups.delegated(), wanted)
    try:
        for name, value in cgroups.settings(wanted).items():
            if (group.path / name).exists():
                assert (group.path / name).read_text().strip() == value
            else:
                assert name in ("cpu.max", "memory.swap.max"), "memory and pids are needed"
    finally:
        group.close()


@controlled
def test_no_group_is_left(tmp_path: Path) -> None:
    base = cgroups.delegated()
    own = f"{cgroups._PREFIX}{os.getpid()}-*"
    inside(tmp_path, "print(1)", Limits())
    assert list(base.glob(own)) == []


# -- what is decided: on a folder that only looks like control groups ------------------------------


@pytest.fixture
def pretended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """NOT control groups: a folder with files of their names, for what we read and write."""
    base = tmp_path / "unit.scope"
    base.mkdir()
    for name, text in {
        "cgroup.controllers": "cpuset cpu io memory pids",
        "cgroup.subtree_control": "",
        "cgroup.procs": "",
        "cgroup.type": "domain",
    }.items():
        (base / name).write_text(text)
    monkeypatch.setattr(cgroups, "own_group", lambda: base)
    monkeypatch.setattr(cgroups, "_mount", lambda: (tmp_path, "/"))
    return base


def test_a_group_with_the_mark_of_delegation_is_taken(
    pretended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pretended.parent / "cgroup.procs").write_text("")  # we could write the one above too
    with pytest.raises(OSError, match=r"is kept by others; start the grader by `systemd-run"):
        cgroups.delegated()
    monkeypatch.setattr(os, "getxattr", lambda path, name: b"1" if "user." in name else b"")
    assert cgroups.delegated() == pretended


def test_a_group_whose_parent_is_not_ours_is_taken_from_its_leaf_too(
    pretended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cgroups.delegated() == pretended
    leaf = pretended / "ringside-grader"
    leaf.mkdir()
    monkeypatch.setattr(cgroups, "own_group", lambda: leaf)
    assert cgroups.delegated() == pretended


def test_processes_go_into_the_leaf_before_controllers_come(pretended: Path) -> None:
    (pretended / "cgroup.procs").write_text("11\n12\n")
    written: list[tuple[str, str]] = []
    real = Path.write_text

    def write(path: Path, text: str, *args: object) -> int:
        written.append((f"{path.parent.name}/{path.name}", text))
        if path.parent.name == "ringside-grader":
            return real(pretended / "cgroup.procs", "" if text == "12" else "12\n")
        return len(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "write_text", write)
        assert cgroups.settle() == pretended
    control = "unit.scope/cgroup.subtree_control"
    assert written == [
        ("ringside-grader/cgroup.procs", "11"),
        ("ringside-grader/cgroup.procs", "12"),
        *((control, f"+{name}") for name in ("memory", "pids", "cpu", "cpuset")),
        ("ringside-grader/cpu.weight", "400"),  # it serves all sandboxes
    ]


@pytest.mark.parametrize(
    ("controllers", "said"), [("cpu pids", "has no controller memory"), ("", "it has none")]
)
def test_a_group_without_the_controllers_is_not_enough(
    pretended: Path, controllers: str, said: str
) -> None:
    (pretended / "cgroup.controllers").write_text(controllers)
    assert said in (cgroups.why_not() or "")
    assert not list(pretended.glob("ringside-*"))  # and nothing was moved


def test_where_groups_fail_bubblewrap_alone_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_bubblewrap_fails", lambda: None)
    monkeypatch.setattr(sandbox, "cgroups_fail", lambda: "not delegated")
    assert best_tier() == Tier.BUBBLEWRAP
    monkeypatch.setattr(sandbox, "cgroups_fail", lambda: None)
    assert best_tier() == Tier.CGROUPS
    # Groups alone are no sandbox.
    monkeypatch.setattr(sandbox, "_bubblewrap_fails", lambda: "not installed")
    monkeypatch.setattr(sandbox, "_landlock_fails", lambda: "not here")
    with pytest.raises(SandboxUnavailable, match="not installed"):
        best_tier()


def test_the_kernels_limit_lies_above_the_watchdogs() -> None:
    few = Limits(memory_bytes=100 * MIB, tmp_bytes=10 * MIB, shm_bytes=20 * MIB)
    asked = cgroups.settings(few)
    assert int(asked["memory.max"]) >= 130 * MIB
    assert asked["memory.swap.max"] == "0"
    assert int(asked["pids.max"]) > few.processes
