"""A test that proved too strict: its points go to all, with the reason; nothing is run again."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from autograder.commands import cli
from autograder.course import nbgrader_steps
from autograder.course.course import Course
from autograder.grade import class_grading, pipeline, waived
from autograder.grade.pipeline import Sources
from autograder.grade.suite import collected
from autograder.grade.suite.collected import CollectedTest
from autograder.grade.suite.result import ModuleResult, TestResult
from autograder.gradebook.nbgrader import grading_record
from autograder.sandbox.sandbox import Tier
from ringside.checking.requirements import Requirement, Requirements
from tests.autograder.conftest import NAME, Writer, solved, toy_grader

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")

FAST = "the answer is fast"
WAIVER = f'[waived]\n{NAME}.one."{FAST}" = "It timed the import, too."\n'


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy grader's tests, as its hidden suite would list them."""
    tests = tuple(
        CollectedTest(f"hidden/test_{module}.py", name, module, kind, points)
        for module in ("one", "two", "more")
        for name, kind, points in (("the answer is right", "values", 60.0), (FAST, "speed", 40.0))
    )
    monkeypatch.setattr(collected, "of_assignment", lambda plan, course: tests)


def result(**earned: float) -> ModuleResult:
    """A stored result: without `scheme` a tenth of the points counts."""
    names = (("scheme", 10.0), ("values", 60.0), ("bytes", 30.0))
    tests = [
        TestResult(name, "values", points, earned[name], requirement=name) for name, points in names
    ]
    each = tuple(Requirement(name, points, "") for name, points in names)
    return ModuleResult("one", tests, Requirements("scheme", 10, each))


def waiver(name: str, points: float) -> dict[str, waived.Waiver]:
    test = CollectedTest("hidden/test_one.py", name, "one", "values", points, name)
    return {name: (test, "why")}


@pytest.mark.parametrize(
    ("earned", "name", "points", "score"),
    [
        ({"scheme": 10, "values": 60, "bytes": 0}, "bytes", 30, 100),
        ({"scheme": 0, "values": 60, "bytes": 30}, "scheme", 10, 100),  # nothing is cut any more
        ({"scheme": 0, "values": 60, "bytes": 0}, "bytes", 30, 10),
        ({"scheme": 5, "values": 0, "bytes": 0}, "bytes", 30, 35),
    ],
)
def test_a_waived_test_gives_its_points_and_holds_nobody_to_anything(
    earned: dict[str, float], name: str, points: float, score: float
) -> None:
    stored = result(**earned)
    before = repr(stored)
    new = waived.apply(stored, waiver(name, points))
    assert new.score == score and repr(stored) == before
    [test] = [test for test in new.tests if test.name == name]
    assert test.earned == points and test.message == "Waived: its points go to all. why"
    assert sum(test.points for test in new.tests) == 100


def test_a_module_that_is_missing_has_the_points_too() -> None:
    missing = ModuleResult.missing("one")
    new = waived.apply(missing, waiver("bytes", 30.0))
    assert new.score == 30 and [test.points for test in new.tests] == [70, 30]
    assert missing.tests[0].points == 100


def test_a_waiver_changes_every_output_and_runs_nothing_again(
    registered: Course,
    suite: None,
    notebook: Callable[..., nbformat.NotebookNode],
    hand_in: Writer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    course = registered
    hand_in("ada", notebook(one=solved("one"), two=solved("two")))
    hand_in("bob", notebook(one="%%writefile one.py\nhalf\n", two=solved("two")))
    for student in ("ada", "bob"):
        nbgrader_steps.autograde(course, NAME, student)
    nbgrader_steps.generate_feedback(course, NAME, "bob")
    page = course.feedback("bob", NAME) / f"{NAME}.html"
    assert "Waived" not in page.read_text()
    course.settings.write_text(WAIVER)
    with monkeypatch.context() as patch:  # all results are stored
        patch.setattr(class_grading, "best_tier", lambda **_: Tier.NONE)
        patch.setattr(
            pipeline, "suite_grader", lambda *_, **__: lambda *_: pytest.fail("run again")
        )
        assert cli.main(["regrade", NAME, "--dry-run"]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "1 student with other points; 1 as before" in said
        assert "bob" in said and "0 -> 12. Waived:" in said and "ada" not in said
        assert cli.main(["regrade", NAME, "--yes"]) == 0
        assert grading_record.read(course, NAME, "bob").parts["one"].points == 21  # type: ignore[union-attr]
        for words in (
            ["grade", NAME, str(course.build / "submitted"), "--json", "out.json"],
            ["grade", NAME, str(course.build / "submitted"), "--csv", "scores.csv"],
            ["export", NAME, "--to", "csv", "--out", "marks.csv", "--partial"],
        ):
            monkeypatch.chdir(tmp_path)
            assert cli.main(words) == 0
    assert "Waived: the answer is fast. Everybody has its 40 points. It timed" in page.read_text()
    report = json.loads((tmp_path / "out.json").read_text())
    for each in report["submissions"]:
        tests = {test["name"]: test for test in each["modules"]["one"]["tests"]}
        assert tests[FAST]["waived"] == "It timed the import, too."
        assert tests[FAST]["earned"] == 40 and "waived" not in tests["the answer is right"]
    for name in ("scores.csv", "marks.csv"):
        with (tmp_path / name).open(newline="") as stream:
            for row in csv.DictReader(stream):
                assert row["waived"] == f"one, {FAST} (40 of 100): It timed the import, too."


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            f'{NAME}.one."the answer is fat" = "x"',
            "one has no test 'the answer is fat'; did you mean",
        ),
        (f'{NAME}.oen.test = "x"', "has no module 'oen'; did you mean 'one'?"),
        (f'{NAME}.one."{FAST}" = ""', "a line names assignment, module and test, and says why"),
        (f'{NAME}.one = "x"', "a line names assignment, module and test, and says why"),
        ('a99.one.test = "x"', "did you mean 'a99_toy'?"),
    ],
)
def test_a_waiver_of_nothing_is_an_error(
    course: Course, suite: None, line: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    course.settings.write_text(f"[waived]\n{line}\n")
    (course.root / "class" / "ada").mkdir(parents=True)
    (course.root / "class" / "ada" / "one.py").write_text("x")
    assert cli.main(["grade", NAME, str(course.root / "class")]) == 2
    said = capsys.readouterr().err
    assert str(course.settings) in said and why in said


def test_a_suite_that_is_not_worth_100_points_gives_no_mark(
    course: Course, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def mended(assignment: str, sources: Sources, module: str) -> ModuleResult:
        result = toy_grader(assignment, sources, module)
        result.tests.pop()
        return result

    monkeypatch.setattr(pipeline, "suite_grader", lambda course, **_: mended)
    (course.root / "class" / "ada").mkdir(parents=True)
    (course.root / "class" / "ada" / "one.py").write_text("one is solved")
    assert cli.main(["grade", NAME, str(course.root / "class")]) == 2
    assert "its tests are worth 60 points, not 100" in " ".join(capsys.readouterr().err.split())
