"""A suite is mended: who gets other points and why is shown first, and only that is written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder import cache, cli, cli_grade, gradebook, graded, pipeline
from autograder.course import Course
from autograder.sandbox import Tier

from .conftest import KIT, NAME, solved, toy_grader

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
_VECTORS = {"star", "sharded_server", "ring", "recursive", "tree", "ring_torch"}
HALF = "%%writefile one.py\n'half'"


@pytest.fixture
def graded_class(
    registered: Course,
    monkeypatch: pytest.MonkeyPatch,
    notebook: Callable[..., nbformat.NotebookNode],
    hand_in: Callable[..., Path],
) -> Course:
    """Three students in the gradebook; `half` has a paragraph that a person has read."""
    monkeypatch.setattr(cli_grade, "best_tier", lambda **_: Tier.NONE)
    hand_in("half", notebook(one=HALF, words="It was slow."))
    hand_in("full", notebook(one=solved("one"), two=solved("two")))
    hand_in("none", notebook())
    gradebook.autograde(registered, NAME)
    with gradebook.open_gradebook(registered) as book:
        words = book.find_grade("words", NAME, NAME, "half")
        words.manual_score, words.needs_manual_grade = 4.0, False
        book.find_comment("words", NAME, NAME, "half").manual_comment = "Say why."
        more = book.find_grade("check_two", NAME, NAME, "half")
        more.manual_score, more.needs_manual_grade = 7.0, False
        book.db.commit()
    return registered


@pytest.fixture
def mend(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Change module one's suite: half an answer earns more. Gives the modules that were run."""

    def change(fails: str = "") -> list[str]:
        ran: list[str] = []

        def mended(assignment: str, folder: Path, module: str) -> dict[str, Any]:
            ran.append(module)
            result = toy_grader(assignment, folder, module)
            text = (folder / f"{module}.py").read_text()
            if fails and fails in text:
                raise OSError("no room for the sandbox")
            if "half" in text:
                result["tests"][0] |= {"earned": 45.0, "message": "Only the sign is wrong."}
                result["score"] = 45.0
            return result

        digest = cache.kit_digest

        def other(kit: Path, assignment: str, module: str) -> str:
            return digest(kit, assignment, module) + ("mended" if module == "one" else "")

        monkeypatch.setattr(pipeline, "suite_grader", lambda course, **_: mended)
        monkeypatch.setattr(cache, "kit_digest", other)
        return ran

    return change


def words(table: str) -> str:
    """The text of a table, without its lines."""
    return " ".join(table.translate({ord(each): " " for each in "│┃"}).split())


def scores(course: Course) -> dict[str, float]:
    with gradebook.open_gradebook(course) as book:
        return {row["student"]: row["raw_score"] for row in gradebook.rows(book, [NAME], [])}


def test_only_what_a_mended_suite_affects_is_run_and_written_once_it_was_shown(
    graded_class: Course, mend: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert scores(graded_class) == {"half": 20.0, "full": 90.0, "none": 0.0}
    ran = mend()
    database = graded_class.database.read_bytes()

    assert cli.main(["regrade", NAME, "--dry-run"]) == 0
    shown = words(capsys.readouterr().out)
    assert sorted(ran) == ["one", "one", "one"]
    assert "half" in shown and "full" not in shown
    assert "9 13.5 the answer is right: 9 -> 13.5. Only the sign is wrong." in shown
    assert "1 student with other points; 2 as before." in shown

    assert cli.main(["regrade", NAME]) == 1  # nobody is there to be asked
    assert "the gradebook stays as it is" in capsys.readouterr().err
    assert graded_class.database.read_bytes() == database

    others = {
        path: path.stat().st_mtime_ns
        for path in graded_class.build.glob("autograded/*/*/*.ipynb")
        if "half" not in path.parts
    }
    assert cli.main(["regrade", NAME, "--yes"]) == 0
    assert "Written for 1 student." in capsys.readouterr().out
    assert scores(graded_class) == {"half": 24.5, "full": 90.0, "none": 0.0}
    assert len(others) == 2
    assert {path: path.stat().st_mtime_ns for path in others} == others
    assert len(ran) == 3  # all else was in the store

    assert cli.main(["regrade", NAME, "--yes"]) == 0
    assert "0 students with other points; 3 as before." in capsys.readouterr().out


def test_what_a_person_has_given_stays_and_is_not_asked_for_again(
    graded_class: Course, mend: Callable[..., list[str]]
) -> None:
    mend()
    assert cli.main(["regrade", NAME, "half", "--yes"]) == 0
    with gradebook.open_gradebook(graded_class) as book:
        words = book.find_grade("words", NAME, NAME, "half")
        assert (words.manual_score, words.needs_manual_grade) == (4.0, False)
        assert book.find_comment("words", NAME, NAME, "half").manual_comment == "Say why."
        other = book.find_grade("check_two", NAME, NAME, "half")
        # The cell's points are a person's, and its tests were run again: nbgrader asks them.
        assert (other.manual_score, other.needs_manual_grade) == (7.0, True)


def test_where_the_grader_fails_the_earlier_grade_stays_and_others_are_written(
    graded_class: Course, mend: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    mend(fails="one is solved")
    assert cli.main(["regrade", NAME, "--yes"]) == 2
    told = capsys.readouterr()
    assert "full keeps the earlier grade: The grader failed. one: OSError: no room" in told.err
    assert "1 as before; 1 where the grader failed." in told.out
    assert scores(graded_class) == {"half": 24.5, "full": 90.0, "none": 0.0}


def test_a_student_who_is_not_in_the_gradebook_is_told_and_left(
    graded_class: Course,
    hand_in: Callable[..., Path],
    notebook: Callable[..., nbformat.NotebookNode],
    capsys: pytest.CaptureFixture[str],
) -> None:
    hand_in("new", notebook(one=solved("one")))
    assert cli.main(["regrade", NAME, "--yes"]) == 0
    assert "3 as before; 1 not in the gradebook yet" in capsys.readouterr().out
    assert cli.main(["regrade", NAME, "nobody"]) == 2
    assert "nobody handed in no a99_toy" in capsys.readouterr().err


def test_the_reasons_name_tests_that_came_and_went(
    graded_class: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    path = graded_class.build / "graded" / NAME / "full.json"
    content = json.loads(path.read_text())
    part = content["parts"]["one"]
    part["points"] = 12.0
    part["tests"] = {
        "the answer is fast": {"earned": 0.0, "points": 40.0, "says": "Too\x1b[31m slow."},
        "an old one": {"earned": 40.0, "points": 60.0, "says": "Half."},
    }
    path.write_text(json.dumps(content))
    assert cli.main(["regrade", NAME, "--dry-run"]) == 0
    out = capsys.readouterr().out
    shown = words(out)
    assert "\x1b" not in out
    assert "12 30 the answer is right: new, 18 points" in shown
    assert "the answer is fast: 0 -> 12. it passes now; it said: Too" in shown
    assert "an old one: there is no such test any more" in shown
    path.write_text("{")
    assert graded.read(graded_class, NAME, "full") is None


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """The suites and solutions of an assignment, to be changed."""
    for place in ("autograder/suites/a03_allreduce", "solutions/a03_allreduce"):
        shutil.copytree(KIT / place, tmp_path / place)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "affected"),
    [
        ("autograder/suites/a03_allreduce/test_ring.py", {"ring"}),
        ("solutions/a03_allreduce/cost.py", {"cost"}),
        ("solutions/a03_allreduce/ring.py", set()),
        ("solutions/a03_allreduce/notebook.py", set()),
        ("solutions/a03_allreduce/assignment.toml", set()),
        ("autograder/suites/a03_allreduce/oracle.py", _VECTORS),
        ("solutions/a03_allreduce/shards.py", _VECTORS | {"cost"}),
    ],
)
def test_a_change_affects_the_modules_whose_tests_import_it(
    kit: Path, changed: str, affected: set[str]
) -> None:
    names = [path.stem.removeprefix("test_") for path in kit.glob("autograder/suites/*/test_*.py")]
    assert len(names) == 7
    before = {name: cache.kit_digest(kit, "a03_allreduce", name) for name in names}
    with (kit / changed).open("a") as file:
        file.write("\n# mended\n")
    cache.kit_digest.cache_clear()
    after = {name: cache.kit_digest(kit, "a03_allreduce", name) for name in names}
    assert {name for name in names if before[name] != after[name]} == affected


def test_where_imports_cannot_be_told_everything_counts(kit: Path) -> None:
    suite = kit / "autograder/suites/a03_allreduce/test_ring.py"
    few = cache.suite_files(kit, "a03_allreduce", "ring")
    suite.write_text("import importlib\n" + suite.read_text())
    everything = cache.suite_files(kit, "a03_allreduce", "ring")
    assert few < everything and len(everything) >= 20
    suite.write_text("def broken(:\n")
    assert cache.suite_files(kit, "a03_allreduce", "ring") == everything
