"""What comes from a course.toml: the late policy, notebooks, the students' tree, the total."""

from __future__ import annotations

import csv
import datetime
import json
import re
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from autograder.author import new_course
from autograder.commands import cli
from autograder.course import assignment as plans
from autograder.course import late, nbgrader_steps, settings
from autograder.course.course import Course
from autograder.gradebook import total
from autograder.gradebook.marks import ExportError
from autograder.gradebook.report import earlier_sources, report
from autograder.publish import build, bundle
from ringside.course.handin import handin
from tests.autograder.conftest import KIT, NAME, solved

# nbgrader creates rows in ways that SQLAlchemy 2 warns of.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")


def test_the_file_that_a_new_course_begins_with_says_nothing_and_each_line_may_be_uncommented(
    course: Course, toy_kit: Path, tmp_path: Path
) -> None:
    made = new_course.make(tmp_path / "own", toy_kit)
    names = tuple(plans.known(made))
    assert (
        not settings.term(made, names).due and not settings.late(made) and not settings.runs(made)
    )
    lines = made.settings.read_text().replace("drop_lowest = 1", "drop_lowest = 0").splitlines()
    assert lines[0].startswith("# This term") and lines[-2:] == ["[weights]", f"# {NAME} = 10"]
    lines = [line.removeprefix("# ") for line in lines if re.search(r"^(# )?\w+ = |^\[", line)]
    made.settings.write_text("\n".join(lines))
    term = settings.term(made, names)
    assert term.due and term.released and term.weights and len(term.late) == 5
    assert len(term.sessions) == 3 and term.runs and term.assistants and term.term
    assert term.course_path is not None


def test_a_new_courses_releases_are_made_anew_and_nothing_is_set_aside(
    course: Course, toy_kit: Path, tmp_path: Path
) -> None:
    made = new_course.make(tmp_path / "own", toy_kit)
    made.settings.write_text(f"[due]\n{NAME} = 2031-05-01T12:00:00Z\n")
    said: list[str] = []
    release = build.build(plans.load(NAME, made), made, said.append)
    assert release == made.build / "release" / NAME and said == []
    assert build.other_date(plans.load(NAME, made), made) == ""
    assert build.stale(plans.load(NAME, made), made) == []


def test_numbers_of_the_late_policy_in_the_file_go_before_nbgraders(course: Course) -> None:
    before = late.policy_of(course)
    course.settings.write_text("[late]\ngrace_days = 1\npercent_per_day = 25.0\n")
    policy = late.policy_of(course)
    assert (policy.grace_days, policy.percent_per_day) == (1, 25)
    assert (policy.max_percent, policy.grace_s) == (before.max_percent, before.grace_s)


def test_a_due_date_stands_in_the_release_and_in_the_receipt(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course.settings.write_text(f'timezone = "Europe/Berlin"\n[due]\n{NAME} = 2031-05-01T12:00:00\n')
    plan = plans.load(NAME, course)
    build.write_source(plan, course, tmp_path)
    first = nbformat.read(tmp_path / plan.notebook, as_version=4).cells[0].source
    said = "Thu 1 May 2031, 12:00 CEST, unless the course has moved it since."
    assert first.splitlines()[:3] == ["# A toy", "", f"**Due** {said}"]
    receipt = handin.hand_in(tmp_path, force_zip=True)
    assert f"Due {said}" in receipt.text().splitlines()
    assert receipt.as_json()["due"] == "Thu 1 May 2031, 12:00 CEST"
    warned = build.other_date(plan, course)  # of the release, which was built before
    assert "says that it is due Tue 1 Jan 2030, 12:00 UTC; it is due Thu 1 May 2031" in warned
    assert f"`autograder build {NAME}`" in warned
    course.settings.write_text("")  # then the kit's own date counts
    assert build.other_date(plans.load(NAME, course), course) == ""
    build.write_source(plans.load(NAME, course), course, tmp_path)
    assert "Tue 1 Jan 2030, 12:00 UTC" in handin.hand_in(tmp_path, dry_run=True).due


def test_the_modules_of_a_courses_path_make_up_the_total(tmp_path: Path) -> None:
    own = Course(kit=KIT, root=tmp_path)
    whole = plans.load("a03_allreduce", own)
    assert whole.module_points == 100
    own.settings.write_text('path = "8 weeks"\n')
    plan = plans.load("a03_allreduce", own)
    core = [module.name for module in plan.modules if not module.extra]
    assert core == ["star", "ring", "cost", "ring_torch"]
    assert (plan.module_points, plan.hours) == (10 + 35 + 10 + 15, 5.5)
    assert plan.extra_points == whole.extra_points + 15 + 15
    build.write_source(plan, own, tmp_path)
    notebook = nbformat.read(tmp_path / plan.notebook, as_version=4)
    assert notebook.metadata["unit"]["core"] == core
    rows = "\n".join(cell.source for cell in notebook.cells)
    assert "| `recursive.py` | In log2(p) steps | +15 (extra) |" in rows
    points = {cell.metadata.nbgrader.grade_id: cell.metadata.nbgrader.get("points")
              for cell in notebook.cells if "nbgrader" in cell.metadata}  # fmt: skip
    assert (points["check_ring"], points["check_recursive"]) == (35, 0)


def test_an_assignment_without_a_date_is_released_as_before(tmp_path: Path) -> None:
    real = Course(kit=KIT, root=tmp_path)
    plan = plans.load("a01_first_ranks", real)
    build.write_source(plan, real, tmp_path)
    first = nbformat.read(tmp_path / plan.notebook, as_version=4).cells[0].source
    assert "Due" not in first
    assert handin.hand_in(tmp_path, dry_run=True).due == ""


RULES = {
    "open": "Explain, write, test and repair code",
    "separated": "Don't write, complete, repair, translate or rearrange a module",
    "closed": "Students may not use you in this course.",
}


@pytest.mark.parametrize("rule", RULES)
def test_assistants_are_told_the_rule_that_the_course_has_chosen(course: Course, rule: str) -> None:
    course.settings.write_text(f'title = "PDL & more"\nassistants = "{rule}"\n')
    text = bundle._for_assistants(course)
    assert "belongs to a course, PDL & more." in text and "{" not in text
    for name, sentence in RULES.items():
        assert (sentence in text) == (name == rule)
    for always in ("guess(", "run.json", "Don't look for solutions", "Change no tests"):
        assert always in text
    assert f'"{rule}", by {course.settings}' in bundle.about_assistants(course)


def test_a_courses_own_page_for_assistants_goes_first_and_a_choice_is_never_assumed_in_silence(
    course: Course,
) -> None:
    assert "keep to it" in bundle._for_assistants(course)
    assert '"separated", since nobody has chosen' in bundle.about_assistants(course)
    (course.root / "AGENTS.md").write_text("Ours.\n")
    assert bundle._for_assistants(course) == "Ours.\n"
    assert bundle.about_assistants(course).endswith(str(course.root / "AGENTS.md"))


@pytest.mark.parametrize(
    ("cells", "drop", "percent", "dropped"),
    [
        ({"a": 5.0, "b": 10.0, "c": 20.0}, 0, 100 * (0.5 + 3 + 4 * 2 / 3) / 8, ()),
        ({"a": 5.0, "b": 10.0, "c": 0.0}, 1, 87.5, ("c",)),
        ({"a": 5.0, "b": 10.0, "c": 0.0}, 2, 100.0, ("a", "c")),
        ({"a": 5.0, "b": total.EXCUSED, "c": 15.0}, 0, 50.0, ()),
        ({"a": 5.0, "b": total.EXCUSED, "c": total.EXCUSED}, 1, 50.0, ()),  # one is left
        ({"a": 5.0, "b": total.UNFINISHED, "c": 15.0}, 1, None, ()),
        ({"a": total.EXCUSED}, 0, None, ()),
        ({"a": 0.0, "b": 0.0, "c": 0.0}, 1, 0.0, ("c",)),  # of equals, the one that weighs most
        ({}, 1, None, ()),
    ],
)
def test_a_total_is_weighted_and_drops_the_lowest_share(
    cells: dict[str, float | str], drop: int, percent: float | None, dropped: tuple[str, ...]
) -> None:
    of, weights = {"a": 10.0, "b": 10.0, "c": 30.0}, {"a": 1.0, "b": 3.0, "c": 4.0}
    found, gone = total.total_of(cells, of, weights, drop)
    assert (found is None) == (percent is None) and gone == dropped
    assert percent is None or found == pytest.approx(percent)


def test_the_course_is_one_table_with_weights_and_what_is_missing_is_no_zero(
    registered: Course,
    notebook: Callable[..., nbformat.NotebookNode],
    hand_in: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    course = registered
    with pytest.raises(ExportError, match=r"course\.toml has no \[weights\]: write `a99_toy = 10`"):
        total.of_course(course)
    course.settings.write_text(f"[due]\n{NAME} = 2026-01-01T00:00:00Z\n[weights]\n{NAME} = 10\n")
    full = {name: solved(name) for name in ("one", "two")}
    hand_in("ada", notebook(**full))
    hand_in("=bela", notebook(words="I saw a ring.", **full))
    nbgrader_steps.autograde(course, NAME)
    found = total.of_course(course)
    assert found.of == {NAME: 100.0} and found.share(NAME) == 100 and not found.later
    rows = {each.student: each for each in found.rows}
    assert rows["ada"].percent == pytest.approx(rows["ada"].cells[NAME])
    assert rows["=bela"].cells[NAME] == total.UNFINISHED and rows["=bela"].percent is None
    assert "words" in rows["=bela"].missing
    early = total.of_course(course, now=datetime.datetime(2025, 1, 1))
    assert early.later == [NAME] and not early.of and early.rows[0].percent is None
    assert cli.main(["total", "--csv", str(tmp_path / "total.csv")]) == 0
    said = capsys.readouterr().out
    assert "=bela has no total yet" in said and "100 %" in said
    with (tmp_path / "total.csv").open(newline="") as stream:
        table = list(csv.reader(stream))
    assert table[0][3:5] == [f"{NAME} (of 100, 100 %)", "total"]
    assert table[1][0] == "'=bela" and table[1][4] == ""
    course.settings.write_text("[weights]\na99 = 1\n")
    assert cli.main(["total"]) == 2
    assert "did you mean 'a99_toy'?" in capsys.readouterr().err


BODY = """
def answer():
    first = [len(str(k)) for k in range(12) if k % 5]
    second = sum(first) * max(first) - min(first)
    for number in first:
        second += number if number > 3 else -number
    return second, tuple(sorted(first, reverse=True))
"""


def test_a_module_like_one_of_an_earlier_year_is_told_with_its_author(
    course: Course,
    notebook: Callable[..., nbformat.NotebookNode],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = plans.load(NAME, course)
    for year, student, source in (
        ("2025", "eve", BODY.replace("first", "lengths").replace("12", "40")),
        ("now", "ada", BODY),
        ("now", "bob", "def answer():\n    return 4\n"),
    ):
        folder = tmp_path / year / student
        folder.mkdir(parents=True)
        content = notebook(one=f"%%module one.py\n{source}")
        (folder / plan.notebook).write_text(json.dumps(content))
    (tmp_path / "2025" / "mallory").mkdir()
    (tmp_path / "2025" / "mallory" / plan.notebook).write_text("no notebook")
    known = earlier_sources.modules(plan, [tmp_path / "2025"], course)
    assert known["(2025: eve)"].keys() == {"one"}
    page = tmp_path / "report.html"
    command = ["report", NAME, str(tmp_path / "now"), "--against", str(tmp_path / "2025")]
    assert cli.main([*command, "--html", str(page), "--trust-submissions"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "(2025: eve), ada" in said and "No proof: short modules have few ways" in said
    assert "the same, but for names, layout, numbers" in page.read_text()
    assert "This is no proof: short modules" in page.read_text()
    assert cli.main([*command[:3], "--against", str(tmp_path / "2024")]) == 2
    assert "2024 does not exist" in capsys.readouterr().err
    assert report.SOLUTION not in said
