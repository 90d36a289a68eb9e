"""A run.json is its author's word, unless the course or Slurm's accounting says more."""

from __future__ import annotations

import csv
import datetime
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.collect import accounting, cluster_run, submissions
from autograder.collect.accounting import NoAccounting
from autograder.course import assignment as plans
from autograder.course import database, nbgrader_steps
from autograder.course.assignment import Assignment, AssignmentError, RunSpec
from autograder.course.course import Course
from autograder.grade import pipeline
from autograder.gradebook.nbgrader import csv_export
from autograder.gradebook.report import feedback, rendering
from ringside.checking.notebook import module_sha256
from tests.autograder.conftest import NAME, solved, toy_grader

RUN = RunSpec("one_cluster", "one", 5.0)
SOURCE = solved("one").split("\n", 1)[1]
BEGAN = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
JOB = ("ringside-one", "COMPLETED", "ada", "1772366395", "1772366420", "n[01-02]", "8")
FAKE = """#!/bin/sh
# sacct: a file for each job; without the folder nobody answers
[ "$SLURM_TIME_FORMAT" = %s ] && [ -d "{jobs}" ] || {{ echo disabled >&2; exit 1; }}
while [ "$1" != -j ]; do shift; done
[ ! -f "{jobs}/$2" ] || cat "{jobs}/$2"
"""


def record(**changes: Any) -> str:
    row = {"n": 9, "times_s": [1e-4], "median_s": 1e-4, "checksum": "ab", "values": "right"}
    return json.dumps({
        "format": "ringside-run", "version": 1, "module_sha256": module_sha256(SOURCE.encode()),
        "module": "one", "world_size": 4, "hosts": ["n01", "n01", "n02.site.edu", "n02"],
        "measurements": [row], "job_id": "4711", "started_utc": BEGAN.isoformat(), "wall_s": 9.5,
        **changes,
    })  # fmt: skip


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a fake sacct's jobs, in which 4711 is; without it the accounting is off."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "4711").write_text("|".join(JOB) + "\n")
    place = tmp_path / "bin"
    place.mkdir()
    (place / "sacct").write_text(FAKE.format(jobs=folder))
    (place / "sacct").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    accounting.job.cache_clear()
    yield folder
    accounting.job.cache_clear()


def check(tmp_path: Path, rule: str = "", **changes: Any) -> tuple[float, bool, str]:
    (tmp_path / "run.json").write_text(record(**changes))
    found = cluster_run.check(RUN, tmp_path, SOURCE, rule)
    return found.points, found.waits, found.findings[-1][1]


def test_a_run_that_fits_its_job_is_vouched_for(jobs: Path, tmp_path: Path) -> None:
    assert BEGAN.timestamp() == 1772366400
    given = check(tmp_path)
    assert given[:2] == (5.0, False)
    assert given[2].startswith("Slurm's accounting vouches for job 4711: ada ran it then")


def test_a_job_that_the_accounting_does_not_know_whole_yet_waits_for_a_person(
    jobs: Path, tmp_path: Path
) -> None:
    (jobs / "4711").write_text("|".join(("allocation", *JOB[1:5], "n01", JOB[6])))
    assert check(tmp_path)[:2] == (0.0, True)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hosts": ["n01", "n03", "n04", "n02"]}, "it ran on n01, n02, and the run on n03, n04"),
        ({"world_size": 9, "hosts": ["n01"] * 9}, "it had 8 cores, and the run 9 ranks"),
        ({"started_utc": "2026-03-01T11:00:00+00:00"}, "and the run began at 2026-03-01T11:00"),
        ({"wall_s": 900.0}, "from 2026-03-01T11:59:55+00:00 to 2026-03-01T12:00:20+00:00"),
        ({"wall_s": None}, "took nan s"),
        ({"wall_s": float("nan")}, "took nan s"),
        ({"started_utc": None}, "the run began at None"),
        ({"started_utc": "2026-03-01T12:00:00"}, "the run began at 2026"),  # no zone
    ],
)
def test_a_run_that_was_made_up_earns_nothing_where_the_site_can_vouch(
    jobs: Path, tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    points, waits, said = check(tmp_path, **changes)
    assert (points, waits) == (0.0, False)
    assert said.startswith("Slurm's accounting says otherwise of job 4711: ") and says in said


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ("4712", "Slurm's accounting knows no job 4712."),
        (None, "It names no job of Slurm's."),
        ("-a", "It names no job of Slurm's."),
        ("1 --help", "It names no job of Slurm's."),
        (["4711"], "It names no job of Slurm's."),
        ("4713", "Slurm says that job 4713 is called 'sleep' and ended as CANCELLED."),
    ],
)
def test_what_the_accounting_does_not_know_waits_for_a_person(
    jobs: Path, tmp_path: Path, job: Any, says: str
) -> None:
    (jobs / "4713").write_text("|".join(("sleep", "CANCELLED by 1000", *JOB[2:])))
    points, waits, said = check(tmp_path, job_id=job)
    assert (points, waits) == (0.0, True)
    assert said == f"{says} A person looks at the run and gives its points."


def test_where_nothing_answers_it_is_the_students_word_or_a_persons(
    jobs: Path, tmp_path: Path
) -> None:
    (jobs / "4711").unlink()
    jobs.rmdir()
    points, waits, said = check(tmp_path)
    assert (points, waits) == (5.0, False) and "is your word: nothing here can vouch" in said
    assert check(tmp_path, "accounting")[:2] == (0.0, True)
    with pytest.raises(NoAccounting, match="disabled"):
        accounting.job("4711")


def test_the_course_has_it_graded_by_hand_or_believed_in_one_line(
    jobs: Path, tmp_path: Path
) -> None:
    assert check(tmp_path, "by hand") == (
        0.0, True, "A person looks at the run and gives its points."
    )  # fmt: skip
    assert check(tmp_path, "word", job_id="4712")[:2] == (5.0, False)
    wrong = check(tmp_path, "by hand", measurements=[])  # nothing is left to be looked at
    assert wrong[:2] == (0.0, False)


def test_what_sacct_prints_is_read_whatever_it_is() -> None:
    running = accounting.parsed("a|RUNNING|ada|1|Unknown|n[1-3,07]|2\n")
    assert running is not None and running.end_s is None
    assert running.nodes == {"n1", "n2", "n3", "n07"}
    assert accounting.parsed("") is None
    with pytest.raises(NoAccounting, match="sacct printed"):
        accounting.parsed("no such thing")
    assert len(list(accounting.names_in("n[1-999999999]"))) <= 10_001
    assert list(accounting.names_in("None assigned")) == ["None assigned"]


def test_a_wrong_rule_is_an_error_that_names_the_line(course: Course) -> None:
    course.settings.write_text('# ours\nruns = "by-hand"\n')
    with pytest.raises(AssignmentError, match=r'line 2: runs = \'by-hand\': one of "accounting"'):
        plans.load(NAME, course)
    course.settings.write_text('[due]\nruns = "word"\n')
    with pytest.raises(AssignmentError, match=r"stands below \[due\]"):
        plans.load(NAME, course)


def test_two_students_who_hand_in_one_job_are_told_to_the_instructor(
    plan: Assignment, course: Course, tmp_path: Path
) -> None:
    course.settings.write_text('runs = "word"\n')
    for student, job in (("ada", "4711"), ("bob", "4711"), ("cy", "4712")):
        folder = tmp_path / "class" / student
        folder.mkdir(parents=True)
        (folder / "one.py").write_text(SOURCE)
        (folder / "run.json").write_text(record(job_id=job))
    session = pipeline.GradingSession(plan, course, toy_grader)
    outcomes = session.grade(submissions.find(plan, [tmp_path / "class"]))
    said = ["run.json: job 4711 is in what each of these hands in: ada, bob"]
    assert [outcome.flags for outcome in outcomes] == [said, said, []]
    assert "bob" not in rendering.render(feedback.page_of(plan, outcomes[0]))


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_by_hand_the_cell_waits_in_nbgrader_and_a_person_gives_the_points(
    registered: Course,
    plan: Assignment,
    notebook: Callable[..., nbformat.NotebookNode],
    hand_in: Callable[..., Path],
) -> None:
    registered.settings.write_text('runs = "by hand"\n')
    hand_in("ada", notebook(one=solved("one")), run__json=record())
    hand_in("bob", notebook(one=solved("one")))
    nbgrader_steps.autograde(registered, NAME)
    nbgrader_steps.generate_feedback(registered, NAME)

    def row(student: str) -> tuple[str, str]:
        path = csv_export.export(registered, NAME, registered.root / "grades.csv")
        with path.open(newline="") as stream:
            found = {each["student"]: each for each in csv.DictReader(stream)}
        return found[student]["missing"], found[student]["raw_score"]

    assert row("ada") == ("1 run to grade by hand (one_cluster)", "")
    assert row("bob") == ("", "30.0")
    page = (registered.feedback("ada", NAME) / f"{NAME}.html").read_text()
    assert "<strong>to be graded by hand</strong> of 5 points" in page
    assert "A person looks at the run and gives its points." in page
    with database.open_gradebook(registered) as book:
        grade = book.find_grade("one_cluster", NAME, NAME, "ada")
        assert grade.needs_manual_grade and grade.auto_score is None
        grade.manual_score, grade.needs_manual_grade = 4.0, False
        book.db.commit()
    assert row("ada") == ("", "34.0")


def test_without_a_gradebook_a_run_that_waits_is_no_zero(
    plan: Assignment, course: Course, tmp_path: Path
) -> None:
    course.settings.write_text('runs = "by hand"\n')
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "one.py").write_text(SOURCE)
    (tmp_path / "ada" / "run.json").write_text(record())
    session = pipeline.GradingSession(plan, course, toy_grader)
    (ada,) = session.grade(submissions.find(plan, [tmp_path / "ada"]))
    account = ada.account(plan)
    assert (account.score, account.by_hand) == (30.0, 10.0)
    assert account.part("one_cluster").line == "one_cluster: to be graded by hand, of 5"
    assert "run: to be graded by hand, 5; text: to be graded by hand, 5" in account.sentence
    assert ada.as_json(plan)["runs"]["one_cluster"]["to_grade_by_hand"] is True
