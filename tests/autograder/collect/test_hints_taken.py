"""How many hints a class took: told by the students' own files, and never graded."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from autograder.collect import preparation, submissions, submitted_tree
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade import pipeline
from autograder.gradebook.report import page, report
from autograder.gradebook.report.summary import summarise
from autograder.terminal import console
from ringside.course.handin import hints_taken
from tests.autograder.conftest import solved, toy_grader


def hand_in(folder: Path, hints: object = None) -> Path:
    folder.mkdir(parents=True)
    (folder / "one.py").write_text(solved("one").split("\n", 1)[1])
    if hints is not None:
        (folder / hints_taken.NAME).write_text(json.dumps(hints))
    return folder


def told(plan: Assignment, folder: Path, course: Course) -> dict[str, int]:
    return preparation.prepare(plan, submissions.Submission("ada", folder), course).hints


def test_the_report_shows_how_many_were_taken_and_by_how_many(
    plan: Assignment, course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hand_in(tmp_path / "class" / "ada", {"one": 3, "two": 1})
    hand_in(tmp_path / "class" / "bob", {"one": 1})
    hand_in(tmp_path / "class" / "eve")
    found = submissions.find(plan, [tmp_path / "class"])
    outcomes = pipeline.GradingSession(plan, course, toy_grader).grade(found)
    summary = summarise(plan, outcomes)
    taken = {row.module.name: row.hints_taken for row in summary.modules}
    assert (taken["one"], taken["two"]) == ("4 by 2", "1 by 1")
    assert len({outcome.score(plan) for outcome in outcomes}) == 1  # no points depend on it
    assert "hints taken" in page.render(summary) and "4 by 2" in page.render(summary)
    report.print_report(console(), summary)
    assert "4 by 2" in capsys.readouterr().out
    outcomes[0].team = outcomes[1].team = "t"
    outcomes[0].hints = outcomes[1].hints
    assert summarise(plan, outcomes).modules[0].hints_taken == "1 by 1"  # a team is one
    assert summarise(plan, outcomes[2:]).modules[0].hints_taken == ""


def test_what_handin_packs_is_counted(plan: Assignment, course: Course, tmp_path: Path) -> None:
    folder = hand_in(tmp_path / "ada")
    hints_taken.add(folder, "one", 1)
    hints_taken.add(folder, "one", 2)
    with zipfile.ZipFile(tmp_path / "ada.zip", "w") as packed:
        for path in folder.iterdir():
            packed.write(path, path.name)
    assert told(plan, tmp_path / "ada.zip", course) == {"one": 2}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[1]",
        b"[" * 4000,
        b'{"one": 4, "two": 0}',
        b'{"one": true, "two": 1.0}',
        b'{"one": "2", "two": -1, "<b>": 1}',
        b'{"one": 2}' + b" " * hints_taken.MOST_BYTES,
    ],
)
def test_what_is_no_count_is_as_if_none_was_taken(
    plan: Assignment, course: Course, tmp_path: Path, data: bytes
) -> None:
    folder = hand_in(tmp_path / "ada")
    (folder / hints_taken.NAME).write_bytes(data)
    assert told(plan, folder, course) == {}


def test_a_link_is_not_followed(plan: Assignment, course: Course, tmp_path: Path) -> None:
    folder = hand_in(tmp_path / "ada")
    (tmp_path / "other.json").write_text('{"one": 2}')
    (folder / hints_taken.NAME).symlink_to(tmp_path / "other.json")
    assert told(plan, folder, course) == {}


def test_another_hint_makes_no_other_work(tmp_path: Path) -> None:
    one, other = hand_in(tmp_path / "a", {"one": 1}), hand_in(tmp_path / "b", {"one": 2})
    assert submitted_tree.work(one) == submitted_tree.work(other)


def test_a_file_that_is_none_of_ours_is_kept(tmp_path: Path) -> None:
    (tmp_path / hints_taken.NAME).write_text("my notes")
    hints_taken.add(tmp_path, "one", 1)
    hints_taken.add(tmp_path, "two", 3)
    assert hints_taken.read(tmp_path) == {"one": 1, "two": 3}
    kept = [path for path in tmp_path.iterdir() if path.name != hints_taken.NAME]
    assert [path.read_text() for path in kept] == ["my notes"]
