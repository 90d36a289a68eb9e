"""One total everywhere: the handout, the gradebook, pages, tables, reports and every export."""

from __future__ import annotations

import csv
import json
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.commands import cli
from autograder.course import database, nbgrader_steps
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade import class_grading
from autograder.gradebook.nbgrader import csv_export
from autograder.publish import build
from autograder.sandbox.sandbox import Tier
from ringside.checking.notebook import module_sha256
from ringside.course.handin import notebook_points
from tests.autograder.conftest import MODULE, NAME, solved

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
Notebook = Callable[..., nbformat.NotebookNode]
HandIn = Callable[..., Path]

TOTAL = 100  # modules 90, the run 5, the text 5
EARNED = 30 + 41 + 20 + 5 + 4  # one; two, corrected by hand; more, which is extra; run; text
COMMENT = "Say why it is slow."
TEXT = "It was slower than predicted."
ROSTER = """Student,ID,SIS User ID,SIS Login ID,Section,Old toy (7),A toy, again (12)
    Points Possible,,,,,10,90
"Adeyemi, Ada",1023,u77,ada,1,8,
"Cole, Cleo",1024,u78,cleo,1,8,
"""


def run_json(source: str) -> str:
    row = {"n": 9, "times_s": [1e-4], "median_s": 1e-4, "checksum": "ab", "values": "right"}
    return json.dumps({
        "format": "ringside-run", "version": 1, "module_sha256": module_sha256(source.encode()),
        "world_size": 4, "hosts": ["a", "a", "b", "b"], "measurements": [row],
    })  # fmt: skip


@pytest.fixture
def ada(
    registered: Course, notebook: Notebook, hand_in: HandIn, monkeypatch: pytest.MonkeyPatch
) -> Course:
    """A course where ada is graded, her text read and one of her modules corrected by hand."""
    monkeypatch.setattr(class_grading, "best_tier", lambda **_: Tier.NONE)
    cells = {"one": solved("one"), "two": "%%module two.py\n'half'", "more": solved("more")}
    hand_in("ada", notebook(**cells, words=TEXT), run__json=run_json(MODULE.format(name="one")))
    nbgrader_steps.autograde(registered, NAME)
    with database.open_gradebook(registered) as book:
        for cell, points in (("words", 4.0), ("check_two", 41.0)):
            grade = book.find_grade(cell, NAME, NAME, "ada")
            grade.manual_score, grade.needs_manual_grade = points, False
        book.find_comment("words", NAME, NAME, "ada").manual_comment = COMMENT
        book.db.commit()
    return registered


@pytest.fixture
def two_unfinished(ada: Course, notebook: Notebook, hand_in: HandIn) -> Course:
    """With ada are bela, whose text nobody has read, and eve, whose notebook is broken."""
    hand_in("bela", notebook(one=solved("one"), words=TEXT))
    hand_in("eve", b'{"cells": [')
    hand_in("cleo", notebook(one=solved("one")))  # wrote no text: there is nothing to read
    for student in ("bela", "eve", "cleo"):
        nbgrader_steps.autograde(ada, NAME, student)
    return ada


def export(to: str, out: Path, *words: str, paths: Sequence[Path] = ()) -> int:
    return cli.main(["export", NAME, *map(str, paths), "--to", to, "--out", str(out), *words])


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_every_output_of_the_gradebook_has_the_same_score_of_the_same_total(
    ada: Course, plan: Assignment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found: dict[str, tuple[float, float]] = {}
    with database.open_gradebook(ada) as book:
        (row,) = csv_export.rows(book, [NAME], [])
    found["gradebook"] = (row["score"], row["max_score"])  # type: ignore[assignment]

    nbgrader_steps.generate_feedback(ada, NAME)
    page = (ada.feedback("ada", NAME) / f"{NAME}.html").read_text()
    score, most = re.search(r"<strong>([\d.]+)</strong> <span .*?>of (\d+) points", page).groups()  # type: ignore[union-attr]
    found["page"] = (float(score), float(most))
    parts = re.findall(r'<td class="number">([\d.]+) of \+?([\d.]+)', page)
    assert sum(float(points) for points, _ in parts) == EARNED  # what stands above adds up
    assert "modules 71 of 90; extra 20 of up to 20; run 5 of 5; text 4 of 5." in page

    html = tmp_path / "report.html"
    assert cli.main(["report", NAME, "--html", str(html)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    said = re.search(r"median ([\d.]+), .* of (\d+) points", printed)
    assert said
    found["report"] = (float(said[1]), float(said[2]))
    text = html.read_text()
    said = re.search(r'score">([\d.]+) <span class="soft small">of (\d+)</span>', text)
    assert said
    found["report page"] = (float(said[1]), float(said[2]))

    for to in ("csv", "nbgrader", "canvas", "moodle", "gradescope"):
        assert export(to, tmp_path / to) == 0
    for to in ("csv", "nbgrader"):
        (each,) = table(tmp_path / to)
        found[to] = (float(each["score"]), float(each["max_score"]))
    possible, each = table(tmp_path / "canvas")
    found["canvas"] = (float(each["A toy"]), float(possible["A toy"]))
    (each,) = table(tmp_path / "moodle")
    found["moodle"] = (float(each["A toy"]), TOTAL)  # its maximum is Moodle's own setting
    results = json.loads((tmp_path / "gradescope" / "ada" / "results.json").read_text())
    found["gradescope"] = (results["score"], results["extra_data"]["max_score"])
    tests = results["tests"]
    assert sum(test["score"] for test in tests) == pytest.approx(EARNED)
    assert sum(test["max_score"] for test in tests) == pytest.approx(TOTAL)

    assert plan.max_score == TOTAL
    found["handout"] = (EARNED, float(build.plan_table(plan).rsplit("**", 2)[1]))
    release = [ada.release(NAME) / plan.notebook]
    found["handin"] = (EARNED, notebook_points.of_notebooks(release).total)
    assert found == dict.fromkeys(found, (EARNED, TOTAL))


def test_points_and_comments_by_hand_are_in_every_format(ada: Course, tmp_path: Path) -> None:
    for to in ("csv", "nbgrader", "canvas", "moodle", "gradescope"):
        assert export(to, tmp_path / to) == 0
    (row,) = table(tmp_path / "csv")
    assert row["by_hand"] == "two: 41 of 60, by hand; words: 4 of 5"
    assert f"words: 4 of 5. {COMMENT}" in row["comment"]
    assert "one_cluster: 5 of 5" in row["comment"]
    (row,) = table(tmp_path / "nbgrader")
    assert row["by_hand"] == "two: 41 of 60, by hand; words: 4 of 5"
    assert (row["comments"], row["missing"]) == (f"words: {COMMENT}", "")
    (row,) = table(tmp_path / "moodle")
    assert "two: 41 of 60, by hand. says" in row["Feedback"] and COMMENT in row["Feedback"]
    (row,) = table(tmp_path / "canvas.comments.csv")  # Canvas' import has no place for them
    assert (row["SIS Login ID"], row["comment"]) == ("ada", f"words: {COMMENT}")
    told = json.loads((tmp_path / "gradescope" / "ada" / "results.json").read_text())
    by_name = {test["name"]: test for test in told["tests"]}
    text = by_name["text: In your words"]
    assert (text["score"], text["max_score"], text["output"]) == (4.0, 5.0, COMMENT)
    assert by_name["two: by hand, beside the tests"]["score"] == 41 - 18
    assert COMMENT in told["output"]


def test_an_export_refuses_unfinished_grades_and_says_of_each_what_is_missing(
    two_unfinished: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for to in ("csv", "canvas", "moodle", "gradescope", "nbgrader"):
        assert export(to, tmp_path / to) == 2
        told = capsys.readouterr().err
        assert "2 grades are unfinished, so nothing is written:" in told
        assert "\n  bela: 1 text to grade by hand (words)\n" in told
        assert "\n  eve: rejected: The notebook is not valid JSON" in told
        assert "ada" not in told and "cleo" not in told and "--partial" in told
        assert not (tmp_path / to).exists()

        assert export(to, tmp_path / to, "--partial") == 0
        told = capsys.readouterr().err
        assert "2 grades are unfinished and left blank:\n  bela: 1 text to grade by hand" in told
    for to, student, score in (
        ("csv", "student", "score"),
        ("nbgrader", "student", "score"),
        ("canvas", "SIS Login ID", "A toy"),
        ("moodle", "Username", "A toy"),
    ):
        scores = {row[student]: row[score] for row in table(tmp_path / to)}
        assert (scores["ada"], scores["cleo"]) == (f"{float(EARNED)}", "30.0")
        assert {scores.get("bela", ""), scores.get("eve", "")} == {""}
    files = sorted((tmp_path / "gradescope").glob("*/results.json"))
    assert [path.parent.name for path in files] == ["ada", "cleo"]
    for to in ("csv", "nbgrader"):
        missing = {row["student"]: row["missing"] for row in table(tmp_path / to)}
        assert missing["bela"] == "1 text to grade by hand (words)" and not missing["ada"]


def test_a_rejected_submission_counts_once_a_person_has_given_all_its_points(
    two_unfinished: Course, tmp_path: Path
) -> None:
    with database.open_gradebook(two_unfinished) as book:
        for cell in ("check_one", "check_two", "one_cluster"):
            book.find_grade(cell, NAME, NAME, "eve").manual_score = 2.0
            book.find_grade(cell, NAME, NAME, "eve").needs_manual_grade = False
        grade = book.find_grade("words", NAME, NAME, "bela")
        grade.manual_score, grade.needs_manual_grade = 0.0, False
        book.db.commit()
    assert export("csv", tmp_path / "out.csv") == 0
    scores = {row["student"]: row["score"] for row in table(tmp_path / "out.csv")}
    assert scores["eve"] == "6.0" and scores["bela"] == "30.0"


def test_canvas_makes_no_new_assignment_before_its_nearest_columns_were_named(
    ada: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people, out = tmp_path / "canvas.csv", tmp_path / "out.csv"
    people.write_text(ROSTER.replace("A toy, again", '"A toy, again').replace("(12)", '(12)"'))
    words = ["--roster", str(people)]
    assert export("canvas", out, *words) == 2
    told = capsys.readouterr().err
    assert "has no column 'A toy', and Canvas would make a new assignment of it" in told
    assert "Nearest to it: " in told and "Old toy (7)" in told and "--new-column" in told
    assert not out.exists()
    assert export("canvas", out, *words, "--column", "Toys") == 2
    assert "no column 'Toys'" in capsys.readouterr().err
    assert export("canvas", out, *words, "--column", "A toy, again") == 0
    assert "A toy, again (12) is of 90 points in Canvas" in capsys.readouterr().err
    assert table(out)[1]["A toy, again (12)"] == f"{float(EARNED)}"
    assert export("canvas", out, *words, "--new-column") == 0
    assert table(out)[1]["A toy"] == f"{float(EARNED)}"
    assert export("csv", out, "--new-column") == 2


@pytest.mark.parametrize("way", ["folder", "zip"])
def test_outside_nbgrader_the_run_counts_and_the_text_is_shown_to_who_grades_it(
    course: Course,
    notebook: Notebook,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    way: str,
) -> None:
    monkeypatch.setattr(class_grading, "best_tier", lambda **_: Tier.NONE)
    folder = tmp_path / "ada"
    folder.mkdir()
    filled = notebook(one=solved("one"), words=TEXT)
    (folder / f"{NAME}.ipynb").write_text(json.dumps(filled))
    (folder / "run.json").write_text(run_json(MODULE.format(name="one")))
    handed_in = folder
    if way == "zip":
        handed_in = tmp_path / "ada.zip"
        with zipfile.ZipFile(handed_in, "w") as packed:
            for path in folder.iterdir():
                packed.write(path, path.name)
    pages, csv_ = tmp_path / "pages", tmp_path / "out.csv"
    words = ["grade", NAME, str(handed_in), "--feedback", str(pages)]
    assert cli.main([*words, "--csv", str(csv_), "--json", str(tmp_path / "out.json")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "texts, 5 of the 100 points, are graded by hand" in shown

    (submission,) = json.loads((tmp_path / "out.json").read_text())["submissions"]
    assert (submission["score"], submission["max_score"]) == (35.0, 100.0)
    assert submission["runs"]["one_cluster"]["score"] == 5.0
    assert submission["texts"] == {"words": {"score": None, "max_score": 5.0}}
    assert submission["to_grade_by_hand"] == 5.0
    (row,) = table(csv_)
    assert (row["score"], row["max_score"], row["to_grade_by_hand"]) == ("35.0", "100.0", "5.0")
    assert (row["one_cluster"], row["words"]) == ("5.0", "")
    page = (pages / "ada.html").read_text()
    assert '<strong>35</strong> <span class="soft">of 100 points' in page
    assert "so far: 5 are still to be graded by hand" in page
    assert "text: to be graded by hand, 5." in page and TEXT in page
    assert "It is of the one.py that was handed in." in page

    marks = tmp_path / "marks.csv"
    assert export("csv", marks, paths=[handed_in]) == 0
    said = "Scores are of 95 points: 1 text of 5 points in the assignment's 100 is graded by hand"
    assert said in capsys.readouterr().out
    (row,) = table(marks)
    assert (row["score"], row["max_score"]) == ("35.0", "95.0")


def test_a_run_beside_notebooks_of_several_students_is_nobodys(
    course: Course, notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_grading, "best_tier", lambda **_: Tier.NONE)
    folder = tmp_path / "class"
    folder.mkdir()
    for student in ("ada", "bela"):
        text = json.dumps(notebook(one=solved("one")))
        (folder / f"{student}.ipynb").write_text(text)
    (folder / "run.json").write_text(run_json(MODULE.format(name="one")))
    out = tmp_path / "out.json"
    assert cli.main(["grade", NAME, str(folder), "--json", str(out)]) == 0
    found: list[dict[str, Any]] = json.loads(out.read_text())["submissions"]
    assert [each["score"] for each in found] == [30.0, 30.0]
    assert "There is no run.json" in str(found[0]["runs"])
