"""Sandboxes that are warm: forks that behave as programs, apart from each other, with a sure end.

``test_sandbox.py`` runs its tests of what a sandbox holds over these too.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.course import assignment as assignments
from autograder.course import edits
from autograder.course.limits import Limits
from autograder.grade.grading import run_suite, staged
from autograder.grade.suite import nursery as suite_nursery
from autograder.sandbox import warm_nursery, warm_sandbox
from autograder.sandbox.sandbox import Sandbox, Tier, best_tier
from autograder.sandbox.warm_sandbox import WarmSandbox

KIT = Path(__file__).resolve().parents[3]
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(
        not sys.platform.startswith("linux")
        or best_tier(trust_submissions=True) not in Tier.IN_BUBBLEWRAP,
        reason="only bubblewrap's sandbox is kept warm (Debian: apt-get install bubblewrap)",
    ),
]
OWNER = """
import sys, time; sys.path.insert(0, {kit!r})
from autograder.sandbox import warm_sandbox
warm_sandbox.start(["mpi"])
print(warm_sandbox.known["mpi"].keeper, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def nursery():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the process that starts suites
    warm_sandbox.start(["mpi"])
    signal.signal(signal.SIGINT, before)
    yield warm_sandbox.known["mpi"]
    warm_sandbox.stop()


def ended(process, seconds=30.0):
    process.wait(seconds)
    return process.returncode, process.output()


def wait_for(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to hold"
        time.sleep(0.02)


def test_a_program_finds_what_it_was_given_and_libraries_loaded(nursery, tmp_path):
    (tmp_path / "mine.py").write_text("WORD = 'here'\n")
    code = (
        "import os, sys; loaded = 'numpy' in sys.modules; sys.path.insert(0, sys.argv[1]);"
        "import mine; os.write(int(sys.argv[2]), mine.WORD.encode());"
        "print(loaded, os.environ['RINGSIDE_X'], 'SECRET' in os.environ, os.getuid() > 0);"
        "sys.exit(3)"
    )
    read, write = os.pipe()
    with WarmSandbox(nursery, tmp_path) as place:
        words = [place.python, "-I", "-c", code, str(place.modules_path), str(write)]
        process = place.popen(words, (write,), {"RINGSIDE_X": "x", "SECRET": "no"})
        assert ended(process) == (3, "True x False True\n")
        assert place.survivors() == []
        stage = [each for each in nursery.folder.iterdir() if each.name != "trial"]
        assert len(stage) == 1
    assert not stage[0].exists()
    os.close(write)
    assert os.read(read, 100) == b"here"
    os.close(read)


def test_a_program_that_cannot_be_forked_has_failed(nursery, tmp_path):
    limits = replace(Limits(), processes=0)
    with WarmSandbox(nursery, tmp_path, limits=limits) as place:
        process = place.popen([place.python, "-I", "-c", "print(1)"])
        assert ended(process) == (1, "")


def test_all_who_wait_for_a_program_hear_how_it_ended(nursery, tmp_path):
    """Whoever closes a sandbox and its watchdog may do so at the same time."""
    with WarmSandbox(nursery, tmp_path) as place, ThreadPoolExecutor(8) as threads:
        for _ in range(20):
            read, write = os.pipe()
            code = f"import os, sys; os.read({read}, 1); sys.exit(3)"
            process = place.popen([place.python, "-I", "-c", code], (read,))
            os.close(read)
            heard = [threads.submit(process.wait, 30.0) for _ in range(8)]
            os.close(write)  # now it ends
            assert [each.result() for each in heard] == [3] * 8
            assert process.poll() == 3


SETTLE = """
import ctypes, json, os, pty, socket, sys, time
open("/tmp/mark", "w").close(), open("/dev/shm/mark", "w").close(), pty.openpty()
libc = ctypes.CDLL(None)
assert libc.shmget(0x1234, 4096, 0o1666) >= 0
listener = socket.socket(socket.AF_UNIX)
listener.bind("\\0mark"), listener.listen()
port = socket.create_server(("127.0.0.1", 23456))
json.mark = 1
spaces = {name: os.readlink("/proc/self/ns/" + name) for name in os.listdir("/proc/self/ns")}
print(json.dumps(spaces), flush=True)
time.sleep(600)
"""
LOOK = """
import ctypes, json, os, socket, sys
found = [path for path in ("/tmp/mark", "/dev/shm/mark", "/dev/pts/0") if os.path.exists(path)]
for family, address in ((socket.AF_UNIX, "\\0mark"), (socket.AF_INET, ("127.0.0.1", 23456))):
    try:
        socket.socket(family).connect(address)
        found.append(str(address))
    except ConnectionRefusedError:
        pass
if ctypes.CDLL(None).shmget(0x1234, 4096, 0) >= 0:
    found.append("shared memory")
if hasattr(json, "mark"):
    found.append("the process's memory")
found += os.listdir("/warm")
found += [pid for pid in filter(str.isdigit, os.listdir("/proc")) if pid not in ("1", "2")]
spaces = {name: os.readlink("/proc/self/ns/" + name) for name in os.listdir("/proc/self/ns")}
print(json.dumps([found, spaces]))
"""


def test_two_programs_of_one_nursery_share_nothing(nursery, tmp_path):
    (tmp_path / "mine.py").touch()
    with WarmSandbox(nursery, tmp_path) as one, WarmSandbox(nursery, tmp_path) as other:
        first = one.popen([one.python, "-I", "-c", SETTLE])
        wait_for(lambda: first.output().endswith("\n"))
        status, output = ended(other.popen([other.python, "-I", "-c", LOOK]))
        assert (one.num_warm, other.num_warm, status) == (1, 1, 0), output
        found, spaces = json.loads(output)
        others = json.loads(first.output())
    assert found == []
    # As root there is one user namespace; time has none.
    apart = {"mnt", "pid", "pid_for_children", "ipc", "net", "uts", "cgroup"}
    apart |= {"user"} if os.geteuid() else set()
    outside = {name: os.readlink(f"/proc/self/ns/{name}") for name in spaces}
    for name in apart & spaces.keys():
        assert len({spaces[name], others[name], outside[name]}) == 3, name


def test_the_first_process_of_a_room_tells_nothing(nursery, tmp_path):
    code = """
import os
for name in ("environ", "mem", "maps", "fd", "cwd", "root", "auxv", "stack", "ns/mnt"):
    path = "/proc/1/" + name
    try:
        print("read", name, os.listdir(path) if name == "fd" else
              os.readlink(path) if name in ("cwd", "root", "ns/mnt") else open(path, "rb").read(9))
    except PermissionError:
        pass
print(open("/proc/1/cmdline").read().split(chr(0))[1:3])
os.kill(1, 9), os.kill(1, 15), os.kill(1, 19)
print("still here")
"""
    with WarmSandbox(nursery, tmp_path) as place:
        status, output = ended(place.popen([place.python, "-I", "-c", code]))
    assert (status, output) == (0, "['-I', '/job/warm_nursery.py']\nstill here\n")


STATE = """
import json, os, resource, signal, sys
names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
flags = [str(signal.getsignal(number)) for number in signal.valid_signals()]
mounts = {line.split()[4]: line.split()[5].split(",")[:-1] + sorted(line.split()[-1].split(","))
          for line in open("/proc/self/mountinfo")
          if line.split()[4] in ("/tmp", "/dev/shm", "/dev/pts", "/proc", "/modules", "/job")}
print(json.dumps([
    {name: resource.getrlimit(getattr(resource, name)) for name in names},
    {name: status[name] for name in status if name.startswith("Cap") or name in
     ("NoNewPrivs", "Seccomp", "Umask", "Threads", "Groups", "NSpid")},
    dict(os.environ), sys.flags, sys.path, sys.argv, sys.modules["__main__"].__dict__.keys()
    >= {"mounts"}, os.getcwd(), flags, mounts, os.getpid(), os.getppid(), os.listdir("/modules"),
    os.listdir("/proc/self/fd"), open("/etc/passwd").read().count("student"), os.uname().nodename,
    sorted(os.listdir("/dev")), os.access("/proc/sys/kernel/hostname", os.W_OK)], default=list))
"""


def test_a_program_finds_what_it_finds_in_a_sandbox_of_its_own(nursery, tmp_path):
    found = []
    # As in a suite: whatever runs these tests may ignore it, as a shell does for what it starts
    # aside, and a program inherits that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for place in (Sandbox(tmp_path), WarmSandbox(nursery, tmp_path)):
            with place:
                status, output = ended(place.popen([place.python, "-I", "-c", STATE, "word"]))
                assert status == 0, output
                found.append(json.loads(output))
    finally:
        signal.signal(signal.SIGINT, before)
    assert place.num_warm == 1
    assert found[0] == found[1]


def test_what_a_suite_says_is_the_same_in_both():
    plan = assignments.load("a03_allreduce")
    wrong = edits.one(KIT / "solutions" / plan.name, "star__chain")
    results = []
    with staged(plan, {"star": wrong.source}) as stage:
        for warm in (False, True):
            result = run_suite(plan, "star", stage, secret="same", sandbox=True, warm=warm)
            for test in result.tests:
                test.seconds = 0.0
            results.append(result)
    suite_nursery.close()
    assert results[0] == results[1]
    assert results[0].sandbox == Tier.BUBBLEWRAP
    assert 0 < results[0].score < 100


def test_where_the_kernel_refuses_a_program_has_a_sandbox_of_its_own(
    nursery, tmp_path, monkeypatch
):
    (tmp_path / "mine.py").touch()
    monkeypatch.setattr(warm_sandbox, "_INSIDE", Path("/nowhere"))  # a mount that can't be
    with WarmSandbox(nursery, tmp_path) as place:
        code = "import os; print(os.listdir('/modules'), os.path.exists('/warm'))"
        process = place.popen([place.python, "-I", "-c", code])
        assert ended(process) == (0, "['mine.py'] False\n")
        assert place.num_warm == 0
    assert nursery.ended() is None


@pytest.mark.parametrize("status", [warm_nursery.NO_ROOMS, 1])
def test_a_nursery_that_ends_is_done_without(status, tmp_path, monkeypatch):
    (tmp_path / "mine.py").touch()
    imports = {**warm_sandbox._IMPORTS, "odd": f"import os; os._exit({status})"}
    monkeypatch.setattr(warm_sandbox, "_IMPORTS", imports)
    monkeypatch.setattr(warm_sandbox, "_refused", set())
    monkeypatch.setattr(warm_sandbox, "known", {})
    monkeypatch.setattr(warm_sandbox, "_gone", [])
    warm_sandbox.start(["odd"])
    nursery = warm_sandbox.known["odd"]
    with WarmSandbox(nursery, tmp_path) as place:
        process = place.popen(
            [place.python, "-I", "-c", "import os; print(os.listdir('/modules'))"]
        )
        assert ended(process) == (0, "['mine.py']\n")
        wait_for(lambda: select.select([nursery.hold], [], [], 0)[0])
        warm_sandbox.start(["odd"])  # is there a new one?
        again = warm_sandbox.known.get("odd")
        assert (again is None) == (status == warm_nursery.NO_ROOMS)
        assert nursery.folder.exists()  # still in use
    assert place.num_warm == 0
    warm_sandbox.stop()
    assert not nursery.folder.exists()


def test_a_program_and_its_forks_are_killed_and_watched(nursery, tmp_path):
    fork = "import os, time; os.fork(); print('up', flush=True); time.sleep(600)"
    greedy = "blocks = []\nwhile True: blocks.append(bytearray(b'x') * (8 << 20))"
    with WarmSandbox(nursery, tmp_path, limits=Limits(memory_bytes=200 << 20)) as place:
        process = place.popen([place.python, "-I", "-c", fork])
        wait_for(lambda: process.output().count("up") == 2)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0)
        process.kill()
        assert process.poll() in (-signal.SIGKILL, 128 + signal.SIGKILL)
        assert place.survivors() == []
        hungry = place.popen([place.python, "-I", "-c", greedy])
        assert hungry.wait(60) == 128 + signal.SIGKILL
        assert hungry.killed_for.startswith("memory")
    assert nursery.ended() is None


def test_another_program_than_python_has_a_sandbox_of_its_own(nursery, tmp_path):
    with WarmSandbox(nursery, tmp_path) as place:
        assert ended(place.popen(["/bin/sh", "-c", "echo here"])) == (0, "here\n")
        assert place.num_warm == 0


def test_a_room_ends_with_whoever_asked_for_it(nursery, tmp_path):
    with WarmSandbox(nursery, tmp_path) as place:
        words = [place.python, "-I", "-c", "import os, time; os.fork(); time.sleep(600)"]
        process = place.popen(words)
        wait_for(lambda: len(place.survivors()) == 3)
        process._popen._life.shutdown(socket.SHUT_RDWR)  # as when its process is killed
        wait_for(lambda: place.survivors() == [])


def test_the_keeper_ends_with_whoever_started_it():
    code = OWNER.format(kit=str(KIT))
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    keeper = Path("/proc") / owner.stdout.readline().decode().strip()
    assert keeper.exists()
    owner.kill()
    owner.wait()
    owner.stdout.close()
    wait_for(lambda: not keeper.exists() or " Z " in (keeper / "stat").read_text())
