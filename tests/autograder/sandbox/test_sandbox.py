"""Inside the sandbox there is an interpreter, the kit and the modules, and nothing gets out."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from autograder.course.limits import Limits
from autograder.grade.real_ranks.job import run_mpi
from autograder.sandbox import bubblewrap, sandbox, warm_sandbox, watchdog
from autograder.sandbox.allowance import Allowance
from autograder.sandbox.sandbox import Sandbox, SandboxUnavailable, Tier, best_tier
from autograder.sandbox.warm_sandbox import WarmSandbox
from autograder.sandbox.watchdog import ProcessId
from ringside import RingsideError, Session
from ringside.ranks import landlock
from tests.sibling_attempts import ATTEMPTS
from tests.unprivileged import run_unprivileged

HERE = Path(__file__).resolve().parents[2]
KIT = HERE.parent

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(
        sandbox._bubblewrap_fails() is not None,
        reason=f"bubblewrap does not work here: {sandbox._bubblewrap_fails()}",
    ),
]


@pytest.fixture
def modules(tmp_path) -> Path:
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "ring.py").write_text("NAME = 'ring'\n")
    return folder


@pytest.fixture(scope="module", params=["cold", "warm"])
def make(request):
    """Makes sandboxes: each started by bubblewrap, or each a room of a nursery that is warm."""
    if request.param == "cold":
        yield functools.partial(Sandbox, tier=Tier.BUBBLEWRAP)
        return
    warm_sandbox.start(["mpi"])
    nursery = warm_sandbox.known["mpi"]
    yield functools.partial(WarmSandbox, nursery)
    assert nursery.ended() is None
    warm_sandbox.stop()


def inside(make, modules: Path, code: str, *, seconds: float = 30.0, **options) -> tuple[int, str]:
    """Run code in a sandbox, as the trusted zygote would be: exit status and output."""
    with make(modules, **options) as place:
        process = place.popen([place.python, "-I", "-c", textwrap.dedent(code)])
        assert getattr(place, "num_warm", 0) == isinstance(place, WarmSandbox)
        status = process.wait(seconds)
        output = process.output()
        place.kill()
        assert place.survivors() == []
    return status, output.strip()


def below(private: str) -> list[str]:
    """What the interpreter, where it lies below /tmp or /dev/shm, brings there into a sandbox."""
    binds = map(Path, bubblewrap._system_binds())
    paths = [path.relative_to(private) for path in binds if path.is_relative_to(private)]
    return sorted({path.parts[0] for path in paths})


# -- what is there -----------------------------------------------------------------------------


@pytest.mark.place
def test_only_the_kit_the_modules_and_an_interpreter_are_there(make, modules):
    code = """
    import os, sys
    print(sorted(os.listdir("/modules")), os.listdir("/kit"), os.listdir("/tmp"))
    # The interpreter's own environment may lie under one of these, as in /home/me/kit/.venv.
    print([name for name in ("/home", "/srv", "/var", "/root/.ssh", "/etc/shadow", "/mnt")
           if os.path.exists(name) and not sys.prefix.startswith(name + "/")])
    """
    said = f"['ring.py'] ['ringside'] {below('/tmp')}\n[]"
    assert inside(make, modules, code) == (0, said)


@pytest.mark.place
def test_neither_solutions_nor_suites_nor_this_file_can_be_found(make, modules):
    code = """
    import os
    found = []
    for folder, names, files in os.walk("/", followlinks=False):
        names[:] = [name for name in names if os.path.join(folder, name) != "/proc"]
        found += [os.path.join(folder, n) for n in (*names, *files)
                  if n in ("solutions", "autograder", "hidden", "sibling_attempts.py")
                  and not folder.endswith("/bin")]  # a console script holds no code of ours
    print(found)
    """
    # A disk that is read for the first time, beside other tests, takes half a minute.
    assert inside(make, modules, code, seconds=300.0) == (0, "[]")


def test_a_course_that_was_pip_installed_is_hidden_too(modules, monkeypatch):
    monkeypatch.setattr(bubblewrap, "_HIDDEN", ("numpy",))
    folder = str(Path(np.__file__).parent)
    code = f"import os; print(os.listdir({folder!r}))"
    assert inside(Sandbox, modules, code) == (0, "[]")


def test_the_user_inside_has_no_rights(make, modules):
    code = """
    import os
    status = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines()
                  if ":\\t" in line)
    print(os.getuid() != 0, os.getgid() != 0, os.getgroups() in ([], [os.getgid()]),
          {int(status[n], 16) for n in ("CapInh", "CapPrm", "CapEff", "CapAmb")},
          status["NoNewPrivs"], status["Seccomp"], os.uname().nodename)
    """
    assert inside(make, modules, code) == (0, "True True True {0} 1 2 ringside")


def test_nothing_can_be_written_but_the_private_folders(make, modules):
    code = """
    import os
    for path in ("/", "/modules", "/kit/ringside", "/job", "/dev", "/usr/lib", "/etc",
                 os.path.dirname(os.__file__), "/tmp", "/dev/shm"):
        try:
            open(path + "/x", "w").write("x")
            print("wrote", path)
        except OSError:
            pass
    """
    assert inside(make, modules, code) == (0, "wrote /tmp\nwrote /dev/shm")
    assert [path.name for path in modules.iterdir()] == ["ring.py"]


def test_the_environment_outside_is_not_seen(make, modules, monkeypatch):
    token = secrets.token_hex(16)
    monkeypatch.setenv("COURSE_SECRET", token)
    monkeypatch.setenv("RINGSIDE_SECRET", token)
    code = """
    import os
    seen = repr(dict(os.environ))
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("environ", "cmdline"):
            try:
                seen += open(f"/proc/{pid}/{name}").read()
            except OSError:
                pass
    print(seen)
    """
    with make(modules) as place:
        process = place.popen([place.python, "-I", "-c", textwrap.dedent(code)], (), os.environ)
        assert process.wait(30) == 0
        assert "OPENBLAS_NUM_THREADS" in process.output()
        assert token not in process.output()
        assert str(modules) not in process.output()


def test_only_the_planned_files_come_in_and_no_links(make, modules, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (modules / "numpy.py").write_text("")
    (modules / "star.py").symlink_to(secret)
    (modules / "tree.py").mkdir()
    code = "import os; print(sorted(os.listdir('/modules')))"
    planned = ["ring.py", "star.py", "tree.py", "cost.py"]
    assert inside(make, modules, code, files=planned) == (0, "['ring.py']")
    with pytest.raises(ValueError, match="is not a plain file name"):
        make(modules, files=["../secret.txt"])


def test_descriptors_inside_are_the_passed_ones(make, modules):
    read, write = os.pipe()
    code = """
    import os, sys
    os.write(int(sys.argv[1]), b"through")
    numbers = []
    for number in range(3, 100):
        try:
            os.fstat(number)
            numbers.append(number)
        except OSError:
            pass
    print(numbers == [int(sys.argv[1])])
    """
    with make(modules) as place:
        command = [place.python, "-I", "-c", textwrap.dedent(code), str(write)]
        process = place.popen(command, pass_fds=(write,))
        os.close(write)
        assert process.wait(30) == 0
        assert os.read(read, 100) == b"through"
        assert process.output().strip() == "True"
    os.close(read)


# -- a kit in one of the private folders ---------------------------------------------------------


@pytest.fixture(params=["cold", "warm"])
def make_there(request, monkeypatch, tmp_path):
    """As ``make``, where a folder, a file and a link of the interpreter lie below /tmp."""
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "word").write_text("read")
    binds = {
        **bubblewrap._system_binds(),
        "/tmp/shelf/deep and é/kit": tmp_path / "kit",
        "/dev/shm/shelf/kit": tmp_path / "kit",
        "/tmp/word": tmp_path / "kit" / "word",
        "/tmp/link": "/dev/shm/shelf/kit/word",
    }
    monkeypatch.setattr(bubblewrap, "_system_binds", lambda: binds)
    if request.param == "cold":
        yield functools.partial(Sandbox, tier=Tier.BUBBLEWRAP)
        return
    monkeypatch.setattr(warm_sandbox, "known", {})
    warm_sandbox.start(["mpi", "mpiexec"])
    yield functools.partial(WarmSandbox, warm_sandbox.known["mpi"])
    assert warm_sandbox.known["mpi"].ended() is None
    warm_sandbox.stop()


@pytest.mark.place
def test_what_lies_below_tmp_is_there_and_stays_as_it_is(make_there, modules):
    code = """
    import os
    print(sorted(os.listdir("/tmp")), os.listdir("/dev/shm"))
    kits = ("/tmp/shelf/deep and é/kit", "/dev/shm/shelf/kit")
    print([open(path).read() for path in (*(f"{kit}/word" for kit in kits), "/tmp/link")])
    print([oct(os.stat(path).st_mode & 0o777) for path in ("/tmp/shelf/deep and é", "/tmp/shelf")])
    for path in (*kits, "/tmp/shelf", "/tmp/shelf/deep and é", "/dev/shm/shelf", "/tmp/word"):
        for change in (lambda: open(path + "/x", "w"), lambda: os.rename(path, path + "2"),
                       lambda: os.chmod(path, 0o777), lambda: open(path, "a")):
            try:
                change()
                print("changed", path)
            except OSError:
                pass
    open("/tmp/mine", "w").close()
    """
    assert {"link", "shelf", "word"} <= set(below("/tmp"))
    said = f"{below('/tmp')} {below('/dev/shm')}\n['read', 'read', 'read']\n['0o755', '0o755']"
    assert inside(make_there, modules, code) == (0, said)


@pytest.mark.mpi
def test_what_a_world_of_real_ranks_has_left_goes_and_the_interpreter_stays(make_there, modules):
    source = """
    import os
    def work(comm, x):
        found = [sorted(os.listdir(place)) for place in ("/tmp", "/dev/shm")]
        os.makedirs("/tmp/left/deep")
        open("/dev/shm/left", "w").close()
        kept = [name for names in found for name in names if name in ("shelf", "word", "left")]
        return np.frombuffer(" ".join(kept).encode(), np.uint8)
    """
    nursery = warm_sandbox.known.get("mpiexec")
    outcome = mpi(modules, source, worlds=(1, 1), nursery=nursery)
    assert outcome.status == "ok", outcome.output
    assert outcome.results == [[b"shelf word shelf"], [b"shelf word shelf"]]


# -- what can't be reached ---------------------------------------------------------------------


def test_the_machines_own_network_is_not_there(make, modules):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"""
        import socket
        try:
            socket.create_connection(("127.0.0.1", {port}), timeout=2)
        except OSError as error:
            print(type(error).__name__)
        print([name for _, name in socket.if_nameindex()])
        """
        assert inside(make, modules, code) == (0, "ConnectionRefusedError\n['lo']")


def test_what_no_namespace_separates_is_filtered(make, modules):
    code = """
    import ctypes, errno, socket
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        socket.socket(getattr(socket, "AF_VSOCK", 40), socket.SOCK_STREAM)
    except OSError as error:
        print(errno.errorcode[error.errno])
    import platform
    keyctl, unshare = {"x86_64": (250, 272), "aarch64": (219, 97)}[platform.machine()]
    for number, argument in ((keyctl, 0), (unshare, 0x10000000)):
        print(libc.syscall(number, argument, -3, 1, 0, 0), errno.errorcode[ctypes.get_errno()])
    """
    assert inside(make, modules, code) == (0, "EAFNOSUPPORT\n-1 EPERM\n-1 EPERM")


@pytest.fixture(scope="module")
def attempts(make, tmp_path_factory) -> dict[str, tuple[bool, str]]:
    """Every attempt of test_confine.py by ranks of one sandbox."""
    folder = tmp_path_factory.mktemp("empty")
    script = (HERE / "sibling_attempts.py").read_bytes()
    with make(folder, extra={"attempts.py": script}, proc=False) as place:
        path = str(place.job_path / "attempts.py")
        process = place.popen([place.python, "-I", path, str(place.kit_path), "confined"])
        assert process.wait(60) == 0, process.output()
        return json.loads(process.output())


@pytest.mark.parametrize("name", sorted(ATTEMPTS))
def test_an_attempt_on_a_sibling_in_the_sandbox_fails(name, attempts):
    succeeded, error = attempts[name]
    assert not succeeded, error


# -- what ends it ------------------------------------------------------------------------------


def test_a_daemon_does_not_survive(make, modules):
    code = """
    import os, signal, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in range(1, 65):
                try:
                    signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError):
                    pass
            os.write(1, b"started\\n")
            time.sleep(1000)
        os._exit(0)
    time.sleep(1000)
    """
    with make(modules) as place:
        process = place.popen([place.python, "-I", "-c", textwrap.dedent(code)])
        wait_for(lambda: "started" in process.drain.text())
        # The room's first process, or bubblewrap and its first process; parent and daemon.
        assert len(place.survivors()) >= 3 + (not isinstance(place, WarmSandbox))
        place.kill()
        assert place.survivors() == []


def test_too_much_memory_ends_it(make, modules):
    code = """
    import os, time
    blocks = []
    for _ in range(3):
        if os.fork() == 0:
            break
    while True:
        blocks.append(bytearray(os.urandom(1 << 20)) * 8)
    """
    limits = Limits(memory_bytes=300 << 20)
    with make(modules, limits=limits) as place:
        process = place.popen([place.python, "-I", "-c", textwrap.dedent(code)])
        process.wait(60)
        assert process.killed_for is not None
        assert re.fullmatch(r"memory: \d+ MiB used, 300 MiB allowed", process.killed_for)
        place.kill()
        assert place.survivors() == []


def test_when_memory_ends_the_process_that_starts_ranks_the_error_says_so(make, modules):
    with (
        pytest.raises(RingsideError, match=r"ended \(memory: \d+ MiB used, 8 MiB allowed\)"),
        make(modules, limits=Limits(memory_bytes=8 << 20)) as place,
        Session(
            modules,
            launcher=place.popen,
            folder_inside=str(place.modules_path),
            kit_inside=str(place.kit_path),
            strict=True,
        ) as session,
    ):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            session.call("ring:nothing", 2)


def test_only_the_process_that_takes_too_much_is_killed(make, modules):
    code = """
    import os, time
    child = os.fork()
    if child == 0:
        blocks = []
        while True:
            blocks.append(bytearray(b"x") * (4 << 20))
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert inside(make, modules, code, limits=Limits(memory_bytes=200 << 20)) == (0, "child -9")


def test_a_fork_bomb_meets_the_limit(make, modules):
    code = """
    import os, time
    count = 0
    try:
        while True:
            if os.fork() == 0:
                time.sleep(1000)
            count += 1
    except BlockingIOError:
        print("stopped at", count, flush=True)
    os._exit(0)
    """
    with make(modules, limits=Limits(processes=40)) as place:
        process = place.popen([place.python, "-I", "-c", textwrap.dedent(code)])
        assert process.wait(60) == 0
        stopped = re.search(r"stopped at (\d+)", process.output())
        assert stopped is not None and 30 <= int(stopped[1]) <= 40
        place.kill()
        assert place.survivors() == []


def test_a_flood_of_output_is_cut_and_does_not_block(make, modules):
    code = "import sys\nfor _ in range(200): sys.stdout.write('x' * 100_000)"
    status, output = inside(make, modules, code, limits=Limits(output_bytes=1000))
    assert status == 0
    assert output == "x" * 1000 + "\n[19999000 more bytes left out]"


def test_a_full_disk_stays_inside(make, modules):
    code = """
    import errno
    for path, mode in (("/tmp/big", "wb"), ("/dev/shm/big", "wb")):
        try:
            with open(path, mode) as file:
                while True:
                    file.write(bytes(1 << 20))
        except OSError as error:
            print(errno.errorcode[error.errno])
    """
    limits = Limits(tmp_bytes=4 << 20, shm_bytes=4 << 20)
    assert inside(make, modules, code, limits=limits) == (0, "ENOSPC\nENOSPC")


def test_a_large_file_meets_its_limit(make, modules):
    code = """
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        open("/tmp/big", "wb").write(bytes(2 << 20))
    except OSError as error:
        print(error.strerror)
    """
    limits = Limits(written_file_bytes=1 << 20)
    assert inside(make, modules, code, limits=limits) == (0, "File too large")


def test_it_ends_with_the_process_that_started_it(modules):
    code = f"""
import sys, time
sys.path.insert(0, {str(KIT)!r})
from pathlib import Path
from autograder.sandbox.sandbox import Sandbox
place = Sandbox(Path({str(modules)!r}))
process = place.popen([place.python, "-c", "import time; time.sleep(1000)"])
process.watchdog.look()
print(*(member.pid for member in process._members()), flush=True)
time.sleep(1000)
"""
    starter = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd="/"
    )
    assert starter.stdout is not None
    assert select.select([starter.stdout], [], [], 30)[0]
    members = [int(word) for word in starter.stdout.readline().split()]
    starter.send_signal(signal.SIGKILL)
    starter.wait(10)
    starter.stdout.close()
    assert members
    wait_for(lambda: not any(is_running(pid) for pid in members))


# -- which tier --------------------------------------------------------------------------------


def test_the_tier_falls_to_landlock_and_then_refuses(monkeypatch):
    assert best_tier() in Tier.IN_BUBBLEWRAP
    monkeypatch.setattr(sandbox, "_bubblewrap_fails", lambda: "bwrap is not installed")
    monkeypatch.setattr(sandbox, "_landlock_fails", lambda: None)
    assert best_tier() == Tier.LANDLOCK
    monkeypatch.setattr(sandbox, "_landlock_fails", lambda: "this kernel has none")
    with pytest.raises(SandboxUnavailable, match=r"bwrap is not installed.*--trust-submissions"):
        best_tier()
    assert best_tier(trust_submissions=True) == Tier.NONE


@pytest.mark.skipif(os.geteuid() != 0, reason="the tests are not run by root")
@pytest.mark.skipif(landlock.abi() < 1, reason="this kernel has no Landlock")
def test_where_root_grades_landlock_holds_another_user(tmp_path, monkeypatch):
    assert sandbox._landlock_fails() is None
    with Sandbox(tmp_path, tier=Tier.LANDLOCK) as place:
        process = place.popen([place.python, "-I", "-c", "import os; print(os.getresuid())"])
        process.wait(60)
        assert "0" not in process.output().strip(" ()\n").split(", ")
    there = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: "setpriv" not in str(path) and there(path))
    assert "root can't become another user" in (sandbox._no_other_user() or "")


UNPRIVILEGED = """
import json, sys
sys.path.insert(0, sys.argv[1])
import os, tempfile
from pathlib import Path
from autograder.sandbox import warm_sandbox
from autograder.course.limits import Limits
from autograder.sandbox.sandbox import Sandbox, best_tier
folder = Path(tempfile.mkdtemp())
extra = {"attempts.py": Path(sys.argv[1], "tests", "sibling_attempts.py").read_bytes()}
if sys.argv[2] == "warm":
    warm_sandbox.start(["mpi"])
    place = warm_sandbox.WarmSandbox(warm_sandbox.known["mpi"], folder, extra=extra, proc=False)
else:
    place = Sandbox(folder, tier=sys.argv[2], extra=extra, proc=False)
with place:
    path = str(place.job_path / "attempts.py")
    process = place.popen([place.python, "-I", path, str(place.kit_path), "confined"])
    status = process.wait(60)
    output = process.output()
    greedy = "import time\\nblocks = []\\nwhile True: blocks.append(bytearray(b'x') * (8 << 20))"
    place.limits = Limits(memory_bytes=200 << 20)
    hungry = place.popen([place.python, "-I", "-c", greedy])
    hungry.wait(60)
    place.kill()
    print(json.dumps([os.getuid(), place.tier, status, output, hungry.killed_for,
                      place.survivors(), getattr(place, "num_warm", 0)]))
warm_sandbox.stop()
"""


@pytest.mark.parametrize("tier", [Tier.BUBBLEWRAP, "warm", Tier.LANDLOCK])
def test_an_unprivileged_user_gets_the_same(tier):
    process = run_unprivileged([sys.executable, "-c", UNPRIVILEGED, str(KIT), tier], [KIT])
    assert process.returncode == 0, process.stderr
    uid, used, status, output, killed_for, survivors, num_warm = json.loads(process.stdout)
    assert uid != 0
    assert (used, num_warm) == ((Tier.BUBBLEWRAP, 2) if tier == "warm" else (tier, 0))
    assert status == 0, output
    succeeded = [name for name, (success, _) in json.loads(output).items() if success]
    assert succeeded == []
    assert killed_for is not None and killed_for.startswith("memory")
    assert survivors == []


def test_shared_memory_is_read_anew_when_what_came_since_passes_the_limit(monkeypatch):
    one, two = (ProcessId(number, 0) for number in (1, 2))
    resident, proportional, faults, readings = {1: 80, 2: 80}, {1: 45, 2: 45}, {1: 7, 2: 7}, []
    monkeypatch.setattr(watchdog, "_PAGE_BYTES", 4)
    monkeypatch.setattr(watchdog, "_resident", resident.__getitem__)
    monkeypatch.setattr(watchdog, "_faults", faults.__getitem__)
    monkeypatch.setattr(
        watchdog, "_proportional", lambda pid: readings.append(pid) or proportional[pid]
    )
    meter = watchdog.Meter(100, again_s=0)
    assert meter.read([one]) == {one: 80}  # below the limit whatever is shared
    assert readings == []
    assert meter.read([one, two]) == {one: 45, two: 45}
    resident[1] += 6
    assert meter.read([one, two]) == {one: 51, two: 45}  # all of it counts, shared or not
    faults[2] += 1
    assert meter.read([one, two]) == {one: 51, two: 49}  # perhaps the copy of a shared page
    assert readings == [1, 2]
    faults[2] += 1
    proportional[1] = 60
    assert meter.read([one, two]) == {one: 60, two: 45}
    assert readings == [1, 2, 1, 2]
    resident[1], proportional[1] = 101, 85  # the pages shared with the one that has ended
    assert meter.read([one]) == {one: 85}
    assert readings == [1, 2, 1, 2, 1]


def test_copies_of_shared_pages_are_page_faults():
    size = 64 << 20
    block = np.ones(size, dtype=np.uint8)
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.read(read, 1)
        block[::4096] = 2
        os.read(read, 1)
        os._exit(0)
    meter, child = watchdog.Meter(1 << 20), ProcessId.of(pid)
    before = meter.read([child])[child]
    meter.limit = 1 << 40
    os.write(write, b"1")
    deadline = time.monotonic() + 30
    while meter._bound(child, watchdog._resident(pid)) < before + size * 0.9:
        assert time.monotonic() < deadline, "copies were made, and none was counted"
    os.write(write, b"1")
    os.waitpid(pid, 0)
    os.close(read)
    os.close(write)


def test_where_sizes_are_not_shown_a_fork_counts_what_it_has_for_itself(monkeypatch):
    shared = np.ones(96 << 20, dtype=np.uint8)
    read, write = os.pipe()
    told, tell = os.pipe()
    pid = os.fork()
    if not pid:
        for size in (0, 32, 64):
            own = np.ones(size << 20, dtype=np.uint8)
            shared[: size << 20 : 4096] = 2
            os.write(tell, b"%d" % (len(own) > 0))
            os.read(read, 1)
        os._exit(0)
    sizes = []
    for _ in range(3):
        os.read(told, 1)
        sizes.append(watchdog._unshared(pid) >> 20)
        os.write(write, b"1")
    os.waitpid(pid, 0)
    for end in (read, write, told, tell):
        os.close(end)
    assert sizes[0] < 48 < watchdog._resident(os.getpid()) >> 20  # not the parent's 96 again
    assert sizes[1] >= 64  # 32 of its own, and as many copies of shared ones
    assert sizes[2] >= 96


# -- real MPI ----------------------------------------------------------------------------------

DRIVER = """
import os, sys
sys.path.insert(0, os.environ["RINGSIDE_JOB_MODULES"])
import numpy as np
from mpi4py import MPI
import job
comm = MPI.COMM_WORLD
with open(os.environ["RINGSIDE_JOB_INPUTS"], "rb") as file:
    x = np.frombuffer(file.read())
with open(os.environ["RINGSIDE_JOB_PIPE"], "wb") as pipe:
    pipe.write(job.work(comm, x).tobytes())
"""


def mpi(modules: Path, source: str, worlds=(3,), *, limits: Limits | None = None, **options):
    (modules / "job.py").write_text("import numpy as np\n" + textwrap.dedent(source))
    inputs = np.arange(1000.0).tobytes()
    allowance = Allowance(limits or Limits())
    return run_mpi(worlds, modules, inputs, allowance, driver=DRIVER, **options)


@pytest.mark.mpi
def test_a_real_mpi_job_gives_every_ranks_bytes(modules):
    source = """
    def work(comm, x):
        total = np.empty_like(x)
        comm.Allreduce(x * (comm.rank + 1), total)
        return total + comm.rank
    """
    outcome = mpi(modules, source, worlds=(3, 2))
    assert outcome.status == "ok", outcome.output
    for results, factor in zip(outcome.results, (6, 3), strict=True):
        for rank, result in enumerate(results):
            assert np.array_equal(np.frombuffer(result), factor * np.arange(1000.0) + rank)
    assert outcome.survivors == ()


@pytest.mark.mpi
def test_a_real_mpi_job_that_hangs_is_ended(modules):
    # MPI waits by looking again and again; a rank may also be quiet.
    for wait, limits in (
        ("comm.recv(source=0, tag=99)", Limits(cpu_s=3.0)),
        ("time.sleep(1000)", Limits(sleep_s=1.0)),
    ):
        outcome = mpi(modules, f"import time\ndef work(comm, x): {wait}", limits=limits)
        assert outcome.status == "timeout"
    assert outcome.survivors == ()


@pytest.mark.mpi
def test_ranks_of_a_real_mpi_job_start_no_processes(modules):
    source = """
    import os, subprocess, sys, threading
    def work(comm, x):
        refused = 0
        for start in (os.fork, lambda: subprocess.run([sys.executable, "-c", ""])):
            try:
                start()
            except PermissionError:
                refused += 1
        thread = threading.Thread(target=comm.Barrier)
        thread.start()
        thread.join()
        return np.array([refused])
    """
    outcome = mpi(modules, source)
    assert outcome.status == "ok", outcome.output
    assert [int.from_bytes(result, "little") for result in outcome.results[0]] == [2, 2, 2]


@pytest.mark.mpi
def test_a_real_mpi_job_that_says_too_much_is_ended(modules):
    source = "def work(comm, x): return np.ones(1 << 20)"
    outcome = mpi(modules, source, limits=Limits(result_bytes=1 << 20))
    assert outcome.status == "limit"
    assert outcome.survivors == ()


@pytest.mark.mpi
def test_a_real_mpi_job_that_fails_says_so(modules):
    outcome = mpi(modules, "def work(comm, x): raise RuntimeError('no such neighbour')")
    assert outcome.status == "failed"
    assert "no such neighbour" in outcome.output
    assert outcome.survivors == ()


@pytest.mark.mpi
def test_under_an_mpiexec_that_hands_nothing_over_ranks_import_for_themselves(tmp_path):
    (tmp_path / "mpiexec").write_text('#!/bin/sh\nshift 2\nunset PMI_FD\nexec "$@"\n')
    (tmp_path / "mpiexec").chmod(0o755)
    for name in ("nursery", "stand_in"):
        shutil.copy(
            KIT / "autograder" / "grade" / "real_ranks" / f"mpi_{name}.py", tmp_path / f"{name}.py"
        )
    (tmp_path / "driver.py").write_text(
        "import os, sys\n"
        "print(os.environ['RINGSIDE_JOB_WORLD'], os.environ['RINGSIDE_JOB_PIPE'], 'numpy' in "
        "sys.modules)\n"
    )
    environment = {"RINGSIDE_JOB_KIT": str(KIT), "RINGSIDE_JOB_RESULTS": str(tmp_path)}
    nursery = [sys.executable, "-I", str(tmp_path / "nursery.py"), "nursery"]
    done = subprocess.run(
        [*nursery, str(tmp_path / "mpiexec"), "1", "1"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == [f"{k} {tmp_path}/pipe{k} True" for k in (0, 1)]


# -- helpers -----------------------------------------------------------------------------------


def wait_for(condition, seconds: float = 20.0) -> None:
    """Wait until the condition holds; how long that takes doesn't matter."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to hold"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX"
    return False
