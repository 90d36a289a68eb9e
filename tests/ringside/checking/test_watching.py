"""`ringside check --watch`: what is checked again, what is told, and how it ends."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ringside.checking import notebook, watching
from ringside.commands import cli
from tests.requirements import lay_requirements

TESTS = """
import shared
from ringside.checking.points import shows


@shows("all", "values", "{name}")
def test_{name}_gives_one(ranks):
    import {name}
    assert {name}.f() == shared.ONE
"""
RIGHT, WRONG = "def f():\n    return 1\n", "def f():\n    return 2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An assignment's folder with two modules, a supplied file and a notebook."""
    names = ("ring", "star")
    (tmp_path / "checks").mkdir()
    for name in names:
        (tmp_path / "checks" / f"test_{name}.py").write_text(TESTS.format(name=name))
        lay_requirements(tmp_path / "checks", name, all=100)
    (tmp_path / "shared.py").write_text("ONE = 1\n")
    for name in names:
        (tmp_path / f"{name}.py").write_text(RIGHT)
    write_book(tmp_path, ring=RIGHT, star=RIGHT)
    return tmp_path


def write_book(folder: Path, **modules: str) -> None:
    cells = [
        {"cell_type": "code", "id": name, "metadata": {}, "outputs": [],
         "source": f"%%module {name}.py\n{text}".rstrip()}
        for name, text in modules.items()
    ]  # fmt: skip
    book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "a00.ipynb").write_text(json.dumps(book))


class Reader:
    """Sits before the screen and saves files: a step for each result that is shown."""

    def __init__(self, folder: Path, *modules: str, from_notebook: bool = False) -> None:
        self.folder = folder
        self.saves: list[Callable[[], object]] = []
        changed = watching.changes(folder, 0, lambda _: self._save())
        self.shown = watching.watch(
            folder, modules, timeout_s=20, from_notebook=from_notebook, changed=changed
        )

    def _save(self) -> None:
        if not self.saves:
            raise KeyboardInterrupt
        self.saves.pop(0)()

    def sees(self, *saves: Callable[[], object]) -> watching.Shown:
        self.saves = list(saves)
        return next(self.shown)

    def sees_nothing(self, *saves: Callable[[], object]) -> None:
        with pytest.raises(KeyboardInterrupt):
            self.sees(*saves)


def test_only_what_changed_is_checked_again(folder: Path) -> None:
    reader = Reader(folder)
    assert reader.sees().checked == ("ring", "star")
    second = reader.sees(lambda: (folder / "ring.py").write_text(WRONG))
    assert second.checked == ("ring",)
    assert "ring: 0 of 100" in second.text()
    assert "before: star 100/100" in second.text()
    assert "cells and the files differ: ring.py." in second.text()
    third = reader.sees(
        lambda: os.utime(folder / "ring.py"),  # saved without a change
        lambda: (folder / "notes.txt").write_text("nothing of ours"),
        lambda: (folder / "shared.py").write_text("ONE = 2\n"),
    )
    assert third.checked == ("ring", "star")
    assert "ring: 100 of 100" in third.text() and "star: 0 of 100" in third.text()


def test_who_names_modules_hears_of_no_other(folder: Path) -> None:
    reader = Reader(folder, "star")
    assert reader.sees().checked == ("star",)
    reader.sees_nothing(lambda: (folder / "ring.py").write_text(WRONG))


def test_what_is_saved_while_tests_run_is_checked_afterwards(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = watching.public_tests.run

    def meanwhile(*args: object, **options: object) -> object:
        report = run(*args, **options)  # type: ignore[arg-type]
        (folder / "star.py").write_text(WRONG)
        return report

    monkeypatch.setattr(watching.public_tests, "run", meanwhile)
    reader = Reader(folder)
    assert reader.sees().checked == ("ring", "star")
    assert reader.sees(lambda: None).checked == ("star",)


def test_a_module_that_is_no_python_or_is_gone_is_told_and_watched_on(folder: Path) -> None:
    reader = Reader(folder, "ring")
    reader.sees()
    broken = reader.sees(lambda: (folder / "ring.py").write_text("def f(:\n"))
    assert "ring: 0 of 100" in broken.text() and "ring.py" in broken.text()
    gone = reader.sees(lambda: (folder / "ring.py").unlink())
    assert "there is no ring.py here" in gone.text()
    again = reader.sees(lambda: (folder / "ring.py").write_text(RIGHT))
    assert "ring: 100 of 100" in again.text()


def test_a_saved_notebook_tells_what_differs_and_writes_files_only_when_asked(
    folder: Path,
) -> None:
    told = (reader := Reader(folder)).sees() and reader.sees(
        lambda: write_book(folder, ring=WRONG, star=RIGHT)
    )
    assert told.checked == () and "ring.py: the file and its cell" in told.text()
    assert (folder / "ring.py").read_text() == RIGHT
    reader = Reader(folder, from_notebook=True)
    assert "ring: 0 of 100" in reader.sees().text()
    assert (folder / "ring.py.before-sync-1").read_text() == RIGHT  # it was somebody's work
    second = reader.sees(lambda: write_book(folder, ring=RIGHT, star=RIGHT))
    assert second.checked == ("ring",) and "ring: 100 of 100" in second.text()
    assert not (folder / "ring.py.before-sync-2").exists()  # it was our copy of a cell
    (folder / "ring.py").write_text("# mine\n")
    reader.sees(lambda: write_book(folder, ring=WRONG, star=RIGHT))
    assert (folder / "ring.py.before-sync-2").read_text() == "# mine\n"
    damaged = reader.sees(lambda: (folder / "a00.ipynb").write_text("{"))
    assert "a00.ipynb can't be read as a notebook" in damaged.text()


@pytest.fixture
def watcher(folder: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "ringside", "check", "--watch"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # Whoever starts the tests in the background has them, and what they start, ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    yield process
    process.kill()
    process.communicate()


def test_on_a_pipe_results_come_one_after_another_and_ctrl_c_ends(
    folder: Path, watcher: subprocess.Popen[str]
) -> None:
    def result() -> str:
        lines = []
        assert watcher.stdout is not None
        for line in watcher.stdout:
            lines.append(line)
            if "Ctrl-C ends" in line:
                break
        return "".join(lines)

    first = result()
    assert "ring: 100 of 100" in first and "star: 100 of 100" in first and "\x1b" not in first
    (folder / "ring.new").write_text(WRONG)
    (folder / "ring.new").replace(folder / "ring.py")  # at once: a half is a change of its own
    second = result()
    assert "ring: 0 of 100" in second and "star: " not in second
    watcher.send_signal(signal.SIGINT)
    assert watcher.wait(timeout=60) == 0
    assert watcher.stderr is not None and watcher.stderr.read() == ""


@pytest.mark.parametrize("option", ["--json", "--from-files"])
def test_what_a_watch_cannot_do_is_refused(
    folder: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", "--watch", "--folder", str(folder), option]) == 2
    assert "--watch" in capsys.readouterr().err


def test_a_check_runs_the_file_where_the_cell_is_as_released(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = folder / "a00.ipynb"
    book = json.loads(path.read_text())
    cell = book["cells"][0]
    cell["source"] = "%%module ring.py\ndef f():\n    raise NotImplementedError"
    marks = {"grade_id": "ring", "solution": True, "grade": False, "locked": False}
    parts = (cell["source"], "code", False, True, False, "ring")
    marks["checksum"] = hashlib.md5("".join(map(str, parts)).encode()).hexdigest()  # type: ignore[assignment]
    cell["metadata"] = {"nbgrader": marks}
    path.write_text(json.dumps(book))
    assert cli.main(["check", "ring", "--folder", str(folder)]) == 0
    said = capfd.readouterr()
    assert "ring: 100 of 100" in said.out
    assert said.err == ""  # the cell gives way: nothing is to be said
    # Where both were written, neither is silently preferred.
    write_book(folder, ring=WRONG, star=RIGHT)
    assert cli.main(["check", "ring", "--folder", str(folder)]) == 2
    assert notebook.differences(folder, ["ring"])
