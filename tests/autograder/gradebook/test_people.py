"""Teams, excused students, requests and decisions, through a real gradebook."""

from __future__ import annotations

import csv
import datetime
import os
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbgrader.apps.api import NbGraderAPI

from autograder.commands import cli
from autograder.course import assignment as plans
from autograder.course import database, decisions, nbgrader_steps, receipt
from autograder.course.course import Course
from autograder.grade import class_grading
from autograder.gradebook.nbgrader import csv_export
from autograder.sandbox.sandbox import Tier
from tests.autograder.conftest import NAME, solved

Notebook = Callable[..., nbformat.NotebookNode]
HandIn = Callable[..., Path]
DUE = datetime.datetime(2030, 1, 1, 12, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)

# nbgrader adds submissions in an order that SQLAlchemy warns about.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")


@pytest.fixture(autouse=True)
def any_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_grading, "best_tier", lambda **_: Tier.NONE)


def run(*words: str, status: int = 0) -> None:
    assert cli.main(list(words)) == status


def table(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="") as stream:
        return {row["student"]: row for row in csv.DictReader(stream)}


def scores(course: Course) -> dict[str, tuple[float, float]]:
    """Student -> (score before lateness, what lateness takes)."""
    with database.open_gradebook(course) as book:
        return {
            row["student"]: (row["raw_score"], row["late_penalty"])
            for row in csv_export.rows(book, [NAME], [])
        }


def page(course: Course, student: str) -> str:
    return (course.feedback(student, NAME) / f"{NAME}.html").read_text()


def test_a_team_goes_through_nbgrader_with_one_submission(
    registered: Course, notebook: Notebook, hand_in: HandIn, tmp_path: Path
) -> None:
    hand_in("ada", notebook(one=solved("one")), submission_secret__txt="ada's")
    hand_in("bob", notebook(), submission_secret__txt="bob's")
    hand_in("cy", notebook(two=solved("two")))
    receipt.record(registered, NAME, "bob", DUE - DAY)
    receipt.record(registered, NAME, "ada", DUE + 4 * DAY)
    registered.extensions.write_text(f"student,assignment,days\ndan,{NAME},1\n")
    path = registered.teams(NAME)
    path.parent.mkdir()
    path.write_text("team,student\nred,ada\nred,bob\nred,dan\n")
    with database.open_gradebook(registered) as book:  # dan has handed in nothing yet
        book.add_student("dan")
        book.db.commit()

    nbgrader_steps.autograde(registered, NAME)
    # 4 days after the due date, and dan has one of them: 3 days, 2 of grace each, 1 charged
    assert scores(registered) == {
        "ada": (30.0, 3.0), "bob": (30.0, 3.0), "cy": (60.0, 0.0), "dan": (30.0, 3.0),
    }  # fmt: skip
    assert (registered.submitted("bob", NAME) / "submission_secret.txt").read_text() == "bob's"
    replaced = registered.build / "replaced" / "bob" / f"{NAME}-1" / f"{NAME}.ipynb"
    assert "one is solved" not in replaced.read_text()
    nbgrader_steps.generate_feedback(registered, NAME)
    for student in ("ada", "bob", "dan"):
        assert f'<p class="soft">{student} &middot; team red' in page(registered, student)
        assert "1 day charged: 10 % of the score" in page(registered, student)
    assert "team" not in page(registered, "cy").split("</header>")[0].split("<header>")[1]

    run("export", NAME, "--to", "nbgrader", "--out", str(tmp_path / "book.csv"))
    run("export", NAME, "--to", "csv", "--out", str(tmp_path / "out.csv"))
    run("export", NAME, "--to", "gradescope", "--out", str(tmp_path / "gradescope"))
    for name in ("book.csv", "out.csv"):
        rows = table(tmp_path / name)
        assert {rows[each]["score"] for each in ("ada", "bob", "dan")} == {"27.0"}, name
    assert sorted(each.name for each in (tmp_path / "gradescope").iterdir()) == [
        "ada", "bob", "cy", "dan",
    ]  # fmt: skip

    # Bob hands in for all of them, in time: that is the newest now, and nobody is charged more.
    hand_in("bob", notebook(one=solved("one"), two=solved("two")))
    receipt.record(registered, NAME, "bob", DUE + 4 * DAY + datetime.timedelta(hours=1))
    nbgrader_steps.autograde(registered, NAME, "ada")
    assert scores(registered)["ada"][0] == 90.0
    assert scores(registered)["dan"][0] == 30.0  # nobody asked for dan's yet
    run("regrade", NAME, "dan", "--yes")
    assert {scores(registered)[each] for each in ("ada", "bob", "dan")} == {(90.0, 18.0)}


def test_an_excused_student_has_no_score_and_spends_no_day(
    registered: Course, notebook: Notebook, hand_in: HandIn, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for student in ("ada", "bob"):
        hand_in(student, notebook(one=solved("one")))
        receipt.record(registered, NAME, student, DUE + 4 * DAY)
    with database.open_gradebook(registered) as book:
        book.add_student("cy")
        book.db.commit()
    registered.excused.write_text(f"student,assignment,note\nada,{NAME},ill\ncy,{NAME},\n")
    nbgrader_steps.autograde(registered, NAME)
    assert scores(registered)["ada"] == (30.0, 0.0) and scores(registered)["bob"] == (30.0, 6.0)
    nbgrader_steps.generate_feedback(registered, NAME)
    assert "You are excused from this assignment." in page(registered, "ada")
    assert "ill" not in page(registered, "ada").split("<body>")[1].split("<section>")[0]

    run("export", NAME, "--to", "nbgrader", "--out", str(tmp_path / "book.csv"))
    book_rows = table(tmp_path / "book.csv")
    for student in ("ada", "cy"):
        row = book_rows[student]
        assert (row["score"], row["max_score"], row["excused"]) == ("", "", "yes")
    assert book_rows["bob"]["max_score"] == "100.0"
    run("export", NAME, "--to", "csv", "--out", str(tmp_path / "out.csv"))
    assert "Excused, without a score: ada, cy." in capsys.readouterr().out
    rows = table(tmp_path / "out.csv")
    assert {(rows[s]["status"], rows[s]["score"], rows[s]["max_score"]) for s in ("ada", "cy")} == {
        ("excused", "", "")
    }
    roster = tmp_path / "canvas.csv"
    roster.write_text(
        "Student,ID,SIS Login ID,Section,A toy (7)\n    Points Possible,,,,100\n"
        "Ada,1,ada,x,\nBob,2,bob,x,\nCy,3,cy,x,\nDan,4,dan,x,\n"
    )
    out = tmp_path / "to_canvas.csv"
    run("export", NAME, "--to", "canvas", "--roster", str(roster), "--out", str(out))
    with out.open(newline="") as stream:
        assert [row[-1] for row in csv.reader(stream)][1:] == ["100.0", "EX", "24.0", "EX", ""]
    run("report", NAME, "--html", str(tmp_path / "report.html"))
    assert "Excused: 2. ada, cy" in capsys.readouterr().out
    html = (tmp_path / "report.html").read_text()
    assert "2 are excused, and not in the scores" in html and "1 graded, of" in html


def test_a_request_is_listed_until_it_is_decided_and_the_decision_outlives_a_regrade(
    registered: Course, notebook: Notebook, hand_in: HandIn, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    course, late_by = registered, DUE + 3 * DAY
    text = "ring is right: <script>alert(1)</script> the bound allows it"
    hand_in("ada", notebook(one="%%module one.py\n'half'"), regrade__txt=text)
    hand_in("bob", notebook(one=solved("one"), words="I saw that it is faster."))
    folder = course.requests(NAME)
    folder.mkdir(parents=True)
    (folder / "bob.txt").write_text("And my text?")
    (folder / "bobb.txt").write_text("?")
    os.mkfifo(folder / "cy.txt")
    receipt.record(course, NAME, "ada", late_by)
    nbgrader_steps.autograde(course, NAME)
    nbgrader_steps.generate_feedback(course, NAME)
    assert scores(course)["ada"] == (9.0, 0.9)

    html = tmp_path / "report.html"
    run("report", NAME, "--html", str(html))
    told = capsys.readouterr()
    words = " ".join(told.out.split())
    assert "ada asks: ring is right: <script>alert(1)</script> the bound" in words
    assert f"autograder decide {NAME} ada MODULE --points N --why TEXT" in words
    assert "bob asks: And my text?" in words and "In your words: 1 text waits, 1 graded" in words
    assert f"{folder / 'bobb.txt'} asks for a regrade, and no student here is called so." in (
        told.err
    )
    shown = html.read_text()
    assert "&lt;script&gt;alert(1)" in shown and "<script" not in shown
    assert "I saw that it is faster." in shown

    run("decide", NAME, "ada", "one", "--points", "20", "--why", "The bound\nallows it, as bob's.",
        "--by", "prof")  # fmt: skip
    said = capsys.readouterr()
    assert "1 feedback page made anew" in said.out and "The reason names bob" in said.err
    (line,) = decisions.read(course, plans.load(NAME, course))
    assert (line.student, line.points, line.by, line.why) == (
        "ada", 20.0, "prof", "The bound allows it, as bob's.",
    )  # fmt: skip
    assert line.request == decisions.request_id(text)
    assert course.decisions(NAME).stat().st_mode & 0o777 == 0o600
    assert scores(course)["ada"] == (20.0, 2.0)  # a day charged, of the new score
    assert ": one: 20 points. The bound allows it, as bob&#39;s.</li>" in page(course, "ada")
    assert "prof" not in page(course, "ada")
    with database.open_gradebook(course) as book:
        assert not book.find_grade("check_one", NAME, NAME, "ada").needs_manual_grade

    # nbgrader keeps it over a new grading, and so does a gradebook that is made anew.
    hand_in("ada", notebook(one="%%module one.py\n'half' and more"), regrade__txt=text)
    nbgrader_steps.autograde(course, NAME)
    assert scores(course)["ada"] == (20.0, 2.0)
    with database.open_gradebook(course) as book:
        book.find_grade("check_one", NAME, NAME, "ada").manual_score = None
        book.db.commit()
    nbgrader_steps.autograde(course, NAME)
    assert scores(course)["ada"] == (20.0, 2.0)
    run("report", NAME, "--html", str(html))
    assert "ada asks" not in capsys.readouterr().out
    assert "allows it, as bob&#39;s. (prof)" in html.read_text()
    run("export", NAME, "--to", "csv", "--partial", "--out", str(tmp_path / "out.csv"))
    row = table(tmp_path / "out.csv")["ada"]
    assert row["score"] == "18.0" and "The bound allows it" in row["comment"]

    run("decide", NAME, "ada", "one", "--why", "It was another bound.")
    assert scores(course)["ada"] == (9.0, 0.9)
    run("decide", NAME, "ada", "more", "--points", "7", "--why", "Half of it is right.")
    assert scores(course)["ada"] == (16.0, 1.6)
    nbgrader_steps.autograde(course, NAME)
    assert scores(course)["ada"] == (16.0, 1.6)
    run("decide", NAME, "bob", "words", "--points", "4", "--why", "Short.")
    run("report", NAME)
    assert "Nothing waits for a person." in capsys.readouterr().out
    assert scores(course)["bob"] == (34.0, 0.0)


def test_a_decision_that_cannot_be_is_refused_and_nothing_is_kept(
    registered: Course, notebook: Notebook, hand_in: HandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    hand_in("ada", notebook())
    for words, said in (
        (["adda", "one", "--points", "3", "--why", "x"], "No student is named 'adda'; did you"),
        (["ada", "on", "--points", "3", "--why", "x"], f"{NAME} has no 'on'; did you mean 'one'?"),
        (["ada", "one", "--points", "31", "--why", "x"], "one is of 0 to 30 points, not of 31."),
        (["ada", "one", "--points", "nan", "--why", "x"], "one is of 0 to 30 points, not of nan."),
        (["ada", "--points", "3", "--why", "x"], "3 points of which part? one, two, more"),
        (["ada", "one", "--why", "x"], "No points were decided for ada's one"),
        (["ada", "--why", " "], "--why says why in 1 to 2000 characters; it has 0."),
    ):
        run("decide", NAME, *words, status=2)
        assert said in capsys.readouterr().err
    assert not registered.decisions(NAME).exists()
    path = registered.decisions(NAME)
    path.parent.mkdir()
    first = "student,part,points,by,when,why,request\n"
    for line, said in (
        ("ada,one,x,p,2030-01-01T00:00:00Z,y,", "line 2: 'x' is no number of points."),
        ("ada,one,3,p,soon,y,", "line 2: 'soon' is no moment"),
        ("ada,one,3,p,2030-01-01T00:00:00Z,,", "line 2: the reason is missing."),
    ):
        path.write_text(first + line + "\n")
        run("decide", NAME, "ada", "--why", "x", status=2)
        assert said in capsys.readouterr().err


def test_a_damaged_notebook_is_closed_with_a_mark_and_the_class_goes_out(
    registered: Course, notebook: Notebook, hand_in: HandIn, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    course, out = registered, tmp_path / "out.csv"
    hand_in("ada", b"{ damaged")
    hand_in("bob", notebook(one=solved("one")))
    receipt.record(course, NAME, "ada", DUE + 3 * DAY)  # a day is charged
    with database.open_gradebook(course) as book:  # of cy nothing could be collected
        book.add_student("cy")
        book.db.commit()
    nbgrader_steps.autograde(course, NAME)
    run("export", NAME, "--to", "csv", "--out", str(out), status=2)
    told = capsys.readouterr().err
    assert "1 grade is unfinished" in told and "ada: rejected: The notebook is not valid" in told
    assert "`autograder decide ASSIGNMENT STUDENT all --points N --why TEXT`" in told

    run("decide", NAME, "ada", "all", "--points", "50", "--why", "Read by eye.")
    assert "ada: 45 of 100 points, of 50 before lateness." in capsys.readouterr().out
    run("decide", NAME, "cy", "all", "--points", "0", "--why", "Nothing can be read.")
    run("export", NAME, "--to", "csv", "--out", str(out))
    rows = table(out)
    assert {who: rows[who]["score"] for who in rows} == {"ada": "45.0", "bob": "30.0", "cy": "0.0"}
    nbgrader_steps.generate_feedback(course, NAME, "ada")
    assert "the whole assignment: 50 points. Read by eye." in page(course, "ada")

    # Another line on a part is newer, and a notebook that can be read has its own points again.
    run("decide", NAME, "ada", "two", "--points", "40", "--why", "Two is right.")
    assert scores(course)["ada"] == (60.0, 6.0)  # 15 of 30, 40 of 60, 2.5 of 5, 2.5 of 5
    hand_in("ada", notebook(one=solved("one")))
    for part in ("all", "two"):
        run("decide", NAME, "ada", part, "--why", "Handed in again.")
    nbgrader_steps.autograde(course, NAME)
    assert scores(course)["ada"] == (30.0, 3.0)
    run("decide", NAME, "ada", "all", "--points", "101", "--why", "x", status=2)
    assert "all is of 0 to 100 points, not of 101." in capsys.readouterr().err


def test_decisions_count_without_a_gradebook(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for student in ("ada", "bob"):
        (tmp_path / "class" / student).mkdir(parents=True)
        (tmp_path / "class" / student / "one.py").write_text("half")
    course.teams(NAME).parent.mkdir(parents=True)
    course.teams(NAME).write_text("team,student\nred,ada\nred,bob\n")
    run("decide", NAME, "ada", "one", "--points", "12.5", "--why", "Better than half.")
    assert "In no gradebook yet: ada, bob." in capsys.readouterr().err
    words = ["--csv", str(tmp_path / "out.csv"), "--feedback", str(tmp_path / "pages")]
    run("grade", NAME, str(tmp_path / "class"), *words)
    rows = table(tmp_path / "out.csv")
    assert {rows[each]["score"] for each in ("ada", "bob")} == {"12.5"}
    assert "one: 12.5 points. Better than half." in (tmp_path / "pages" / "bob.html").read_text()


def test_an_accommodation_is_told_to_nbgrader_and_to_nobody_else(
    registered: Course, notebook: Notebook, hand_in: HandIn, tmp_path: Path
) -> None:
    for student in ("ada", "bob"):
        hand_in(student, notebook(one=solved("one")))
        receipt.record(registered, NAME, student, DUE + 2 * DAY)
    registered.settings.write_text(f"[released]\n{NAME} = 2029-12-22T12:00:00Z\n")
    registered.accommodations.write_text("student,factor,note\nada,1.37,a private reason\n")
    registered.accommodations.chmod(0o600)
    nbgrader_steps.autograde(registered, NAME)
    nbgrader_steps.generate_feedback(registered, NAME)
    with database.open_gradebook(registered) as book:
        assert book.find_submission(NAME, "ada").extension == 3.7 * DAY
        assert book.find_submission(NAME, "ada").total_seconds_late == 0
        assert book.find_submission(NAME, "bob").extension is None
    assert "late, by the server" not in page(registered, "ada")
    assert "late, by the server" in page(registered, "bob")
    run("export", NAME, "--to", "csv", "--out", str(tmp_path / "out.csv"))
    run("export", NAME, "--to", "nbgrader", "--out", str(tmp_path / "book.csv"))
    run("report", NAME, "--html", str(tmp_path / "report.html"), "--csv", str(tmp_path / "r.csv"))
    made = [*tmp_path.glob("*.csv"), *tmp_path.glob("*.html"), *registered.build.rglob("*.html")]
    assert len(made) == 6
    for path in made:
        for secret in ("1.37", "private reason", "accommodat"):
            assert secret not in path.read_text(), path
    registered.accommodations.unlink()
    nbgrader_steps.autograde(registered, NAME)
    with database.open_gradebook(registered) as book:  # what came from the list is taken back
        assert book.find_submission(NAME, "ada").extension is None


def test_a_text_is_graded_once_for_the_whole_team(
    registered: Course, notebook: Notebook, hand_in: HandIn, tmp_path: Path
) -> None:
    hand_in("ada", notebook(one=solved("one"), words="We saw that it is faster."))
    hand_in("cy", notebook(words="I saw that it is faster."))
    receipt.record(registered, NAME, "ada", DUE + 3 * DAY)
    registered.teams(NAME).parent.mkdir()
    registered.teams(NAME).write_text("team,student\nred,ada\nred,bob\nred,dan\n")
    nbgrader_steps.autograde(registered, NAME)
    run("export", NAME, "--to", "csv", "--out", str(tmp_path / "out.csv"), status=2)
    with database.open_gradebook(registered) as book:
        for student, points in (("bob", 4.0), ("dan", 1.0)):
            grade = book.find_grade("words", NAME, NAME, student)
            grade.manual_score, grade.needs_manual_grade = points, False
        book.db.commit()
    run("export", NAME, "--to", "csv", "--partial", "--out", str(tmp_path / "out.csv"))
    assert table(tmp_path / "out.csv")["ada"]["missing"]  # which of the two?
    with database.open_gradebook(registered) as book:
        grade = book.find_grade("words", NAME, NAME, "dan")
        grade.manual_score, grade.needs_manual_grade = None, True
        book.find_comment("words", NAME, NAME, "bob").manual_comment = "Say by how much."
        book.db.commit()
    nbgrader_steps.generate_feedback(registered, NAME)
    for student in ("ada", "bob", "dan"):
        assert "<strong>4</strong> of 5 points" in page(registered, student)
        assert "Say by how much." in page(registered, student)
        assert scores(registered)[student][0] == 34.0
    assert scores(registered)["ada"] == (34.0, 3.4)
    with database.open_gradebook(registered) as book:
        assert book.find_submission(NAME, "cy").needs_manual_grade


def test_nbgraders_own_view_has_every_member(
    registered: Course, notebook: Notebook, hand_in: HandIn
) -> None:
    hand_in("ada", notebook(one=solved("one")))
    receipt.record(registered, NAME, "ada", DUE)
    registered.teams(NAME).parent.mkdir()
    registered.teams(NAME).write_text("team,student\nred,ada\nred,bob\n")
    nbgrader_steps.autograde(registered, NAME)
    api: NbGraderAPI = nbgrader_steps.api(registered)
    assert {each["student"]: each["score"] for each in api.get_submissions(NAME)} == {
        "ada": 30.0, "bob": 30.0,
    }  # fmt: skip
