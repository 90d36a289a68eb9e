"""nbgrader's own autograde, feedback and export over submissions of every kind."""

from __future__ import annotations

import csv
import datetime
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from autograder.collect import preparation
from autograder.collect.rebuild import Rebuilt
from autograder.course import database, nbgrader_steps, receipt
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade import pipeline
from autograder.gradebook.nbgrader import csv_export
from autograder.sandbox.sandbox import SandboxUnavailable
from tests.autograder.conftest import NAME, solved

Notebook = Callable[..., nbformat.NotebookNode]

# nbgrader adds submissions in an order that SQLAlchemy warns about.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")


def scores(course: Course) -> dict[str, tuple[float, float]]:
    """Student -> (score before penalty, penalty)."""
    with database.open_gradebook(course) as book:
        return {
            row["student"]: (row["raw_score"], row["late_penalty"])
            for row in csv_export.rows(book, [NAME], [])
        }


def test_a_class_goes_through_nbgrader(
    registered: Course,
    notebook: Notebook,
    hand_in: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rebuilds: Counter[str] = Counter()
    rebuild = preparation.read_notebook

    def counting(plan: Assignment, release: NotebookNode, path: Path, beside: Rebuilt) -> Rebuilt:
        rebuilds[path.parent.parent.name] += 1
        return rebuild(plan, release, path, beside)

    monkeypatch.setattr(preparation, "read_notebook", counting)
    full = {name: solved(name) for name in ("one", "two", "more")}
    hand_in("full", notebook(**full))
    hand_in("core", notebook(one=full["one"], two=full["two"]))
    hand_in("half", notebook(one="%%module one.py\n'half'"))
    hand_in("untouched", notebook())
    hand_in("broken", b'{"cells": [')
    hand_in("late", notebook(**full))
    hand_in("forger", notebook(**full), timestamp__txt="the day before yesterday")
    due = datetime.datetime(2030, 1, 1, 12, tzinfo=datetime.UTC)
    receipt.record(registered, NAME, "late", due + datetime.timedelta(hours=78))
    receipt.record(registered, NAME, "forger", due + datetime.timedelta(minutes=20))

    nbgrader_steps.autograde(registered, NAME)

    names = ("full", "core", "half", "untouched", "broken", "late", "forger")
    assert rebuilds == dict.fromkeys(names, 1)  # what nbgrader sees is what was graded
    assert scores(registered) == {
        "full": (110.0, 0.0),
        "core": (90.0, 0.0),
        "half": (9.0, 0.0),
        "untouched": (0.0, 0.0),
        "broken": (0.0, 0.0),
        "late": (110.0, 22.0),
        "forger": (110.0, 0.0),  # a day of grace
    }
    nbgrader_steps.generate_feedback(registered, NAME)
    pages = {
        path.parent.parent.name: path.read_text()
        for path in (registered.build / "feedback").glob(f"*/{NAME}/{NAME}.html")
    }
    assert sorted(pages) == sorted(scores(registered))
    assert "is not valid JSON" in pages["broken"]
    assert "22 points are taken off" in pages["late"]
    assert "2 days of grace spent, 3 left; 2 days charged: 20 % of the score." in pages["late"]
    assert "1 day of grace spent, 4 left." in pages["forger"]
    assert "&lt;script&gt;alert(1)" in pages["half"]
    for page in pages.values():
        assert "<script" not in page and "onclick" not in page

    exported = csv_export.export(registered, NAME, tmp_path / "grades.csv")
    with exported.open(newline="") as stream:
        table = {row["student"]: row for row in csv.DictReader(stream)}
    assert table["late"]["score"] == "88.0" and table["late"]["late_seconds"] == "280800"
    assert table["full"]["max_score"] == "100.0"


def test_extra_credit_follows_the_result_and_a_person_goes_first(
    registered: Course, notebook: Notebook, hand_in: Callable[..., Path]
) -> None:
    hand_in("ada", notebook(more=solved("more")))
    nbgrader_steps.autograde(registered, NAME)
    assert scores(registered) == {"ada": (20.0, 0.0)}
    nbgrader_steps.autograde(registered, NAME)
    assert scores(registered) == {"ada": (20.0, 0.0)}
    hand_in("ada", notebook())
    nbgrader_steps.autograde(registered, NAME)
    assert scores(registered) == {"ada": (0.0, 0.0)}
    with database.open_gradebook(registered) as book:
        grade = book.find_grade("check_more", NAME, NAME, "ada")
        grade.manual_score, grade.extra_credit = 0.0, 7.0
        book.db.commit()
    hand_in("ada", notebook(more=solved("more")))
    nbgrader_steps.autograde(registered, NAME)
    assert scores(registered) == {"ada": (7.0, 0.0)}


def test_a_written_paragraph_waits_for_a_person_and_an_empty_one_does_not(
    registered: Course, notebook: Notebook, hand_in: Callable[..., Path]
) -> None:
    hand_in("wrote", notebook(words="It is *faster*. <img src=x onerror=alert(1)> $\\href{x}{y}$"))
    hand_in("empty", notebook())
    nbgrader_steps.autograde(registered, NAME)
    with database.open_gradebook(registered) as book:
        assert book.find_submission(NAME, "wrote").needs_manual_grade
        assert not book.find_submission(NAME, "empty").needs_manual_grade
        grade = book.find_grade("words", NAME, NAME, "wrote")
        grade.manual_score, grade.needs_manual_grade = 4.0, False
        book.find_comment("words", NAME, NAME, "wrote").manual_comment = "Good & <b>short</b>"
        book.db.commit()
    autograded = registered.build / "autograded" / "wrote" / NAME / f"{NAME}.ipynb"
    nb = nbformat.read(autograded, as_version=4)
    (cell,) = (c for c in nb.cells if c.metadata.get("nbgrader", {}).get("grade_id") == "words")
    assert cell.source.startswith("~~~text\n") and cell.source.endswith("\n~~~")
    nbgrader_steps.generate_feedback(registered, NAME, "wrote")
    page = (registered.build / "feedback" / "wrote" / NAME / f"{NAME}.html").read_text()
    assert "&lt;img src=x onerror=alert(1)&gt;" in page and "<img" not in page
    assert "Good &amp; &lt;b&gt;short&lt;/b&gt;" in page
    assert "<strong>4</strong> of 5 points" in page


def test_grade_cells_carry_one_table_then_one_finite_number(
    registered: Course, notebook: Notebook, hand_in: Callable[..., Path]
) -> None:
    nb = notebook(one="%%module one.py\n'half'")
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs = [nbformat.v4.new_output("execute_result", {"text/plain": "1000"})]
    hand_in("ada", nb)
    nbgrader_steps.autograde(registered, NAME)
    nb = nbformat.read(
        registered.build / "autograded" / "ada" / NAME / f"{NAME}.ipynb", as_version=4
    )
    outputs = {
        cell.metadata.nbgrader.grade_id: cell.outputs
        for cell in nb.cells
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade")
    }
    kinds = {name: [output.output_type for output in each] for name, each in outputs.items()}
    assert set(map(tuple, kinds.values())) == {("display_data", "execute_result")}
    assert outputs["check_one"][1].data["text/plain"] == "9.0000"
    assert "<script>" not in outputs["check_one"][0].data["text/html"]
    others = [c for c in nb.cells if c.cell_type == "code" and not c.metadata.get("nbgrader")]
    assert others and all(cell.outputs == [] for cell in others)


def test_links_and_pipes_in_a_submission_are_moved_away_before_nbgrader_copies(
    registered: Course, notebook: Notebook, hand_in: Callable[..., Path]
) -> None:
    folder = hand_in("eve", notebook(one=solved("one")))
    (folder / "gradebook").symlink_to(registered.database)
    os.mkfifo(folder / "pipe")
    nbgrader_steps.autograde(registered, NAME)
    assert scores(registered) == {"eve": (30.0, 0.0)}
    autograded = registered.build / "autograded" / "eve" / NAME
    assert sorted(path.name for path in autograded.iterdir()) == [
        f"{NAME}.ipynb", "given",
    ]  # fmt: skip
    assert (registered.build / "quarantine" / "eve" / NAME / "gradebook").is_symlink()
    nbgrader_steps.generate_feedback(registered, NAME)
    page = (registered.build / "feedback" / "eve" / NAME / f"{NAME}.html").read_text()
    assert "gradebook is a symbolic link" in page


def test_a_notebook_that_is_a_link_is_not_followed(
    registered: Course, notebook: Notebook, hand_in: Callable[..., Path], tmp_path: Path
) -> None:
    hand_in("ada", notebook(one=solved("one")))
    folder = registered.submitted("eve", NAME)
    folder.mkdir(parents=True)
    (folder / f"{NAME}.ipynb").symlink_to(registered.submitted("ada", NAME) / f"{NAME}.ipynb")
    nbgrader_steps.autograde(registered, NAME)
    assert scores(registered) == {"ada": (30.0, 0.0), "eve": (0.0, 0.0)}


def test_a_fault_of_the_grader_is_no_zero(
    registered: Course, notebook: Notebook, hand_in: Callable[..., Path]
) -> None:
    hand_in("ada", notebook(one="%%module one.py\ncrash the grader"))
    with pytest.raises(database.GradebookError, match="the toy grader crashed"):
        nbgrader_steps.autograde(registered, NAME)
    assert not (registered.build / "autograded" / "ada" / NAME).exists()


def test_where_nothing_confines_submissions_the_class_gets_one_sentence(
    registered: Course,
    notebook: Notebook,
    hand_in: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(course: Course, **_: object) -> pipeline.Grader:
        raise SandboxUnavailable("no sandbox works here.")

    for student in ("ada", "bob"):
        hand_in(student, notebook(one=solved("one")))
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "suite_grader", none)
        with pytest.raises(database.GradebookError, match=r"no sandbox works here\.") as refused:
            nbgrader_steps.autograde(registered, NAME)
    assert str(refused.value).count("[ERROR]") == 1  # nbgrader's command prints no more than that
    assert not (registered.build / "autograded").exists()
    nbgrader_steps.autograde(registered, NAME)
    monkeypatch.setattr(pipeline, "suite_grader", none)  # what is stored needs none
    nbgrader_steps.autograde(registered, NAME)
    assert scores(registered) == {"ada": (30.0, 0.0), "bob": (30.0, 0.0)}
