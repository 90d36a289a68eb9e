"""The deadline of real ranks: who is where when it passes, and no rank needs another to live."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ringside.checking import Verdict, assert_real_run
from ringside.jobs.launch.launch import here_environment, mpiexec

# Rank 1 comes to its watch only when rank 0 is past everything that Python does at its end.
LATE = """
import atexit, pathlib, sys, time
from mpi4py import MPI
from ringside.jobs.real import watch

ended = pathlib.Path(sys.argv[1], "ended")
if MPI.COMM_WORLD.rank == 0:
    atexit.register(ended.touch)
else:
    class Slow(watch.Watch):
        def __init__(self, *args, **options):
            while not ended.exists():
                time.sleep(0.01)
            super().__init__(*args, **options)

    watch.Watch = Slow
watch.watched(MPI.COMM_WORLD, 20.0)
"""
# Rank 0 ends; then rank 1 waits for a message that never comes.
FORSAKEN = """
from mpi4py import MPI
from ringside.jobs.real.watch import watched

comm = watched(MPI.COMM_WORLD, 2.0 if MPI.COMM_WORLD.rank else 60.0)
if comm.rank:
    comm.recv(source=0, tag=7)
"""


def run(program: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Run a program on two real ranks whose temporary files lie in a folder."""
    monkeypatch.setenv("TMPDIR", str(folder))
    (folder / "program.py").write_text(program)
    done = subprocess.run(
        [mpiexec(), "-n", "2", sys.executable, str(folder / "program.py"), str(folder)],
        env=here_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("ringside-watch-*"))


def test_a_rank_may_begin_its_watch_when_rank_0_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(LATE, tmp_path, monkeypatch) == (0, "")
    assert left_in(tmp_path) == []


def test_a_rank_that_hangs_when_rank_0_has_ended_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, said = run(FORSAKEN, tmp_path, monkeypatch)
    assert status == 1
    assert "DeadlineError: the run did not end within 2 s." in said
    assert "rank 0  (no answer: it has ended, or is stopped)" in said
    assert "rank 1  recv(source=0, tag=7)  program.py:7" in said
    assert left_in(tmp_path) == []


def test_a_public_test_says_where_real_ranks_hang(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(FORSAKEN)
    words = [mpiexec(), "-n", "2", sys.executable, "program.py"]
    with pytest.raises(Verdict) as caught:
        assert_real_run(words, tmp_path, "ring:all_reduce under mpiexec")
    said = "ring:all_reduce under mpiexec: DeadlineError: the run did not end within 2 s."
    assert caught.value.sentence == said
    assert "rank 1  recv(source=0, tag=7)  program.py:7" in caught.value.detail


def test_a_public_test_tells_the_first_error_of_real_ranks(tmp_path: Path) -> None:
    program = "import sys; print('ValueError: no part is empty', file=sys.stderr); sys.exit(3)"
    with pytest.raises(Verdict, match=r"on gloo: ValueError: no part is empty$"):
        assert_real_run([sys.executable, "-c", program], tmp_path, "on gloo")
    with pytest.raises(Verdict, match=r"on gloo: it ended with status 3\.$"):
        assert_real_run([sys.executable, "-c", "import sys; sys.exit(3)"], tmp_path, "on gloo")
