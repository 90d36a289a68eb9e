"""`autograder new-assignment`: what it makes works as it is, and a refusal leaves nothing."""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from autograder.author import new_assignment
from autograder.commands import cli
from autograder.course import assignment as plans
from autograder.course import edits
from autograder.course.assignment import AssignmentError, Need
from autograder.course.course import Course
from autograder.platforms import github, sizes
from autograder.publish import build, bundle
from autograder.sandbox.sandbox import SandboxUnavailable, best_tier
from ringside.course import term
from ringside.course.lectures import course_map, front_page, term_calendar
from ringside.course.lectures.handout import Handout
from tests.autograder.conftest import KIT
from tests.autograder.platforms.measure import with_need

REAL = "a03_allreduce"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kit(tmp_path: Path) -> Course:
    (tmp_path / "solutions").mkdir()
    return Course(kit=tmp_path, root=tmp_path)


def files(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


@pytest.mark.parametrize("torch", [False, True])
def test_all_parts_are_made_and_bear_the_name(kit: Course, torch: bool) -> None:
    made = new_assignment.make("a77_mine", kit, torch=torch)
    module = "prefix_torch" if torch else "prefix"
    assert made == kit.solution("a77_mine") and made.is_dir()
    assert [m.name for m in plans.load("a77_mine", kit).modules] == [module]
    everything = files(kit.kit)
    assert f"solutions/a77_mine/checks/test_{module}.py" in everything
    assert f"solutions/a77_mine/{module}.py" in everything
    assert not [name for name in everything if "a77_mine" not in name]  # nothing temporary
    assert not [n for n in everything if new_assignment.PLACEHOLDER in (kit.kit / n).read_text()]
    suite = (kit.kit / f"solutions/a77_mine/checks/test_{module}.py").read_text()
    every = edits.variants(made, [module])
    wrong = {each.fails for each in every if each.fails}
    assert (
        len(wrong) < len(every) and set(re.findall(r"^(?:def )?(test_\w+)", suite, re.M)) == wrong
    )


@pytest.mark.parametrize("name", ["", "A1", "1a", "a-b", "../a", "a b", "x" * 65, "class"])
def test_a_name_that_cannot_be_used_is_refused(kit: Course, name: str) -> None:
    with pytest.raises(AssignmentError, match=r"no name for an assignment|word of Python"):
        new_assignment.make(name, kit)
    assert files(kit.kit) == []


@pytest.mark.parametrize("there", ["solutions/a77_mine", "assignments/a77_mine"])
def test_what_is_there_stays_as_it_is(kit: Course, there: str) -> None:
    (kit.kit / there).mkdir(parents=True)
    with pytest.raises(AssignmentError, match=f"{there} is there already"):
        new_assignment.make("a77_mine", kit)
    assert files(kit.kit) == []


def test_all_or_nothing_is_made(kit: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(OSError, match="No space left"):
        new_assignment.make("a77_mine", kit)
    assert files(kit.kit) == []
    assert list((kit.kit / "solutions").iterdir()) == []


def test_the_command_says_what_to_do_next(
    kit: Course, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RINGSIDE_KIT", str(kit.kit))
    assert cli.main(["new-assignment", "a77_mine"]) == 0
    assert "autograder verify a77_mine" in capsys.readouterr().out
    assert cli.main(["new-assignment", "a77_mine"]) == 2
    assert "choose another name" in capsys.readouterr().err


@pytest.mark.parametrize("torch", [False, True])
@pytest.mark.parametrize("name", ["a00_first", "z99_last"])
def test_what_students_have_is_no_leak_wherever_the_name_sorts(
    tmp_path: Path, name: str, torch: bool
) -> None:
    (tmp_path / "solutions").mkdir()
    for folder in (KIT / "solutions").glob("a??_*"):
        (tmp_path / "solutions" / folder.name).symlink_to(folder)
    for place in ("ringside", "assignments"):
        (tmp_path / place).symlink_to(KIT / place)
    course = Course(kit=tmp_path, root=tmp_path)
    new_assignment.make(name, course, torch=torch)
    given = tmp_path / "given"
    for each in plans.known(course):
        plan = plans.load(each, course)
        (given / each).mkdir(parents=True)
        for file in plan.supplied:
            (given / each / file).parent.mkdir(exist_ok=True)
            shutil.copy(course.solution(each) / file, given / each / file)
    assert bundle.leaks(course, given) == []
    shutil.copy(course.hidden(name) / "cases.py", given / "slip.py")
    found = bundle.leaks(course, given)
    assert found and all(line.startswith("slip.py: ") for line in found)


@pytest.fixture
def linked(tmp_path: Path) -> Course:
    """The kit of links, in which a new unit changes no file outside its folder."""
    for name in ("solutions", "assignments"):
        (tmp_path / name).mkdir()
        for folder in (KIT / name).glob("a??_*"):
            (tmp_path / name / folder.name).symlink_to(folder)
    for name in ("lectures", "docs", "nbgrader_config.py"):
        (tmp_path / name).symlink_to(KIT / name)
    return Course(kit=tmp_path, root=tmp_path)


def test_a_sixteenth_unit_is_everywhere_and_changes_no_file_outside_its_folder(
    linked: Course,
) -> None:
    name, before = "a16_mine", set(files(linked.kit))
    solution = new_assignment.make(name, linked)
    file = solution / "assignment.toml"
    plan = with_need(file.read_text(), Need(2000, 500)).replace("after = []", 'after = ["03"]')
    file.write_text(plan.replace('["03"]', '["17"]'))
    with pytest.raises(AssignmentError, match=r"assignment\.toml: \[unit\]: .*unit 16 can build"):
        build.build(plans.load(name, linked), linked)
    file.write_text(plan)
    build.build(plans.load(name, linked), linked)
    # a draft: in the instructor's tree, and in nobody's hands
    assert name in bundle.listed(linked).unlisted
    with pytest.raises(AssignmentError, match=f"{name} is a draft"):
        github.in_repository(plans.load(name, linked), linked)
    handed_out = bundle.listed(linked).given
    assert "| 16 |" not in "\n".join(course_map.unit_rows(course_map.units(linked.kit, handed_out)))
    file.write_text(plan.replace("# handed_out", "handed_out"))
    handed_out = bundle.listed(linked).given
    assert handed_out[-1] == name and len(handed_out) == 16
    there = course_map.units(linked.kit, handed_out)
    assert (there[-1].number, there[-1].hours) == ("16", 1.0)
    assert f"| 16 | none | [`{name}`](assignments/{name}) |" in course_map.unit_rows(there)
    drawn = course_map.drawn(there, {one.number: f"{one.number}.html" for one in there})
    assert 'href="16.html"' in drawn and "16 prefix sums after 03." in drawn
    # the first page
    paths = sorted(linked.releases.glob("*/a??_*.ipynb"))
    tasks = [Handout(path, is_lecture=False) for path in paths]
    notebook = tasks[-1]
    page = "\n".join(front_page.front(linked.kit, tasks, {}))
    assert "- add up over all ranks before your own, along a chain." in page
    assert f"| 16 |  | [{notebook.title}](assignments/{name}.ipynb) | 1 |" in page
    # a term's calendar
    course = linked.kit / "course.toml"
    course.write_text(
        f"[units]\n16 = 2026-02-02\n03 = 2026-02-09\n[due]\n{name} = 2026-03-01T23:59:00\n"
    )
    dates = term.read(course, plans.known(linked))
    assert (
        "unit 16 begins on 2026-02-02, before unit 03"
        in term_calendar.out_of_order(dates, linked.kit)[0]
    )
    titles = term_calendar.titles(linked.kit)
    stamp = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    calendar = term_calendar.icalendar(dates, titles, stamp)
    assert "SUMMARY:Lecture 16: prefix sums" in calendar
    assert f"SUMMARY:a16 due: {notebook.title}" in calendar
    # containers, and a course of its own
    assert (
        str(sizes.advice(plans.load(name, linked)))
        == "a16_mine: 2000 MB, 500 s of CPU time: choose 2 CPU, 3 GB, 25 minutes"
    )
    assert f"| {name} | 2000 MB |" in sizes.table(
        plans.load(n, linked) for n in plans.known(linked)
    )
    changed = {each.split("/")[1] for each in set(files(linked.kit)) - before - {"course.toml"}}
    assert changed <= {name, "built", "source"}


@pytest.fixture
def copy(tmp_path: Path) -> Run:
    """The kit with one of its assignments, and a way to run its commands there."""
    ignored = shutil.ignore_patterns("__pycache__", "a0*", "a1*")
    for name in ("autograder", "ringside"):
        shutil.copytree(KIT / name, tmp_path / name, ignore=ignored)  # cluster/ comes with it
    for name in ("solutions", "assignments"):
        shutil.copytree(KIT / name / REAL, tmp_path / name / REAL)
    shutil.copytree(KIT / "cluster", tmp_path / "cluster")
    for name in ("nbgrader_config.py", "pyproject.toml"):
        shutil.copy(KIT / name, tmp_path)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RINGSIDE_")}
    environment["PYTHONPATH"] = str(tmp_path)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        answer = subprocess.run(
            [sys.executable, "-m", "autograder", *words],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert answer.returncode == 0, f"{words}: {answer.stdout}\n{answer.stderr}"
        return answer

    return run


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.sandbox
def test_it_builds_verifies_grades_and_bundles_out_of_the_box(copy: Run, tmp_path: Path) -> None:
    try:
        best_tier()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    names = ["a00_first", "z99_last"]
    for name in names:
        copy("new-assignment", name)
    copy("new-assignment", "z99_torch", "--torch")
    for name in (*names, "z99_torch"):
        path = tmp_path / "solutions" / name / "assignment.toml"
        path.write_text(path.read_text().replace("# handed_out = true", "handed_out = true"))
    copy("build", *names, "z99_torch")
    first = copy("verify", names[0])
    # Suites don't know their assignment's name: the reference and the stub are enough.
    last = copy("verify", names[1], "--only", "reference")
    assert "as it must be" in first.stdout and "as it must be" in last.stdout
    for name in names:
        graded = copy("grade", name, f"solutions/{name}", f"assignments/{name}", "--json", "-")
        submissions = json.loads(graded.stdout)["submissions"]
        scores = {each["student"]: each["score"] for each in submissions}
        assert scores == {"solutions": 100.0, "assignments": 0.0}
    # None of its solution or its hidden suite is in what students get.
    copy("bundle", "--to", "students")
    given = sorted(path.name for path in (tmp_path / "students" / "assignments").iterdir())
    assert given == ["a00_first", REAL, "z99_last", "z99_torch"]
    assert (tmp_path / "students" / "assignments" / "z99_last" / "z99_last.ipynb").is_file()
