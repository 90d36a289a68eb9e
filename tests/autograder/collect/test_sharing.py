"""Teams: one submission, one grade for each member; which counts, and how late each of them is."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import os
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from autograder.collect import team_submissions
from autograder.collect.cluster_run import RunCheck
from autograder.collect.submissions import Submission
from autograder.commands import cli
from autograder.commands import grade as grade_command
from autograder.course import late, people, receipt, teams
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course
from autograder.grade import class_grading, pipeline, scores_json
from autograder.grade.outcome import Outcome
from autograder.gradebook.report import rendering, report
from autograder.platforms import intake
from autograder.sandbox.sandbox import Tier
from tests.autograder.conftest import NAME, solved, toy_grader

DUE = datetime.datetime(2030, 1, 1, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


@pytest.fixture(autouse=True)
def any_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_grading, "best_tier", lambda **_: Tier.NONE)


def source(name: str) -> str:
    return solved(name).split("\n", 1)[1]


def write_class(folder: Path, **modules: str) -> Path:
    """A folder of `one.py` for each student."""
    for student, text in modules.items():
        (folder / student).mkdir(parents=True, exist_ok=True)
        (folder / student / "one.py").write_text(text)
    return folder


def write_teams(course: Course, *rows: str, platform: bool = False) -> None:
    path = course.platform_teams(NAME) if platform else course.teams(NAME)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["team,student", *rows, ""]))


def grade(plan: Assignment, course: Course, *paths: Path) -> dict[str, Outcome]:
    found = intake.take(plan, paths, course)
    return {each.student: each for each in class_grading.grade_class(plan, found, course, jobs=1)}


def test_each_member_has_the_one_grade_a_page_and_a_row_and_partners_are_not_alike(
    plan: Assignment, course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = source("one") + "".join(f"\n\ndef f{k}(x):\n    return x * {k} + x" for k in range(9))
    place = write_class(tmp_path / "class", ada=long, cy=source("one"), eve=long)
    write_teams(course, "red,ada", "red,bob", "red,dan")
    found = grade(plan, course, place)
    assert list(found) == ["ada", "cy", "eve", "bob", "dan"]
    assert {name: each.score(plan) for name, each in found.items()} == dict.fromkeys(found, 30.0)
    assert found["bob"].notes == ["ada handed in for team red."]
    alike = report.alike(plan, list(found.values()), course)
    pairs = {(match.first, match.second) for match in alike}
    assert pairs == {("ada", "eve"), ("bob", "eve"), ("dan", "eve")}
    summary = report.of_class(plan, list(found.values()), course)
    assert not summary.clusters["one"] and [g.authors for g in summary.similar] == [
        ("ada", "bob", "dan", "eve")
    ]
    pages = rendering.write_pages(tmp_path / "pages", plan, list(found.values()))
    assert "team red: one submission, one grade for each member" in pages[3].read_text()
    assert "team red" not in pages[1].read_text()
    out = tmp_path / "out.csv"
    assert cli.main(["export", NAME, str(place), "--to", "csv", "--out", str(out)]) == 0
    with out.open(newline="") as stream:
        rows = {row["student"]: row["score"] for row in csv.DictReader(stream)}
    assert rows == dict.fromkeys(found, "30.0")
    assert "red" in str(scores_json.as_json(plan, list(found.values())))
    assert "'bob' has handed in nothing" not in capsys.readouterr().err


def test_partners_may_hand_in_one_run() -> None:
    outcomes = [Outcome(each, "graded", team="red" if each in "ab" else "") for each in "abc"]
    for each in outcomes:
        each.runs = [RunCheck("one_cluster", "one", 5.0, 5.0, [], job="77")]
    pipeline._compare_jobs(outcomes[:2])
    assert not any(each.doubts for each in outcomes)
    pipeline._compare_jobs(outcomes)
    assert all("a, b, c" in each.doubts[0] for each in outcomes)


def test_the_newest_by_receipt_counts_and_the_team_is_told(
    plan: Assignment, course: Course, tmp_path: Path
) -> None:
    place = write_class(tmp_path / "class", ada=source("one"), bob="half", cy="half")
    write_teams(course, "red,ada", "red,bob", "blue,cy")
    receipt.record(course, NAME, "ada", DUE - 2 * HOUR)
    receipt.record(course, NAME, "bob", DUE - HOUR)
    assert people.doubts(course, NAME, ["ada", "bob", "cy"])[0].endswith(
        "has no line for cy: nobody without a receipt counts as late."
    )
    found = grade(plan, course, place)
    assert found["ada"].score(plan) == found["bob"].score(plan) == 9.0
    told = (
        "Team red: what bob handed in counts, the newest, received 2030-01-01 11:00 UTC; what ada "
        "handed in before is another thing."
    )
    assert found["ada"].intake == found["bob"].intake == [told] and found["cy"].intake == []
    course.teams(NAME).write_text(course.teams(NAME).read_text() + "blue,dan\n")
    receipt.record(course, NAME, "cy", DUE)
    assert people.doubts(course, NAME, ["ada", "bob", "cy", "dan"]) == []
    receipt.record(course, NAME, "ada", DUE)
    assert grade(plan, course, place)["bob"].score(plan) == 30.0


def test_without_receipts_only_the_same_thing_counts(
    plan: Assignment,
    course: Course,
    notebook: Callable[..., nbformat.NotebookNode],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = write_class(tmp_path / "class", ada=source("one"), cy="half")
    (place / "bob").mkdir()
    nbformat.write(notebook(one=solved("one")), place / "bob" / plan.notebook)
    for cell in notebook().cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in ("two", "more"):
            (place / "ada" / f"{name}.py").write_text(cell.source.split("\n", 1)[1])
    write_teams(course, "red,ada", "red,bob")
    found = grade(plan, course, place)
    assert {each.status for each in found.values()} == {"graded"}, found["ada"].message

    (place / "bob" / plan.notebook).unlink()
    write_class(place, bob="half")
    capsys.readouterr()
    found = grade(plan, course, place)
    assert {name: each.status for name, each in found.items()} == {
        "ada": "rejected", "bob": "rejected", "cy": "graded",
    }  # fmt: skip
    assert found["ada"].message == (
        "Team red: ada, bob handed in different things, and no receipt says which came last."
    )
    assert f"Write the times into {course.receipts(NAME)} (student,received)" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["red,ada", "blue,ada"], "line 3: ada is in team red by line 2, and in team blue by this"),
        (["red,ada", "red,ada"], "line 3: ada is in team red by line 2, once more by this one"),
        (["red,"], "line 2: the student is missing."),
        ([",ada"], "line 2: the team is missing."),
        (["red"], "line 2: 1 cells, where the first line names 2"),
    ],
)
def test_a_wrong_list_of_teams_is_told_by_its_line(
    course: Course, rows: list[str], said: str
) -> None:
    write_teams(course, *rows)
    with pytest.raises(AssignmentError, match=said):
        teams.read(course, NAME)


def test_a_persons_list_goes_before_a_platforms(course: Course) -> None:
    write_teams(course, "p,ada", "p,bob", "p,cy", "q,dan", "q,eve", platform=True)
    write_teams(course, "red,ada", "red,dan")
    assert {name: team.members for name, team in teams.read(course, NAME).items()} == {
        "red": ("ada", "dan"), "p": ("bob", "cy"),
    }  # fmt: skip


def test_a_member_whom_nobody_knows_is_told(
    plan: Assignment, course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = write_class(tmp_path / "class", ada="half", bob="half")
    write_teams(course, "red,ada", "red,bop")
    found = [Submission(each.name, each) for each in sorted(place.iterdir())]
    assert team_submissions.doubts(plan, found, course) == [
        f"{course.teams(NAME)}, line 3: 'bop' has handed in nothing; did you mean 'bob'? The "
        "team's grade goes to that name."
    ]
    monkeypatch.setattr(people, "listed", lambda course: {"ada", "bob"})
    assert team_submissions.doubts(plan, found, course) == [
        f"{course.teams(NAME)}, line 3: no student is named 'bop'; did you mean 'bob'? Nothing is "
        "given to that name. If it is right: nbgrader db student add bop"
    ]
    assert [each.student for each in team_submissions.share(plan, found, course)] == ["ada", "bob"]


def test_a_team_is_late_after_its_members_latest_date_and_each_spends_days_of_their_own(
    plan: Assignment, course: Course
) -> None:
    write_teams(course, "red,ada", "red,bob", "red,eve")
    course.extensions.write_text(f"student,assignment,days\nbob,{NAME},1\n")
    receipt.record(course, NAME, "ada", DUE - HOUR)
    receipt.record(course, NAME, "bob", DUE + 73 * HOUR)
    receipt.record(course, NAME, "alone", DUE + 73 * HOUR)
    dates = late.calendar(course)
    policy = late.Policy(grace_days=5, grace_days_each=2)
    days = {
        name: late.account(course, name, policy, dates)[NAME].days
        for name in ("ada", "bob", "eve", "alone")
    }
    assert days == {"ada": 3, "bob": 3, "eve": 3, "alone": 4}
    free = dataclasses.replace(dates, excused=frozenset({("eve", NAME)}))
    assert late.account(course, "eve", policy, free) == {}
    assert late.seconds_late(course, NAME)["eve"] == 49 * 3600


def test_a_factor_counts_from_the_release_and_an_extension_comes_on_top(
    plan: Assignment, course: Course
) -> None:
    course.build.mkdir()
    course.accommodations.write_text("student,factor,note\nada,1.5,a private reason\n")
    for student in ("ada", "bob"):
        receipt.record(course, NAME, student, DUE + 100 * HOUR)
    with pytest.raises(AssignmentError, match=r"ada is late .* below \[released\] in course.toml"):
        late.seconds_late(course, NAME)
    course.settings.write_text(f"[released]\n{NAME} = 2029-12-27T12:00:00Z\n")  # 5 days before
    assert late.seconds_late(course, NAME) == {"ada": 40 * 3600, "bob": 100 * 3600}
    course.extensions.write_text(f"student,assignment,days\nada,{NAME},1\n")
    assert late.seconds_late(course, NAME)["ada"] == 16 * 3600
    write_teams(course, "red,ada", "red,bob")
    assert late.seconds_late(course, NAME) == {"ada": 16 * 3600, "bob": 16 * 3600}
    course.settings.write_text(f"[released]\n{NAME} = 2031-12-27T12:00:00Z\n")
    with pytest.raises(AssignmentError, match="the release must come first"):
        late.seconds_late(course, NAME)


def test_what_the_list_of_accommodations_lacks_is_said(plan: Assignment, course: Course) -> None:
    course.build.mkdir()
    course.accommodations.write_text("student,factor\nadda,1.25\n")
    os.chmod(course.accommodations, 0o644)
    course.excused.write_text(f"student,assignment\nbobb,{NAME}\n")
    first, second, *others = people.doubts(course, NAME, ["ada", "bob"])
    assert f"its rights are 644: `chmod 600 {course.accommodations}`" in first
    assert f"gives no time for {NAME}: {course.settings} says not when it was released" in second
    assert [each.rpartition("; ")[2] for each in others] == [
        "did you mean 'bob'?",
        "did you mean 'ada'?",
    ]
    for text, said in (
        ("ada,0.5", "line 2: '0.5' is no factor from 1 to 10"),
        ("ada,more", "line 2: 'more' is no factor"),
        ("ada,2\nada,3", "line 3: ada is there twice"),
    ):
        course.accommodations.write_text(f"student,factor\n{text}\n")
        with pytest.raises(AssignmentError, match=said):
            late.calendar(course)
    course.accommodations.unlink()
    for text, said in (
        ("ada,a98", rf"line 2: 'a98' is no assignment; known are {NAME}"),
        (f"ada,{NAME}\nada,{NAME}", "line 3: ada is excused .* by line 2 already"),
    ):
        course.excused.write_text(f"student,assignment\n{text}\n")
        with pytest.raises(AssignmentError, match=said):
            late.calendar(course)


def test_a_pipe_in_a_partners_folder_stops_nobody(
    plan: Assignment, course: Course, tmp_path: Path
) -> None:
    folder = course.submitted("ada", NAME)
    folder.mkdir(parents=True)
    (folder / "one.py").write_text(source("one"))
    os.mkfifo(folder / "pipe")
    write_teams(course, "red,ada", "red,bob")
    assert team_submissions.spread(plan, course) == []
    assert sorted(each.name for each in course.submitted("bob", NAME).iterdir()) == [
        "one.py", "submission_secret.txt",
    ]  # fmt: skip
    session = pipeline.GradingSession(plan, course, toy_grader)
    assert [each.student for each in session.grade(intake.take(plan, [folder], course))] == [
        "ada", "bob",
    ]  # fmt: skip


def test_a_teams_work_is_measured_once_for_all_members(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[list[str], list[str]]] = []

    def measure(
        plan: Assignment, submissions: list[Submission], outcomes: list[Outcome], *_: object
    ) -> None:
        seen.append(([each.path.name for each in submissions], [each.student for each in outcomes]))
        for each in outcomes:
            each.measured = [{"of": each.student}]

    given: dict[str, object] = {}
    monkeypatch.setattr(grade_command, "_measure", measure)
    monkeypatch.setattr(
        grade_command,
        "_write",
        lambda plan, outcomes, options: given.update({o.student: o.measured for o in outcomes}),
    )
    place = write_class(tmp_path / "class", ada="half", cy="half")
    write_teams(course, "red,ada", "red,bob")
    assert cli.main(["grade", NAME, str(place), "--measured"]) == 0
    assert seen == [(["ada", "cy"], ["ada", "cy"])]
    assert given == {"ada": [{"of": "ada"}], "cy": [{"of": "cy"}], "bob": [{"of": "ada"}]}
