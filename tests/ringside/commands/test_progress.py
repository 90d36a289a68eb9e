"""`ringside progress`: what a student has done so far, from what the commands leave."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ringside.checking import saved_progress
from ringside.commands import cli

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def course(tmp_path: Path) -> Path:
    for name in ("a01_first_ranks", "a03_allreduce"):
        place = tmp_path / "assignments" / name
        shutil.copytree(
            ROOT / "assignments" / name, place, ignore=shutil.ignore_patterns(".ringside")
        )
    (tmp_path / "lectures").mkdir()
    return tmp_path


def test_progress_shows_the_best_check_what_is_left_and_the_hand_in(
    course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = course / "assignments" / "a03_allreduce"
    solved = (ROOT / "solutions" / "a03_allreduce" / "cost.py").read_text()
    (folder / "cost.py").write_text(solved)
    assert cli.main(["check", "cost", "--folder", str(folder)]) == 0
    (folder / "cost.py").write_text(f"{solved}\n\nring_s = star_s\n")
    cli.main(["check", "cost", "--folder", str(folder)])
    (folder / "tree.py").write_text("written = 1\n")
    saved_progress.add_hand_in(folder, "zip")
    capsys.readouterr()
    assert cli.main(["progress", str(folder)]) == 0
    said = capsys.readouterr().out
    points = saved_progress.read(folder).modules["cost"]
    assert points.best == points.points > points.earned
    assert "a01_first_ranks: not begun" in said
    assert "a03_allreduce: 1 of 8 modules have all public points, packed to hand in on 20" in said
    best, last = f"{points.best:g} of {points.points:g}", f"{points.earned:g} at the last check"
    assert f"  cost  {best}; {last}\n  tree  written, not checked yet\n" in said
    assert "  not begun: star, sharded_server, ring," in said
    assert "predictions: No prediction has met its result yet." in said
    assert cli.main(["progress", str(course), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["assignments"]
    assert rows[1]["modules"]["cost"]["best"] == points.best
    assert rows[0]["handed_in"] is None


def test_a_damaged_or_unwritable_record_stops_nothing(
    course: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = course / "assignments" / "a03_allreduce"
    (folder / ".ringside").mkdir()
    (folder / saved_progress.FILE).write_text('{"modules": [')
    assert saved_progress.read(folder) == saved_progress.Standing()
    saved_progress.add_points(folder, {"ring": (3.0, 5.0)})
    assert saved_progress.read(folder).modules["ring"].best == 3
    shutil.rmtree(folder / ".ringside")
    (folder / ".ringside").write_text("a file where the folder should be\n")
    saved_progress.add_points(folder, {"ring": (3.0, 5.0)})
    assert cli.main(["progress", str(folder)]) == 0
    (tmp_path / "elsewhere").mkdir()
    shutil.rmtree(course / "assignments")
    assert cli.main(["progress", str(tmp_path / "elsewhere")]) == 2
    assert "lies in no course's tree" in capsys.readouterr().err
