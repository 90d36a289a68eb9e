"""The small Slurm keeps what a command says, also of one that doesn't end."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("minislurm.py")

pytestmark = pytest.mark.slurm


def test_a_command_by_hand_has_the_terminal_and_gives_its_status(slurm: Any) -> None:
    words = [sys.executable, str(SCRIPT), "1", "--", "sh", "-c"]
    words.append("sinfo -h -o %D; read answer; echo heard $answer; echo aside >&2; exit 7")
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as begun:
        assert begun.stdin and begun.stdout
        assert begun.stdout.readline() == "1\n"  # while the command runs
        out, err = begun.communicate("you\n")
    assert (begun.returncode, out, err) == (7, "heard you\n", "aside\n")


def test_a_command_of_a_test_that_does_not_end_in_time_is_told_with_what_it_said(
    slurm: Any, shared_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    communicate = subprocess.Popen.communicate
    there = shared_folder / "there"

    def late(self: Any, timeout: float | None = None) -> Any:
        while timeout and not there.exists():
            time.sleep(0.01)
        return communicate(self, timeout=0 if timeout else None)

    command = ["sh", "-c", f"echo begun; touch {there}; exec sleep 600"]
    with (
        monkeypatch.context() as patch,
        pytest.raises(AssertionError, match=r"sh has not ended after 9 s .*\nbegun\n"),
    ):
        patch.setattr(subprocess.Popen, "communicate", late)
        slurm.run(command, timeout_s=9.0)


def test_a_command_by_hand_may_have_a_limit(slurm: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert slurm.attach(["sleep", "600"], timeout_s=0.1) == 124
    assert "ended after 0.1 s (--timeout)" in capfd.readouterr().err
