"""The limits of a submission: who may change them, what is no limit, and what depends on them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from autograder.collect import preparation, submissions
from autograder.collect.quarantine import Rejected
from autograder.collect.rebuild import rebuild, release_notebook
from autograder.commands.cli import main
from autograder.course import assignment as plans
from autograder.course import limits
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.course.limits import Limits, LimitsError
from autograder.grade import cache
from autograder.sandbox.bubblewrap import limiter
from ringside.course.handin import handin
from tests.autograder.conftest import NAME, PLAN


def say(course: Course, *, of_course: str = "", of_assignment: str = "") -> Course:
    """A course beside this one, whose files say so."""
    kit = course.root / "kit"
    plan = kit / "solutions" / NAME / "assignment.toml"
    plan.parent.mkdir(parents=True, exist_ok=True)
    plan.write_text(f"{PLAN}\n[limits]\n{of_assignment}" if of_assignment else PLAN)
    (course.root / "limits.toml").write_text(of_course)
    return Course(kit=kit, root=course.root)


def test_the_kits_file_says_what_holds_where_nobody_says_else(course: Course) -> None:
    found = limits.load(NAME, course)
    assert found == Limits()
    assert (found.memory_bytes, found.cpu_s, found.output_bytes) == (
        1 << 30,
        60.0,
        1 << 20,
    )


def test_hand_in_takes_what_the_grader_takes() -> None:
    assert handin.MOST_BYTES == Limits().submission_bytes == Limits().zip_bytes


def test_every_limit_of_the_kit_says_why() -> None:
    for line in limits.FILE.read_text().splitlines():
        if line and not line.startswith("#"):
            _, _, reason = line.partition("#")
            assert len(reason) > 10, line


def test_the_course_goes_last_and_its_table_of_an_assignment_after_that(course: Course) -> None:
    theirs = say(
        course,
        of_assignment="memory_mib = 100\nprocesses = 50\nnotebook_cells = 2",
        of_course=f"processes = 60\nnotebook_cells = 3\n[{NAME}]\nnotebook_cells = 4",
    )
    changed = {"memory_bytes": 100 << 20, "processes": 60, "notebook_cells": 4}
    assert limits.load(NAME, theirs) == dataclasses.replace(Limits(), **changed)
    assert plans.load(NAME, theirs).limits.notebook_cells == 4


def test_a_module_of_torch_has_its_own_memory() -> None:
    assert Limits().for_module("ring_torch").memory_bytes == Limits().memory_torch_bytes
    assert Limits().for_module("ring") == Limits()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("memory_mb = 9", r"limits\.toml: memory_mb: there is no such limit; perhaps memory_mib"),
        ("colour = 9", r"limits\.toml: colour: there is no such limit; limits\.toml of the kit"),
        ("processes = 0", r"processes = 0: a whole number above 0 is wanted, as processes = 512\."),
        ("processes = 1.5", r"processes = 1\.5: a whole number above 0 is wanted"),
        ("processes = true", r"processes = True: a whole number above 0 is wanted"),
        ("sleep_s = '9'", r"sleep_s = '9': a number above 0 is wanted"),
        ("sleep_s = nan", r"sleep_s = nan: a number above 0 is wanted"),
        ("sleep_s = inf", r"sleep_s = inf: a number above 0 is wanted"),
        ("zip_mib = 99999999999", r"zip_mib = 99999999999: a whole number above 0 is wanted"),
        ("clock_s = 100", r"clock_s = 100 may end what has used up neither cpu_s = 60 nor"),
        ("call_timeout_s = 9", r"call_timeout_s: there is no such limit"),
        ("memory_mib 5", r"limits\.toml: .*line 1.*It must be TOML"),
        ("[a98_other]\nprocesses = 2", r"\[a98_other\]: there is no such assignment; known are"),
        ("[a99_toi]\nprocesses = 2", r"\[a99_toi\]: .* no such assignment; did you mean 'a99_toy'"),
    ],
)
def test_what_is_no_limit_is_refused_with_its_file_and_the_cure(
    course: Course, line: str, said: str
) -> None:
    with pytest.raises(LimitsError, match=said):
        limits.load(NAME, say(course, of_course=line))


def test_a_wrong_limit_of_an_assignment_names_that_file_and_ends_the_command(
    course: Course, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = say(course, of_assignment="memory_mib = -1")
    monkeypatch.setenv("RINGSIDE_KIT", str(theirs.kit))
    assert main(["grade", NAME, str(course.root)]) == 2
    said = capsys.readouterr().err
    assert "assignment.toml: memory_mib = -1: a whole number above 0 is wanted" in said


def test_a_changed_limit_grades_anew(course: Course) -> None:
    def key(line: str) -> str:
        return cache.key(NAME, "one", {"one": "x"}, say(course, of_course=line))

    assert key("") == key("# nothing") == key("notebook_cells = 2000") != key("notebook_cells = 2")


def test_what_is_handed_in_meets_the_limits_of_its_course(
    course: Course, plan: Assignment, tmp_path: Path
) -> None:
    notebook = json.dumps({"cells": [{"cell_type": "raw", "source": ""}] * 4}).encode()
    small = dataclasses.replace(plan, limits=Limits(notebook_cells=3))
    with pytest.raises(Rejected, match="more than 3 cells"):
        rebuild(small, release_notebook(plan, course.release(NAME)), notebook)
    small = dataclasses.replace(plan, limits=Limits(notebook_bytes=100))
    path = tmp_path / plan.notebook
    path.write_bytes(notebook)
    with pytest.raises(Rejected, match="is larger than"):
        preparation.prepare(small, submissions.Submission("ada", path), course)
    folder = tmp_path / "bob"
    folder.mkdir()
    (folder / "one.py").write_text("x" * 300)
    small = dataclasses.replace(plan, limits=Limits(module_bytes=200))
    rebuilt = preparation.prepare(small, submissions.Submission("bob", folder), course)
    assert rebuilt.modules == {}
    assert "counts as not handed in" in rebuilt.notes[0]


def test_a_sandbox_is_started_with_the_limits_of_its_processes() -> None:
    few = Limits(cpu_s=7, open_files=30, address_space_bytes=5 << 20, written_file_bytes=9)
    words = limiter(few, nproc=40, uid=None)
    asked = {"--nproc=40", "--cpu=14", "--core=0", f"--as={5 << 20}", "--fsize=9", "--nofile=30"}
    assert asked < set(words)
