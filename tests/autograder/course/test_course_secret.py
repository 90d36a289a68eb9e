"""A course's secret: drawn when it is first needed, by one grader, and readable by its owner."""

from __future__ import annotations

import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.author.verify import redteam_run
from autograder.commands import build, cli
from autograder.course import secret as course_secret
from autograder.course.course import Course
from autograder.course.secret import FILE, PUBLIC_SECRET, VARIABLE, SecretError

KIT = Path(__file__).resolve().parents[3]


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Course:
    """A course in whose places no secret is."""
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "kit").mkdir()
    return Course(kit=tmp_path / "kit", root=tmp_path / "course")


def test_a_course_without_a_secret_draws_one_says_so_and_keeps_it(
    bare: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    first = bare.secret()
    said = capsys.readouterr().err
    assert f"one was drawn at random into {bare.root / FILE}. Keep it" in said and first not in said
    assert len(first) > 40 and first != PUBLIC_SECRET
    assert stat.S_IMODE((bare.root / FILE).stat().st_mode) == 0o600
    assert bare.secret() == first and capsys.readouterr().err == ""
    assert [path.name for path in bare.root.iterdir()] == [FILE]


def test_graders_that_start_together_have_one_secret(
    bare: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    barrier = threading.Barrier(8)

    def grader(_: int) -> str:
        barrier.wait(60)
        return bare.secret()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(grader, range(8)))) == 1
    assert capsys.readouterr().err.count("drawn at random") == 1


def test_the_variable_goes_first_then_the_course_then_the_kit(
    bare: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bare.kit / FILE).write_text("the kit's\n")
    assert bare.secret() == "the kit's"
    bare.root.mkdir()
    (bare.root / FILE).write_text("the course's\n")
    assert bare.secret() == "the course's"
    monkeypatch.setenv(VARIABLE, "the variable's")
    assert bare.secret() == "the variable's"
    assert replace(bare, given_secret=PUBLIC_SECRET).secret() == PUBLIC_SECRET


@pytest.mark.parametrize(
    ("content", "why"),
    [(b" \n", "is empty: everybody could guess"), (b"\xff\xfe", "can't be read: it is not text")],
)
def test_a_file_that_holds_no_secret_is_refused(bare: Course, content: bytes, why: str) -> None:
    bare.root.mkdir()
    (bare.root / FILE).write_bytes(content)
    with pytest.raises(SecretError, match=f"{FILE}.* {why}"):
        bare.secret()


def test_a_course_that_cant_be_written_names_the_cures(
    bare: Course, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare.root.touch()  # no folder
    with pytest.raises(SecretError, match=rf"{FILE} can't be written: .*{VARIABLE}"):
        bare.secret()

    def refused(options: object) -> int:
        raise SecretError("no secret")

    monkeypatch.setattr(build, "run", refused)
    assert cli.main(["build"]) == 2
    assert capsys.readouterr().err == "autograder: no secret\n"


def test_the_red_team_grades_with_the_secret_that_everybody_knows(
    bare: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graded: list[Course] = []
    monkeypatch.setattr(Course, "here", lambda: bare)
    monkeypatch.setattr(redteam_run.assignments, "load", lambda name: None)
    monkeypatch.setattr(redteam_run.pipeline, "suite_grader", graded.append)
    with pytest.raises(AttributeError):  # there is no assignment
        redteam_run.full_grader("a03_allreduce")(tmp_path)
    assert [course.secret() for course in graded] == [PUBLIC_SECRET]
    assert list(bare.kit.iterdir()) == [] and not bare.root.exists()


def test_no_test_draws_a_secret_into_the_kit() -> None:
    assert Course(KIT, KIT).secret() == PUBLIC_SECRET
    assert course_secret.of(KIT, KIT) == PUBLIC_SECRET
