"""Where nothing can be written, the commands that make folders say what is wrong and what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from autograder import storage
from autograder.commands import cli
from autograder.course.course import Course
from autograder.publish import build
from tests.autograder.conftest import KIT, NAME

COMMANDS = """
import sys; sys.path.insert(0, {code!r})
from autograder.commands import cli
for words in (["build", {name!r}], ["new-assignment", "a77_mine"], ["bundle"], ["demo"]):
    print(words[0], cli.main(words), file=sys.stderr)
"""


@pytest.fixture
def kit(toy_kit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "kit"
    shutil.copytree(toy_kit, folder)
    monkeypatch.setenv("RINGSIDE_KIT", str(folder))
    monkeypatch.delenv("RINGSIDE_COURSE", raising=False)
    return folder


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="mounting needs root and unshare"
)
def test_a_read_only_kit_is_named_with_the_cause_and_two_ways_out(kit: Path) -> None:
    program = COMMANDS.format(code=str(KIT), name=NAME)
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    answer = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount, str(kit),
         sys.executable, "-c", program],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    why = "can't be written: Read-only file system. Make that file system writable, then start"
    copy = f"Or work in a copy of {kit} (`cp -r`)."
    elsewhere = "Or name a folder elsewhere: `--to FOLDER`."
    assert answer.stderr.splitlines() == [
        f"autograder: {kit}/build/source {why} the command again: nothing was changed. {copy}",
        "build 2",
        f"autograder: {kit}/solutions {why} the command again: nothing was changed. {copy}",
        "new-assignment 2",
        f"autograder: {kit}/build {why} the command again: nothing was changed. {elsewhere}",
        "bundle 2",
        f"autograder: {kit}/build {why} the command again: nothing was changed. {elsewhere}",
        "demo 2",
    ]


def test_a_file_where_the_release_should_lie_is_named(
    kit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(kit / "assignments")
    (kit / "assignments").touch()
    assert cli.main(["build", NAME]) == 2
    said = capsys.readouterr().err
    assert f"{kit}/assignments can't be written: Not a directory. Move away the file" in said


def test_without_room_for_temporary_files_the_command_names_the_variable(
    kit: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    assert cli.main(["build", NAME]) == 2
    said = capsys.readouterr().err
    assert "No usable temporary directory found in ['/tmp']. Free some room in one of" in said
    assert "or set TMPDIR to a folder that can be written, then start the command again" in said


def test_a_disk_that_fills_up_while_folders_are_copied_is_named_with_the_file(
    tmp_path: Path,
) -> None:
    match = r"^/x/b can't be written: No space left on device\. Free some room there, then start"
    with (
        pytest.raises(storage.StorageError, match=match),
        storage.making(tmp_path, otherwise="Or not."),
    ):
        raise shutil.Error([("a", "/x/b", "[Errno 28] No space left on device: '/x/b'")])


def test_faults_that_are_not_the_disks_pass_as_they_are(tmp_path: Path) -> None:
    for error in (FileNotFoundError(2, "No such file", "x"), storage.StorageError("told already")):
        with pytest.raises(type(error)) as raised, storage.making(tmp_path, otherwise=""):
            raise error
        assert raised.value is error


# -- what a build keeps ------------------------------------------------------------------------


def test_a_build_keeps_an_attempt_and_a_cell_that_it_did_not_write(
    kit: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    course = Course.here()
    release, source = course.release(NAME), course.source(NAME)
    fresh = [shutil.copytree(each, tmp_path / each.parent.name) for each in (source, release)]
    monkeypatch.setattr(build, "_generate", lambda *_: fresh)  # it takes seconds
    (release / "one.py").write_text("my attempt")
    notebook = source / f"{NAME}.ipynb"
    notebook.write_text(notebook.read_text() + " ")
    assert cli.main(["build", NAME]) == 0
    said = capsys.readouterr().err
    assert f"{release} held what no build has made (one.py): it is in {kit}/build/kept" in said
    assert f"{source} held what no build has made ({NAME}.ipynb)" in said
    kept = kit / "build" / "kept"
    assert (kept / "assignments" / NAME / "one.py").read_text() == "my attempt"
    assert (kept / "source" / NAME / notebook.name).read_text().endswith(" ")
    assert not (release / "one.py").exists() and not notebook.read_text().endswith(" ")
    (fresh[1] / "given/numbers.py").write_text("GIVEN = 2\n")  # what it wrote, it replaces
    assert cli.main(["build", NAME]) == 0
    assert "held what" not in capsys.readouterr().err
    assert sorted(path.name for path in kept.glob("*/*")) == [NAME, NAME]
