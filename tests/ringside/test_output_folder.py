"""A command removes only what it can prove it made: by its mark, and by what is in the folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ringside import output_folder
from ringside.commands.cli import main as ringside
from ringside.course.lectures.__main__ import main as lectures
from ringside.jobs.launch import jobscript
from ringside.output_folder import FolderError, begin, made_anew, replace, usable

COMMAND = "kit make-it"


def make(folder: Path, text: str = "new", **options: object) -> None:
    with made_anew(folder, COMMAND, **options) as fresh:  # type: ignore[arg-type]
        (fresh / "sub").mkdir()
        (fresh / "sub" / "a.txt").write_text(text)
        (fresh / "link").symlink_to("sub")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "out"


def test_a_folder_is_made_and_made_anew(place: Path) -> None:
    make(place)
    make(place, "newer")
    assert (place / "sub" / "a.txt").read_text() == "newer"
    assert names(place) == [".ringside-made", "link", "sub"]
    assert names(place.parent) == ["out"]  # nothing temporary is left beside it


def test_an_empty_folder_and_a_link_to_our_own_are_filled(place: Path, tmp_path: Path) -> None:
    place.mkdir(parents=True)
    make(place)
    (tmp_path / "short").symlink_to(place)
    make(tmp_path / "short", "by the link")
    assert (tmp_path / "short").is_symlink()
    assert (place / "sub" / "a.txt").read_text() == "by the link"


def add(place: Path) -> str:
    (place / "sub" / "mine.txt").write_text("mine")
    return "sub/mine.txt"


def change(place: Path) -> str:
    (place / "sub" / "a.txt").write_text("mine")
    return r"sub/a\.txt \(changed\)"


def relink(place: Path) -> str:
    (place / "link").unlink()
    (place / "link").symlink_to("/")
    return r"link \(changed\)"


def add_git(place: Path) -> str:
    (place / ".git").mkdir()
    (place / ".git" / "HEAD").write_text("mine")
    return r"\.git/HEAD"


@pytest.mark.parametrize("touch", [add, change, relink, add_git])
def test_what_somebody_else_put_there_or_changed_is_kept_and_named(
    place: Path, touch: Callable[[Path], str]
) -> None:
    make(place)
    said = touch(place)
    before = output_folder.contents(place)
    with pytest.raises(FolderError, match=f"holds what `kit make-it` did not make: {said}"):
        make(place, "newer")
    assert output_folder.contents(place) == before
    assert names(place.parent) == ["out"]


def test_caches_are_nobodys_work(place: Path) -> None:
    make(place)
    for cache in ("__pycache__", ".pytest_cache", "ringside.egg-info"):
        (place / "sub" / cache).mkdir()
        (place / "sub" / cache / "x").touch()
    make(place, "newer")
    assert (place / "sub" / "a.txt").read_text() == "newer"


def test_what_is_there_to_be_played_with_may_change_but_nothing_be_added(place: Path) -> None:
    make(place, exact=False)
    change(place)
    make(place, exact=False)
    add(place)
    with pytest.raises(FolderError, match=r"did not make: sub/mine\.txt\. "):
        make(place, exact=False)


def test_a_foreign_folder_a_file_and_another_commands_folder_are_refused(place: Path) -> None:
    place.mkdir(parents=True)
    (place / "pyproject.toml").write_text("[project]")
    with pytest.raises(FolderError, match=r"did not make: pyproject\.toml\. Name another folder"):
        make(place)
    with pytest.raises(FolderError, match="is not a folder"):
        make(place / "pyproject.toml")
    with made_anew(place.parent / "other", "kit something-else") as fresh:
        (fresh / "x").touch()
    with pytest.raises(FolderError, match="did not make"):
        make(place.parent / "other")


def test_a_mark_that_is_damaged_or_a_link_proves_nothing(place: Path) -> None:
    make(place)
    mark = place / output_folder.MARKER
    whole = mark.read_text()
    for text in ("", "{}", "[]", whole[:-9]):
        mark.write_text(text)
        with pytest.raises(FolderError, match="did not make"):
            make(place)
    mark.unlink()
    (place.parent / "mark").write_text(whole)
    mark.symlink_to(place.parent / "mark")
    with pytest.raises(FolderError, match="did not make"):
        make(place)


@pytest.mark.parametrize("up", [".", "..", "../.."])
@pytest.mark.parametrize("which", ["kit", "home", "here"])
def test_the_home_the_current_folder_the_kit_and_what_is_above_them_are_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, up: str, which: str
) -> None:
    make(tmp_path / "a")  # marked, and so would be replaced
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    if which == "home":
        monkeypatch.setenv("HOME", str(inner))
    if which == "here":
        monkeypatch.chdir(inner)
    protected = [inner] if which == "kit" else []
    with pytest.raises(FolderError, match=r"`kit make-it` never replaces .*: name a new folder"):
        make(inner / up, protected=protected)
    assert (tmp_path / "a" / "sub" / "a.txt").read_text() == "new"


def test_when_the_making_fails_the_old_one_stays(place: Path) -> None:
    make(place)
    with pytest.raises(RuntimeError, match="half"), made_anew(place, COMMAND) as fresh:
        (fresh / "half").touch()
        raise RuntimeError("half")
    assert (place / "sub" / "a.txt").read_text() == "new"
    assert names(place.parent) == ["out"]


def test_when_the_renaming_fails_the_old_one_is_back(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(place)
    real = os.rename

    def failing(source: Path, target: Path) -> None:
        if ".new-" in Path(source).name:
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(OSError, match="No space left"):
        make(place, "newer")
    assert (place / "sub" / "a.txt").read_text() == "new"
    assert names(place.parent) == ["out"]


def test_what_is_put_there_while_the_new_one_is_made_is_kept(place: Path) -> None:
    make(place)
    with pytest.raises(FolderError, match=r"mine\.txt"), made_anew(place, COMMAND):
        (place / "mine.txt").write_text("mine")
    assert (place / "mine.txt").read_text() == "mine"


def test_a_folder_that_other_processes_fill_is_the_commands_own(place: Path) -> None:
    begin(place, COMMAND)
    (place / "4").mkdir()
    (place / "4" / "run.json").touch()
    begin(place, COMMAND)
    assert names(place) == [".ringside-made"]
    shutil.rmtree(place)
    (place / "4").mkdir(parents=True)
    with pytest.raises(FolderError, match="did not make: 4"):
        begin(place, COMMAND)


def test_what_is_replaced_can_be_kept_and_nothing_of_it_gets_lost(tmp_path: Path) -> None:
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    replace(tmp_path / "new", tmp_path / "old", keep=tmp_path / "kept" / "old")
    assert names(tmp_path / "old") == ["new"] and names(tmp_path / "kept" / "old") == ["old"]


def test_names_are_taken_in_order(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    for number in (1, 2):
        path.write_text(str(number))
        assert output_folder.set_aside(path).name == f"run.log.{number}"
    assert names(tmp_path) == ["run.log.1", "run.log.2"]
    assert usable(path, COMMAND) == path


# -- commands of students ------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["site", "slides"])
def test_pages_and_slides_leave_a_folder_of_that_name_alone(
    action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(__file__).resolve().parents[2]
    (tmp_path / action).mkdir()
    (tmp_path / action / "thesis.html").write_text("mine")
    words = [action, "--folder", str(root / "lectures"), "--out", str(tmp_path)]
    assert lectures(words) == 2
    assert (
        f"`python -m ringside.course.lectures {action}` did not make: thesis"
        in capsys.readouterr().err
    )
    assert (tmp_path / action / "thesis.html").read_text() == "mine"


def test_a_script_and_a_log_that_no_launch_wrote_are_renamed(tmp_path: Path) -> None:
    script, log, said = tmp_path / "run.sbatch", tmp_path / "run.log", []
    script.write_text("#!/bin/bash\nsrun ./my_own_job\n")
    log.write_text("of my own job")
    jobscript.make_room(script, log, said.append)
    assert (tmp_path / "run.sbatch.1").read_text().endswith("my_own_job\n")
    assert said == [
        f"{script} was not written by ringside: it was renamed to run.sbatch.1.",
        f"{log} was not written by ringside: it was renamed to run.log.1.",
    ]
    script.write_text(f"{jobscript.MADE}\npython -m ringside.jobs.real.mpi_main")
    log.write_text("of a launch")
    jobscript.make_room(script, log, said.append)
    assert log.exists() and len(said) == 2


def test_a_sweep_leaves_a_folder_of_that_name_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ring.py").write_text("def all_reduce(comm, x):\n    return comm.allreduce(x)\n")
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "notes.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    assert ringside(["launch", "ring.py:all_reduce", "--site", "local", "--sweep"]) == 2
    assert "`ringside launch --sweep` did not make: notes.txt" in capsys.readouterr().err
    assert (tmp_path / "sweep" / "notes.txt").read_text() == "mine"
