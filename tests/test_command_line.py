"""How the commands of both packages are declared, and how they end."""

from __future__ import annotations

import errno
import importlib
import inspect
import pkgutil
import sys

import pytest

from ringside import command_line
from ringside.errors import Interrupted, RingsideError


@pytest.mark.parametrize("package", ["ringside.commands", "autograder.commands"])
def test_every_command_is_declared_and_run_in_one_way(package: str) -> None:
    cli = importlib.import_module(f"{package}.cli")
    folder = importlib.import_module(package).__path__
    modules = {info.name for info in pkgutil.iter_modules(folder)}
    for name, command in cli._COMMANDS.items():
        assert command.__name__ == f"{package}.{name.replace('-', '_')}"
        assert list(inspect.signature(command.add_parser).parameters) == ["commands"]
        assert len(inspect.signature(command.run).parameters) == 1
        modules.remove(name.replace("-", "_"))
    shared = {"cli", "command", "options", "magic", "array_task", "clean"}  # no commands
    assert modules <= shared, f"{package}: {modules - shared} isn't in _COMMANDS"


@pytest.mark.parametrize(
    ("program", "error", "status", "message"),
    [
        ("ringside", RingsideError("no ring.py."), 2, "ringside: no ring.py.\n"),
        ("", RingsideError("no ring.py."), 2, "RingsideError: no ring.py.\n"),
        (
            "autograder",
            FileNotFoundError(errno.ENOENT, "No such file or directory", "roster.csv"),
            2,
            "autograder: roster.csv: No such file or directory.\n",
        ),
        (
            "autograder",
            PermissionError(errno.EACCES, "Permission denied", "build"),
            2,
            "autograder: build: Permission denied. Is the folder not yours? Work in a copy of it "
            "(`cp -r`).\n",
        ),
        ("autograder", OSError("Free some room."), 2, "autograder: Free some room.\n"),
        ("autograder", LookupError("who?"), 2, "autograder: who?\n"),
        ("autograder", BrokenPipeError(errno.EPIPE, "Broken pipe"), 0, ""),
        ("autograder", KeyboardInterrupt(), 130, "autograder: stopped; it is kept.\n"),
        ("", KeyboardInterrupt(), 130, "stopped; it is kept.\n"),
        ("ringside", Interrupted(()), 130, f"ringside: {Interrupted(())}\n"),
    ],
)
def test_what_a_command_raises_is_one_line_and_a_status(
    program: str,
    error: BaseException,
    status: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    captured = sys.stdout
    monkeypatch.setattr(sys, "stdout", captured)  # a broken pipe replaces it

    def action() -> int:
        raise error

    faults = (LookupError,)
    stopped = "stopped; it is kept."
    assert command_line.ended(program, action, faults=faults, stopped=stopped) == status
    if sys.stdout is not captured:
        sys.stdout.close()
    assert capsys.readouterr().err == message


def test_a_fault_of_the_code_is_no_message() -> None:
    with pytest.raises(ZeroDivisionError):
        command_line.ended("ringside", lambda: 1 // 0)


@pytest.mark.parametrize(
    ("words", "own", "others"),
    [
        (["run", "ring.py"], ["run", "ring.py"], []),
        (["run", "--", "--n", "3", "--", "x"], ["run"], ["--n", "3", "--", "x"]),
        ([], [], []),
    ],
)
def test_what_follows_two_dashes_is_the_programs(
    words: list[str], own: list[str], others: list[str]
) -> None:
    assert command_line.split(words) == (own, others)
