"""Completion in real shells: what is typed up to the Tab, and what the shell makes of it."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def installed(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here: `apt-get install {shell}`")


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of both commands for all shells, and a folder with files to complete."""
    folder = tmp_path_factory.mktemp("completion")
    for program in ("ringside", "autograder"):
        for shell in ("bash", "zsh", "fish"):
            words = [sys.executable, "-m", program, "completion", shell]
            done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
            name = f"_{program}" if shell == "zsh" else f"{program}.{shell}"
            (folder / name).write_text(done.stdout)
    (folder / "here").mkdir()
    (folder / "here" / "ring.py").touch()
    return folder


# What is typed, and the words that the command is then given. <Tab> stands for the key.
TYPED = [
    ("ringside che<Tab>--wat<Tab>", "check --watch"),
    ("ringside launch --site zar<Tab>", "launch --site zaratan"),
    ("ringside run ring.<Tab>--mach<Tab>dgx_a<Tab>", "run ring.py --machine dgx_a100"),
    ("autograder verify a03_a<Tab>--poi<Tab>", "verify a03_allreduce --points"),
]
START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "PS1='$ '; source {0}/{1}.bash"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "PS1='$ '; fpath+={0}; autoload -U compinit; compinit -u -D",
    ),
}


class Terminal:
    """A shell that sits at a terminal."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ.update(TERM="dumb", HOME=str(folder))
            os.execvp(words[0], words)

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def until(self, words: str, timeout_s: float = 60.0) -> str:
        """What it shows, up to and with some words."""
        ends = time.monotonic() + timeout_s
        while words not in self.text:
            assert time.monotonic() < ends, f"no {words!r} in {self.text!r}"
            if select.select([self.fd], [], [], 0.2)[0]:
                self.text += os.read(self.fd, 4096).decode(errors="replace")
        shown, _, self.text = self.text.partition(words)
        return shown

    def quiet(self) -> None:
        """Wait until it has shown what there is to show, and keep that."""
        ends = time.monotonic() + 10
        while time.monotonic() < ends and select.select([self.fd], [], [], 0.5)[0]:
            self.text += os.read(self.fd, 4096).decode(errors="replace")

    def close(self) -> None:
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_tab_completes_commands_options_values_and_files(shell: str, scripts: Path) -> None:
    installed(shell)
    words, start = START[shell]
    terminal = Terminal(words, scripts / "here")
    try:
        for number, (typed, expected) in enumerate(TYPED):
            program = typed.split()[0]
            terminal.type(start.format(scripts, program) + "\n")
            # In the place of the program, what it would have been given.
            terminal.type(
                f"{program}() {{ printf 'given<%s>\\n' \"$*\"; }}; echo rea''dy{number}\n"
            )
            terminal.until(f"ready{number}\r\n")
            for part in typed.split("<Tab>"):
                terminal.type(part)
                if part != typed.rpartition("<Tab>")[2]:
                    terminal.type("\t")
                    terminal.quiet()
            terminal.type("\n")
            terminal.until("given<")
            assert terminal.until(">").split() == expected.split(), typed
    finally:
        terminal.close()


def test_fish_offers_commands_options_and_values(scripts: Path) -> None:
    installed("fish")
    for program, line, expected in (
        ("ringside", "ringside che", "check"),
        ("ringside", "ringside check --wat", "--watch"),
        ("ringside", "ringside launch --site zar", "zaratan"),
        ("autograder", "autograder verify --poi", "--points"),
    ):
        command = f"source {scripts}/{program}.fish; complete -C '{line}'"
        done = subprocess.run(
            ["fish", "--no-config", "-c", command], capture_output=True, text=True, check=True,
            env={**os.environ, "HOME": str(scripts)},
        )  # fmt: skip
        assert expected in [offer.split("\t")[0] for offer in done.stdout.splitlines()]


def test_no_command_starts_later_because_of_completion() -> None:
    code = "import sys; from ringside.commands.cli import main; main(['site', 'list']); "
    code += "assert 'shtab' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
