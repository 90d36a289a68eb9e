"""pdb in a rank: `ringside run --debug RANK` at a terminal, and without one."""

from __future__ import annotations

import fcntl
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import numpy as np

from ringside import run

RING = """\
def send_on(comm, x):
    breakpoint()
    mine = x * (comm.rank + 1)
    return comm.sendrecv(mine, (comm.rank + 1) % comm.size)
"""


def at_a_terminal(keys: str, *words: str, cwd: Path) -> tuple[int, str]:
    """Run `ringside` with a terminal of its own where ``keys`` are typed; status and screen."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ringside", *words], cwd=cwd, stdin=slave, stdout=slave,
        stderr=slave, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(slave)
    os.write(master, keys.encode())
    screen = b""
    try:
        while data := os.read(master, 1 << 12):
            screen += data
    except OSError:  # Linux says so when the last process has closed the terminal
        pass
    finally:
        os.close(master)
    return process.wait(), screen.decode().replace("\r\n", "\n")


def test_breakpoint_in_one_rank_opens_pdb_at_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "ring.py").write_text(RING)
    # Were the time limit in force, the other ranks would be ended while somebody reads.
    words = ("run", "ring.py:send_on", "--ranks", "3", "--debug", "1", "--timeout", "1e-6")
    status, screen = at_a_terminal("p comm.rank, comm.size\nn\nn\np mine is x\nc\n", *words,
                                   cwd=tmp_path)  # fmt: skip
    assert "(Pdb) (1, 3)\n" in screen
    assert "-> mine = x * (comm.rank + 1)" in screen and "(Pdb) False\n" in screen
    assert screen.count("breakpoint()") <= 1, "only rank 1 stops"
    assert "send_on on 3 ranks" in screen and "BdbQuit" not in screen
    assert status == 0


def test_debugging_needs_a_terminal_and_a_rank_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "ring.py").write_text(RING)
    forgotten = run(f"{tmp_path}/ring.py:send_on", 2, (np.ones(2),), check=False).error
    assert forgotten is not None and "--debug 1` stops in rank 1" in str(forgotten)
    for words, sentence in (
        (["--debug", "1"], "--debug needs a terminal: type this command in one."),
        (["--debug", "4"], "--debug 4: the ranks are 0 to 3."),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "ringside", "run", "ring.py:send_on", *words],
            cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            start_new_session=True,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (2, f"ringside: {sentence}\n")
