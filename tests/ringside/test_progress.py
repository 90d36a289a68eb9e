"""Long commands say on a terminal what they are at, and nothing in a pipe."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from ringside import progress
from ringside.progress import waiting

SLOW = """
import time


def f(comm):
    time.sleep(0.2)
    print("said by a rank")
    return comm.allreduce(1)
"""


@pytest.fixture
def terminal() -> Iterator[tuple[TextIO, int]]:
    """A stream that is a terminal, and where to read what is on it."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        yield stream, ours
    os.close(ours)


def test_a_line_says_what_is_waited_for_and_is_gone_afterwards(
    terminal: tuple[TextIO, int],
) -> None:
    stream, shown = terminal
    with waiting("the first", stream, after_s=0) as line:
        line.note("the second")
    told = ""
    while not told.endswith("0 s\r\x1b[K"):  # an empty line at last
        told += os.read(shown, 4096).decode()
    assert "the second, 0 s" in told


def test_what_is_quick_says_nothing_and_neither_does_a_pipe(
    terminal: tuple[TextIO, int], tmp_path: Path
) -> None:
    stream, shown = terminal
    with waiting("quick", stream) as line:
        line.note("still quick")
    os.set_blocking(shown, False)
    with pytest.raises(BlockingIOError):
        os.read(shown, 10)
    with (tmp_path / "log").open("w") as log, waiting("long", log, after_s=0) as line:
        line.note("longer")
        assert not line.shown
    assert (tmp_path / "log").read_text() == ""


def test_other_output_stands_on_lines_of_its_own(terminal: tuple[TextIO, int]) -> None:
    stream, shown = terminal
    with waiting("ranks", stream, after_s=0) as line:
        line.note("ranks")
        said = subprocess.Popen(["echo", "hello"], stdout=subprocess.PIPE)
        assert said.stdout is not None
        line.pass_on(said.stdout, stream.fileno()).join()
        said.wait()
        said.stdout.close()
    told = ""
    while "ranks, 0 s\r\x1b[Khello\r\n" not in told:
        told += os.read(shown, 4096).decode()


def on_terminal(folder: Path, *words: str) -> tuple[int, str]:
    """A command with its output and errors on a terminal; the status, and what was on it."""
    script = f"from ringside import progress; progress._AFTER_S = 0; progress._TICK_S = {TICK}; "
    script += "import sys; from ringside.commands.cli import main; sys.exit(main(sys.argv[1:]))"
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execv(sys.executable, [sys.executable, "-c", script, *words])
    shown = b""
    while True:
        try:
            data = os.read(fd, 65536)
        except OSError:  # how Linux says that nobody has the terminal open any more
            break
        if not data:
            break
        shown += data
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode(errors="replace")


TICK = 0.1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("run", "slow.py:f", "--ranks", "2"), "slow.py:f on 2 ranks, "),
        pytest.param(
            ("launch", "slow.py:f", "--site", "local", "--set", "ranks_per_node=2"),
            "slow.py on 2 ranks, ",
            marks=pytest.mark.mpi,
        ),
    ],
)
def test_a_command_shows_its_line_on_a_terminal_alone(
    tmp_path: Path, words: tuple[str, ...], line: str
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    status, shown = on_terminal(tmp_path, *words)
    assert status == 0, shown
    assert line in shown
    # What stays on the screen of all that was written there has nothing of it.
    left = [re.split(r"\r\x1b\[K", text)[-1] for text in shown.replace("\r\n", "\n").split("\n")]
    assert line not in "\n".join(left)
    assert any("said by a rank" in text for text in left)
    piped = subprocess.run(
        [sys.executable, "-m", "ringside", *words], cwd=tmp_path, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert line not in piped.stdout + piped.stderr and "\x1b" not in piped.stdout + piped.stderr


def test_the_line_is_as_wide_as_the_terminal(terminal: tuple[TextIO, int]) -> None:
    stream, shown = terminal
    line = progress.Progress(stream)
    line.show("x" * 500)
    assert len(os.read(shown, 4096).decode().removeprefix("\r\x1b[K")) < 500
