"""A class graded as an array: where there is no Slurm, the same script grades one by one."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder import cli
from autograder.grading_array import ArrayError, GradingArray
from ringside import slurm
from ringside.sites import Site


def array(folder: Path, site: str = "local", students: int = 3) -> GradingArray:
    loaded = Site.load(site)
    paths = [folder / f"a student's {k}" for k in range(students)]
    return GradingArray(
        loaded, loaded.settings([], {}), "a00", paths, folder, folder / "array", trusted=True
    )


@pytest.fixture
def pretended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python that grades nothing and writes down what it was asked; student 1 fails."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(
        '#!/bin/bash\nprintf "%s\\n" "$*" >>"$0.asked"\n'
        'case "$*" in *"student\'s 1"*) exit 2 ;; esac\n'
        'echo "{}" >"${@: -1}"\n'
    )
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    return python.with_name("python.asked")


def test_each_submission_is_graded_once_and_a_record_is_not_made_twice(
    tmp_path: Path, pretended: Path
) -> None:
    whole = array(tmp_path)
    assert whole.run(print) == 2  # of three, since one fails
    asked = pretended.read_text().splitlines()
    assert len(asked) == 3
    assert asked[0] == (
        f"-m autograder grade a00 {tmp_path}/a student's 0 --jobs 2 --trust-submissions "
        f"--json {tmp_path}/array/records/0.json"
    )
    again = subprocess.run(["bash", str(tmp_path / "array" / "grade.sbatch")], check=False)
    assert again.returncode == 2
    assert len(pretended.read_text().splitlines()) == 4  # only the one that had failed
    assert whole.run(print) == 2  # a new grading forgets the records
    assert len(pretended.read_text().splitlines()) == 7


def test_an_array_waits_for_all_tasks_and_says_how_many_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = ["RUNNING\nPENDING\nPENDING", "down", "PENDING", "", "", ""]

    def squeue(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        text = answers.pop(0)
        code = 1 if text == "down" else 0
        return subprocess.CompletedProcess(command, code, "" if code else text, text)

    monkeypatch.setattr(slurm, "submit", lambda script: "17")
    monkeypatch.setattr(subprocess, "run", squeue)
    said: list[str] = []
    assert array(tmp_path, "generic").run(said.append, interval_s=0) == 0
    assert said[1:] == [f"job 17: {left} of 3 submissions to go" for left in (3, 1)]
    assert not answers


def test_a_courses_secret_is_not_written_into_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RINGSIDE_COURSE_SECRET", "hush")
    monkeypatch.setenv("RINGSIDE_COURSE", str(tmp_path))
    cluster = array(tmp_path, "generic")
    with pytest.raises(ArrayError, match=r"write it into course_secret\.txt"):
        cluster.run(print)
    assert "hush" not in cluster.script()
    assert f"export RINGSIDE_COURSE={tmp_path}\n" in cluster.script()
    assert "--array=0-2%8\n" in replace(cluster, trusted=False).script()


def test_the_command_line_asks_for_a_site(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["grade", "a04_data_parallel", "solutions/a04_data_parallel", "--executor", "slurm"]
    assert cli.main(line) == 2
    assert "--executor slurm needs --site" in capsys.readouterr().err
    assert cli.main([*line, "--site", "nowhere"]) == 2
    assert "there are" in capsys.readouterr().err


def test_a_record_is_what_grade_writes(tmp_path: Path, pretended: Path) -> None:
    array(tmp_path, students=1).run(print)
    assert json.loads((tmp_path / "array" / "records" / "0.json").read_text()) == {}
