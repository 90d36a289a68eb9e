"""What is collected of a folder where every account writes; `tests/autograder/hub` has accounts."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from nbgrader.coursedir import CourseDirectory

from autograder.gradebook.nbgrader.collect import NEVER, OwnCollect


@pytest.fixture
def collect() -> OwnCollect:
    made = OwnCollect(coursedir=CourseDirectory())
    made.log = logging.getLogger("collect")
    return made


def test_links_are_not_followed_and_pipes_stop_nobody(collect: OwnCollect, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the course")
    source = tmp_path / "ada+a01+now"
    (source / "inside").mkdir(parents=True)
    (source / "ring.py").write_text("mine")
    (source / "inside" / "table.py").write_text("mine, too")
    (source / "fit.py").symlink_to(tmp_path / "secret")
    (source / "round").symlink_to(source)
    os.mkfifo(source / "ping.py")
    collect.do_copy(str(source), str(tmp_path / "copied"))
    regular = {
        path.relative_to(tmp_path / "copied").as_posix(): path.read_text()
        for path in (tmp_path / "copied").rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    assert regular == {"ring.py": "mine", "inside/table.py": "mine, too"}
    assert (tmp_path / "copied" / "fit.py").is_symlink()  # for the quarantine, which tells it


def test_a_folder_that_is_too_large_is_left_and_the_class_goes_on(
    collect: OwnCollect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = tmp_path / "ada+a01+now"
    source.mkdir()
    (source / "ring.py").write_text("x" * 3000)
    collect.coursedir.max_dir_size = 2
    collect.do_copy(str(source), str(tmp_path / "copied"))
    assert list((tmp_path / "copied").iterdir()) == []
    assert "larger than 2 kB" in caplog.text


def test_a_name_that_submit_does_not_give_is_left(
    collect: OwnCollect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("+a01+nonsense", "ada+a01+soon"):
        (tmp_path / name).mkdir()
        assert collect._path_to_record(str(tmp_path / name))["timestamp"] == NEVER
    (tmp_path / "ada+a01+2026-01-01 10:00:00.0 UTC").write_text("no folder")
    path = str(tmp_path / "ada+a01+2026-01-01 10:00:00.0 UTC")
    assert collect._path_to_record(path)["timestamp"] == NEVER
    assert "is no folder" in caplog.text and "not named as" in caplog.text


def test_whose_account_is_another_one_hands_in_for_nobody(
    collect: OwnCollect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = "root" if os.getuid() else "daemon"
    (tmp_path / f"{other}+a01+2026-01-01 10:00:00.0 UTC").mkdir()
    (path,) = map(str, tmp_path.iterdir())
    assert collect._path_to_record(path)["timestamp"] == NEVER
    assert f"is owned by another account than {other}" in caplog.text
