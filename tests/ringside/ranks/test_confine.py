"""A confined rank reaches neither its sibling nor anything but its libraries."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ringside.ranks import confine, landlock, seccomp
from tests.sibling_attempts import ATTEMPTS

HERE = Path(__file__).resolve().parents[2]
KIT = HERE.parent
SCRIPT = HERE / "sibling_attempts.py"

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="ranks are confined on Linux only"
)


def outcomes(mode: str) -> dict[str, tuple[bool, str]]:
    """Every attempt of one rank on its sibling: whether it succeeded, and what it met."""
    process = subprocess.run(
        [sys.executable, "-I", str(SCRIPT), str(KIT), mode],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return {name: tuple(outcome) for name, outcome in json.loads(process.stdout).items()}


@pytest.fixture(scope="module")
def unconfined() -> dict[str, tuple[bool, str]]:
    return outcomes("open")


@pytest.fixture(scope="module")
def confined() -> dict[str, tuple[bool, str]]:
    return outcomes("confined")


def in_fork(code: str, *, before: str = "", **options: object) -> str:
    """Run code in a forked, confined process that first imports NumPy; what it printed."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in options.items())
    script = f"""
import os, sys
from pathlib import Path, PosixPath
sys.path.insert(0, {str(KIT)!r})
import numpy as np
from ringside.ranks.confine import confine, harden_zygote, limit_resources
{before}
harden_zygote()
if os.fork() == 0:
    report = confine({arguments or "None"})
    try:
        exec({code!r})
    except BaseException as error:
        print(type(error).__name__, error)
    sys.stdout.flush()
    os._exit(0)
print("status", os.waitstatus_to_exitcode(os.wait()[1]))
"""
    process = subprocess.run(
        [sys.executable, "-I", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return process.stdout


@pytest.mark.parametrize("name", sorted(ATTEMPTS))
def test_an_attempt_on_the_sibling_fails(name, confined):
    succeeded, error = confined[name]
    assert not succeeded, error


@pytest.mark.parametrize("name", sorted(ATTEMPTS))
def test_the_same_attempt_succeeds_where_nothing_is_confined(name, unconfined):
    succeeded, error = unconfined[name]
    if not succeeded:
        pytest.skip(f"this machine forbids it by itself: {error}")
    assert succeeded


def test_most_attempts_do_succeed_where_nothing_is_confined(unconfined):
    assert sum(succeeded for succeeded, _ in unconfined.values()) > 0.7 * len(unconfined)


def test_the_report_names_what_holds():
    output = in_fork("print(report.complete, report)")
    if landlock.abi() >= 3 and "True" in in_fork("print(report.complete)"):
        assert output.startswith("True confined (Landlock")
    else:
        assert output.startswith("False not fully confined: ")


def test_every_call_that_is_not_on_the_list_gives_permission_error():
    column = list(seccomp.ARCHITECTURES).index(platform.machine())
    listed = {**seccomp._ALLOWED, **seccomp._CONDITIONAL, **seccomp._FILE_CHANGES}
    known = {row[column] for row in listed.values()}
    known |= {335, 336}  # probes of debuggers: of these the kernel asks no filter
    numbers = [number for number in range(seccomp._NEWEST + 1) if number not in known]
    assert len(numbers) > 200
    code = f"""
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
allowed = []
for number in {numbers}:
    if libc.syscall(number, *[ctypes.c_long(-1)] * 6) != -1 or ctypes.get_errno() != errno.EPERM:
        allowed.append(number)
print(allowed)
"""
    assert in_fork(code) == "[]\nstatus 0\n"


def test_system_calls_newer_than_the_table_are_not_there():
    code = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
answers = {(libc.syscall(number), ctypes.get_errno()) for number in (435, 451, 462, 1000)}
print(answers == {(-1, errno.ENOSYS)})
"""
    assert in_fork(code) == "True\nstatus 0\n"


def test_libraries_work_in_a_confined_rank():
    code = """
import decimal, json, sqlite3, threading
values = np.linalg.svd(2 * np.eye(3), compute_uv=False)
threads = [threading.Thread(target=np.ones, args=(10,)) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
rng = np.random.default_rng()
print(round(float(values.sum()), 9), rng.random() < 1, open("/dev/null", "w").write("x"))
"""
    assert in_fork(code) == "6.0 True 1\nstatus 0\n"


def test_threads_can_be_refused():
    output = in_fork(
        "import threading; threading.Thread(target=print).start()", threads=False, scratch=None
    )
    assert output == "RuntimeError can't start new thread\nstatus 0\n"


def test_a_rank_may_abort_itself():
    assert in_fork("os.abort()") == "status -6\n"


def test_a_strict_rank_reads_its_modules_and_no_other_file(tmp_path):
    modules, other = tmp_path / "modules", tmp_path / "other"
    for folder in (modules, other):
        folder.mkdir()
        (folder / "ring.py").write_text("NAME = 'ring'\n")
    reading = f"print(open({str(modules / 'ring.py')!r}).read().strip())"
    assert in_fork(reading, scratch=None, read=[modules]) == "NAME = 'ring'\nstatus 0\n"
    reading = f"open({str(other / 'ring.py')!r})"
    assert in_fork(reading, scratch=None, read=[modules]).startswith("PermissionError [Errno 13]")


def test_the_modules_folder_is_the_first_entry_of_the_path_by_default(tmp_path):
    (tmp_path / "ring.py").write_text("NAME = 'ring'\n")
    before = f"sys.path.insert(0, {str(tmp_path)!r})"
    assert in_fork("import ring; print(ring.NAME)", before=before) == "ring\nstatus 0\n"


def test_a_strict_rank_does_not_read_solutions_beside_the_kit():
    assert in_fork(f"open({str(KIT / 'pyproject.toml')!r})").startswith("PermissionError")


def test_a_students_own_rank_reads_files_but_writes_none(tmp_path):
    (tmp_path / "data.txt").write_text("numbers")
    code = f"""
os.chdir({str(tmp_path)!r})
print(open("data.txt").read())
open("result.txt", "w")
"""
    output = in_fork(code, scratch=None, strict=False)
    assert output.startswith("numbers\nPermissionError [Errno 13] Permission denied: 'result.txt'")
    assert not (tmp_path / "result.txt").exists()


def test_a_rank_writes_in_its_own_scratch_only(tmp_path):
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    code = f"""
path = Path({str(mine / "x")!r})
path.write_text("kept")
print(path.read_text())
Path({str(other / "x")!r}).write_text("lost")
"""
    output = in_fork(code, scratch=mine)
    assert output.startswith("kept\nPermissionError")
    assert (mine / "x").read_text() == "kept"
    assert not (other / "x").exists()


def test_no_link_is_made_even_in_the_scratch(tmp_path):
    code = f"os.symlink('/etc/passwd', {str(tmp_path / 'link')!r})"
    assert in_fork(code, scratch=tmp_path).startswith("PermissionError")
    assert not (tmp_path / "link").is_symlink()


def test_without_landlock_the_filter_refuses_writing(tmp_path):
    code = f"""
open({str(KIT / "pyproject.toml")!r}).close()
for change in (
    lambda: open({str(tmp_path / "x")!r}, "w"),
    lambda: os.mkdir({str(tmp_path / "y")!r}),
    lambda: os.unlink({str(tmp_path / "kept")!r}),
    lambda: os.symlink("a", {str(tmp_path / "z")!r}),
):
    try:
        change()
    except PermissionError as error:
        print(error.errno)
print(report)
"""
    (tmp_path / "kept").touch()
    before = "from ringside.ranks import landlock; landlock.abi = lambda: 0"
    output = in_fork(code, before=before).splitlines()
    assert output[:4] == ["13", "1", "1", "1"]
    assert "no Landlock: reading is not restricted" in output[4]
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_zygote_with_shared_memory_refuses_to_go_on():
    output = in_fork("", before="import mmap; shared = mmap.mmap(-1, 4096)")
    assert "ConfineError: [Errno 1] the zygote shares memory with its ranks" in output


def test_descriptors_are_closed_but_the_kept_ones():
    code = """
import errno
for number in range(3, 64):
    try:
        os.fstat(number)
    except OSError as error:
        assert error.errno == errno.EBADF
    else:
        print("open", number)
"""
    before = "kept = os.pipe()[0]; os.dup2(kept, 20); os.dup2(kept, 40)"
    assert in_fork(code, before=before, scratch=None, keep_fds=[20]) == "open 20\nstatus 0\n"


def test_resource_limits_hold_in_the_process():
    before = """
import resource
limit_resources(cpu_s=50, memory_bytes=1 << 32, fsize=1000, nofile=64)
print([resource.getrlimit(n) for n in (resource.RLIMIT_CPU, resource.RLIMIT_AS,
      resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)], flush=True)
"""
    code = "np.ones(1 << 33)"
    lines = in_fork(code, before=before).splitlines()
    limits = [50, 1 << 32, 1000, 64, 0]
    assert lines[0] == str([(limit, limit) for limit in limits])
    assert "MemoryError" in lines[1]


def test_other_systems_get_a_report_and_no_error(monkeypatch):
    monkeypatch.setattr(confine, "_LINUX", False)
    monkeypatch.setattr(sys, "platform", "darwin")
    report = confine.confine(None)
    assert not report.complete
    assert "memory of other ranks: not isolated on darwin" in report.missing


@pytest.mark.parametrize("architecture", sorted(seccomp.ARCHITECTURES))
def test_every_jump_of_the_filter_stays_inside_it(architecture):
    programs = [
        seccomp.assemble(architecture, pid=7, threads=threads, file_changes=file_changes)
        for threads in (True, False)
        for file_changes in (True, False)
    ]
    for program in [*programs, seccomp.assemble_outer(architecture)]:
        assert len(program) < 4096
        for place, (code, jump_true, jump_false, _) in enumerate(program):
            if code & 0x07 == 0x05:
                assert max(jump_true, jump_false) < 256
                assert place + 1 + max(jump_true, jump_false) < len(program)


def test_the_prepared_filter_is_the_assembled_one_with_the_process_filled_in():
    template = seccomp.prepare("x86_64", True, True)
    own = template.replace(seccomp._ANY_PID.to_bytes(4, "little"), (4711).to_bytes(4, "little"))
    assert own == seccomp.pack(seccomp.assemble("x86_64", pid=4711))


def test_the_numbers_agree_with_this_machines_headers():
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if platform.machine() != "x86_64" or not header.exists():
        pytest.skip("the kernel's x86_64 headers are not installed")
    lines = [line.split() for line in header.read_text().splitlines()]
    real = {words[1][5:]: int(words[2]) for words in lines if len(words) == 3}
    ours = {name: row[0] for name, row in all_tables().items() if row[0] is not None}
    assert {name: real[name] for name in ours} == ours


def test_the_numbers_of_arm_agree_with_the_headers_that_all_systems_have():
    header = Path("/usr/include/asm-generic/unistd.h")
    if not header.exists():
        pytest.skip("the kernel's generic headers are not installed")
    lines = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", header.read_text(), re.MULTILINE)
    real = {"newfstatat" if name == "fstatat" else name: int(number) for name, number in lines}
    ours = {name: row[1] for name, row in all_tables().items() if row[1] is not None}
    assert {name: real[name] for name in ours} == ours


def all_tables():
    """Every system call whose number we know."""
    tables = (seccomp._ALLOWED, seccomp._CONDITIONAL, seccomp._FILE_CHANGES, seccomp._PROCESSES)
    merged = {}
    for table in (*tables, seccomp._MOVING, seccomp._OUTER_REFUSES):
        for name, row in table.items():
            assert merged.setdefault(name, row) == row
    return merged


@pytest.mark.parametrize("architecture", sorted(seccomp.ARCHITECTURES))
def test_a_ranks_filter_ends_by_refusing_and_the_others_by_allowing(architecture):
    assert seccomp.assemble(architecture, pid=7)[-1] == (0x06, 0, 0, 0x50001)
    assert seccomp.assemble_outer(architecture)[-1] == (0x06, 0, 0, 0x7FFF0000)


def test_an_unknown_architecture_is_named():
    with pytest.raises(OSError, match="no system call table for the architecture riscv64"):
        seccomp.assemble("riscv64", pid=1)
