"""Sandboxes that verification keeps warm: forks that behave as programs, and an end for sure."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autograder import warm_sandbox
from autograder.sandbox import Limits, Tier, best_tier
from autograder.warm_sandbox import WarmSandbox

KIT = Path(__file__).resolve().parent.parent
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
from autograder import warm_sandbox
warm_sandbox.start(["mpi"])
print(warm_sandbox.known["mpi"].keeper, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def host():
    warm_sandbox.start(["mpi"])
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


def test_a_program_finds_what_it_was_given_and_libraries_loaded(host, tmp_path):
    (tmp_path / "mine.py").write_text("WORD = 'here'\n")
    code = (
        "import os, sys; loaded = 'numpy' in sys.modules; sys.path.insert(0, sys.argv[1]);"
        "import mine; os.write(int(sys.argv[2]), mine.WORD.encode());"
        "print(loaded, os.environ['RINGSIDE_X'], 'SECRET' in os.environ, os.getuid() > 0);"
        "sys.exit(3)"
    )
    read, write = os.pipe()
    with WarmSandbox(host, tmp_path) as place:
        words = [place.python, "-I", "-c", code, str(place.modules_path), str(write)]
        process = place.popen(words, (write,), {"RINGSIDE_X": "x", "SECRET": "no"})
        assert ended(process) == (3, "True x False True\n")
        assert place.survivors() == []
        stage = host.folder / place.modules_path.parent.name
        assert stage.is_dir()
    assert not stage.exists()
    os.close(write)
    assert os.read(read, 100) == b"here"
    os.close(read)


def test_programs_share_no_process_and_leave_nothing(host, tmp_path):
    leave = "import json; json.mine = 1; open('/tmp/left', 'w').close()"
    look = "import json, os; print(hasattr(json, 'mine'), os.listdir('/tmp'))"
    with WarmSandbox(host, tmp_path) as place:
        first = ended(place.popen([place.python, "-I", "-c", leave]))
        wait_for(lambda: place.survivors() == [])
        second = ended(place.popen([place.python, "-I", "-c", look]))
    assert first == (0, "")
    assert second == (0, "False []\n")


def test_a_program_and_its_forks_are_killed_and_watched(host, tmp_path):
    fork = "import os, time; os.fork(); print('up', flush=True); time.sleep(600)"
    greedy = "blocks = []\nwhile True: blocks.append(bytearray(b'x') * (8 << 20))"
    with WarmSandbox(host, tmp_path, limits=Limits(memory_bytes=200 << 20)) as place:
        process = place.popen([place.python, "-I", "-c", fork])
        wait_for(lambda: process.output().count("up") == 2)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0)
        process.kill()
        assert process.poll() == -signal.SIGKILL
        assert place.survivors() == []
        hungry = place.popen([place.python, "-I", "-c", greedy])
        assert hungry.wait(60) == -signal.SIGKILL
        assert hungry.killed_for.startswith("memory")
    assert host.alive()


def test_only_pythons_are_started(host, tmp_path):
    with WarmSandbox(host, tmp_path) as place, pytest.raises(ValueError, match="python -I"):
        place.popen(["/bin/sh", "-c", "true"])


def test_the_keeper_ends_with_whoever_started_it():
    code = OWNER.format(kit=str(KIT))
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    keeper = Path("/proc") / owner.stdout.readline().decode().strip()
    assert keeper.exists()
    owner.kill()
    owner.wait()
    owner.stdout.close()
    wait_for(lambda: not keeper.exists() or " Z " in (keeper / "stat").read_text())
