"""From paths to outcomes: what is found, what is graded, what is graded again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder import scratch
from autograder.collect import submissions as finding
from autograder.collect.rebuild import Rebuilt
from autograder.commands import cli
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade import cache, class_grading, grading, pipeline
from autograder.grade.pipeline import Sources
from autograder.grade.suite.result import InvalidResult, ModuleResult, TestResult
from autograder.imports import imported
from autograder.sandbox.sandbox import Tier
from tests.autograder.conftest import KIT, NAME, solved, toy_grader
from tests.unprivileged import run_unprivileged

Notebook = Callable[..., nbformat.NotebookNode]
SUITE_GRADER = pipeline.suite_grader  # the real one, which the course's fixture replaces


@pytest.fixture(autouse=True)
def any_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy grader needs no sandbox."""
    monkeypatch.setattr(class_grading, "best_tier", lambda **_: Tier.NONE)


def source(name: str) -> str:
    return solved(name).split("\n", 1)[1]


def grade(tmp_path: Path, *paths: Path) -> tuple[int, dict[str, Any]]:
    out = tmp_path / "out.json"
    status = cli.main(["grade", NAME, *map(str, paths), "--json", str(out)])
    return status, json.loads(out.read_text())


def test_a_folder_with_some_modules_is_one_submission(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "ada"
    folder.mkdir()
    (folder / "one.py").write_text(source("one"))
    (folder / "conftest.py").write_text("raise SystemExit")
    status, report = grade(tmp_path, folder)
    assert status == 0
    assert list(report) == ["assignment", "kit_version", "sandbox", "submissions"]
    (submission,) = report["submissions"]
    assert list(submission) == [
        "student", "status", "score", "max_score", "late_seconds", "modules",
        "runs", "texts", "to_grade_by_hand",
    ]  # fmt: skip
    assert (submission["student"], submission["status"]) == ("ada", "graded")
    assert (submission["score"], submission["max_score"]) == (30.0, 100.0)
    assert submission["modules"]["two"]["score"] == 0
    test = submission["modules"]["one"]["tests"][0]
    assert list(test) == ["name", "points", "earned", "message", "seconds"]
    assert "ada" in capsys.readouterr().out


def test_notebooks_archives_and_trees_are_found_under_their_students_names(
    plan: Assignment, course: Course, tmp_path: Path, notebook: Notebook
) -> None:
    for student in ("eve", "bob"):
        folder = tmp_path / "tree" / student / NAME
        folder.mkdir(parents=True)
        (folder / plan.notebook).write_text(json.dumps(notebook(one=solved("one"))))
    loose = tmp_path / "carol.ipynb"
    loose.write_text(json.dumps(notebook(two=solved("two"))))
    with zipfile.ZipFile(tmp_path / "dan.zip", "w") as archive:
        archive.writestr(f"dan/{NAME}.ipynb", json.dumps(notebook()))
    with zipfile.ZipFile(tmp_path / "fay.zip", "w") as archive:
        archive.writestr("two.py", source("two"))
    status, report = grade(
        tmp_path, tmp_path / "tree", loose, tmp_path / "dan.zip", tmp_path / "fay.zip"
    )
    assert status == 0
    assert {each["student"]: each["score"] for each in report["submissions"]} == {
        "bob": 30, "eve": 30, "carol": 60, "dan": 0, "fay": 60,
    }  # fmt: skip


def test_a_folder_of_what_a_platform_gives_is_a_submission_each(
    plan: Assignment, course: Course, tmp_path: Path, notebook: Notebook
) -> None:
    """A notebook, an archive, a folder with a notebook, with a module, and with an archive."""
    given = tmp_path / "downloads"
    for name in ("bob", "cyd", "dee", ".ipynb_checkpoints", "__MACOSX"):
        (given / name).mkdir(parents=True)
        (given / name / "x.ipynb").write_text("{}")
    book = json.dumps(notebook(one=solved("one")))
    (given / "ada.ipynb").write_text(book)
    (given / "bob" / "x.ipynb").write_text(book)
    (given / "cyd" / "x.ipynb").unlink()
    (given / "cyd" / "two.py").write_text(source("two"))
    (given / "dee" / "x.ipynb").unlink()
    for path in (given / "dee" / "mine.zip", given / "eve.zip"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("two.py", source("two"))
    with zipfile.ZipFile(given / "fay.zip", "w") as archive:
        archive.write(given / "eve.zip", "eve.zip")
    status, report = grade(tmp_path, given)
    assert status == 2
    by_name = {each["student"]: each for each in report["submissions"]}
    assert {name: each["score"] for name, each in by_name.items()} == {
        "ada": 30, "bob": 30, "cyd": 60, "dee": 60, "eve": 60, "fay": 0,
    }  # fmt: skip
    assert "fay.zip must hold one submission" in by_name["fay"]["message"]


def test_a_tree_without_the_assignment_and_a_folder_without_a_module_are_told(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (course.build / "submitted" / "ada" / "a98_other").mkdir(parents=True)
    for words in (
        ["grade", NAME, str(course.build / "submitted")], ["report", NAME], ["regrade", NAME],
        ["export", NAME, "--to", "csv", "--out", str(tmp_path / "out.csv")],
    ):  # fmt: skip
        assert cli.main(words) == 2
        told = capsys.readouterr().err
        assert f"o submission of {NAME}" in told
    assert "nbgrader collect" in told
    (tmp_path / "gus").mkdir()
    (tmp_path / "gus" / "notes.txt").write_text("one.py")
    assert cli.main(["grade", NAME, str(tmp_path / "gus")]) == 0
    assert "gus: None of the modules is in what was handed in.\n" in capsys.readouterr().err
    (tmp_path / "gus" / "one.py").write_bytes(b"# caf\xe9\n")
    assert cli.main(["grade", NAME, str(tmp_path / "gus")]) == 0
    assert "handed in. one.py is not UTF-8 text: it counts as not" in capsys.readouterr().err


def test_what_cannot_be_graded_is_told_and_the_others_are_graded(
    course: Course, tmp_path: Path, notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.ipynb").write_text("{")
    (tmp_path / "crash").mkdir()
    (tmp_path / "crash" / "one.py").write_text("crash the grader")
    (tmp_path / "fine.ipynb").write_text(json.dumps(notebook(one=solved("one"))))
    paths = [tmp_path / name for name in ("broken.ipynb", "crash", "fine.ipynb")]
    status, report = grade(tmp_path, *paths)
    assert status == 2
    by_name = {each["student"]: each for each in report["submissions"]}
    assert by_name["broken"]["status"] == "rejected"
    assert by_name["crash"]["status"] == "grader_error"
    assert (by_name["fine"]["status"], by_name["fine"]["score"]) == ("graded", 30)
    told = capsys.readouterr().err
    assert "broken: rejected: The notebook is not valid JSON" in told
    assert "crash: grader_error: The grader failed. one: RuntimeError: the toy grader" in told


SHUT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from autograder.course import assignment
from autograder.course.course import Course
from autograder.collect import preparation as reading
from autograder.collect import submissions as finding
from autograder.collect.quarantine import Rejected
course = Course.here()
plan = assignment.load("a03_allreduce", course)
for path in map(Path, sys.argv[2:]):
    for each in finding.find(plan, [path]):
        try:
            told = ",".join(sorted(reading.prepare(plan, each, course).modules))
        except Rejected as rejected:
            told = str(rejected)
        print(path.name, each.student, told, sep=": ")
"""


def test_a_folder_that_is_shut_is_told_with_its_student_and_stops_nobody_else(
    tmp_path: Path,
) -> None:
    for folder in ("flat/ada", "flat/ben", "tree/ada/a03_allreduce", "tree/ben/a03_allreduce"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "ring.py").write_text("x = 1\n")
    (tmp_path / "tree" / "cleo").mkdir()
    shut = [tmp_path / "flat" / "ben", tmp_path / "tree" / "ben" / "a03_allreduce",
            tmp_path / "tree" / "cleo"]  # fmt: skip
    for folder in (tmp_path, *tmp_path.rglob("*")):
        folder.chmod(0o700 if folder in shut else 0o755)
        if folder in shut and os.geteuid() != 0:
            folder.chmod(0)
    try:
        words = [sys.executable, "-c", SHUT, str(KIT), str(tmp_path / "flat"),
                 str(tmp_path / "tree"), str(shut[0])]  # fmt: skip
        ended = run_unprivileged(words, [KIT, tmp_path])
    finally:
        for folder in shut:
            folder.chmod(0o755)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "flat: ada: ring",
        "flat: ben: ben can't be listed: Permission denied.",
        "tree: ada: ring",
        "tree: ben: a03_allreduce can't be listed: Permission denied.",
        "tree: cleo: cleo can't be listed: Permission denied.",
        "ben: ben: ben can't be listed: Permission denied.",
    ]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["a98_none", "x"], "There is no assignment 'a98_none'"),
        ([NAME, "no/such/path"], "does not exist"),
        ([NAME, "/etc/passwd"], "neither a folder nor a notebook"),
    ],
)
def test_a_wrong_request_ends_with_status_2_and_says_why(
    course: Course, capsys: pytest.CaptureFixture[str], words: list[str], match: str
) -> None:
    assert cli.main(["grade", *words]) == 2
    assert match in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "option", "place", "why"),
    [
        ("grade", "--json", "", "Is a directory. Name a file in that folder"),
        ("grade", "--csv", "file/scores.csv", "Not a directory. Move away the file"),
        ("grade", "--feedback", "file", "Not a directory. Move away the file"),
        ("report", "--html", "file/not/there.html", "Not a directory. Move away the file"),
    ],
)
def test_a_place_where_nothing_can_be_written_is_refused_before_anything_is_graded(
    course: Course,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    option: str,
    place: str,
    why: str,
) -> None:
    submission(tmp_path, "ada", one=source("one"))
    (tmp_path / "file").write_text("kept")
    asked = tmp_path / place
    assert cli.main([command, NAME, str(tmp_path / "ada"), option, str(asked)]) == 2
    said = capsys.readouterr()
    assert f"{asked} can't be written: {why}" in said.err
    assert said.out == "" and not course.results.exists()
    assert (tmp_path / "file").read_text() == "kept"


def submission(tmp_path: Path, student: str, **modules: str) -> finding.Submission:
    folder = tmp_path / student
    folder.mkdir()
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return finding.Submission(student, folder)


def test_a_module_is_graded_once_and_a_second_grading_computes_nothing(
    plan: Assignment, course: Course, tmp_path: Path
) -> None:
    graded: list[str] = []

    def counting(assignment: str, sources: Sources, module: str) -> ModuleResult:
        graded.append(module)
        return toy_grader(assignment, sources, module)

    submissions = [
        submission(tmp_path, "ada", one=source("one"), two=source("two")),
        submission(tmp_path, "bob", one=source("one"), two="half"),
    ]
    session = pipeline.GradingSession(plan, course, counting, jobs=3)
    first = session.grade(submissions)
    assert sorted(graded) == ["more", "one", "two", "two"]
    second = pipeline.GradingSession(plan, course, counting).grade(submissions)
    assert len(graded) == 4
    assert [o.as_json(plan) for o in first] == [o.as_json(plan) for o in second]
    assert [o.score(plan) for o in first] == [90.0, 48.0]


def test_what_the_clock_has_ended_beside_others_is_graded_again_alone(
    plan: Assignment, course: Course, tmp_path: Path
) -> None:
    running: set[str] = set()
    tried: list[set[str]] = []  # what ran beside the module that is late
    both = threading.Barrier(2)  # the first two begin together, and end together

    def grader(assignment: str, sources: Sources, module: str) -> ModuleResult:
        running.add(module)
        if module == "two":
            tried.append(set(running))
        if module != "one" and len(tried) < 2:
            both.wait(20)
            both.wait(20)
        running.remove(module)
        result = toy_grader(assignment, sources, module)
        result.ended_by_clock = module == "two" and len(tried) == 1
        return result

    one = submission(tmp_path, "ada", one=source("one"), two=source("two"))
    (outcome,) = pipeline.GradingSession(plan, course, grader, jobs=2).grade([one])
    assert not outcome.results["two"].ended_by_clock
    assert tried[1:] == [{"two"}]
    (stored,) = pipeline.GradingSession(plan, course, refuse).grade([one])
    assert stored.as_json(plan) == outcome.as_json(plan)


def test_what_the_clock_ends_alone_too_is_stored_with_its_flag(
    plan: Assignment, course: Course, tmp_path: Path
) -> None:
    graded: list[str] = []

    def grader(assignment: str, sources: Sources, module: str) -> ModuleResult:
        graded.append(module)
        result = toy_grader(assignment, sources, module)
        if module == "two":
            result.ended_by_clock, result.flags = True, ["late"]
        return result

    one = submission(tmp_path, "ada", one=source("one"), two="half")
    (outcome,) = pipeline.GradingSession(plan, course, grader).grade([one])
    assert graded.count("two") == 2
    assert outcome.results["two"].flags == ["late"]
    pipeline.GradingSession(plan, course, refuse).grade([one])


def refuse(assignment: str, sources: Sources, module: str) -> ModuleResult:
    raise AssertionError(f"{module} is stored")


KILLED = """
import pathlib, sys, time
from autograder.course import assignment
from autograder.grade import pipeline
from autograder.course.course import Course
from autograder.collect import submissions as finding
sys.path.insert(0, sys.argv[1])
from conftest import NAME, toy_grader

def grader(name, sources, module):
    if module == "two":
        pathlib.Path(sys.argv[2], "started").touch()
        time.sleep(600)
    return toy_grader(name, sources, module)

course = Course.here()
Course.results = property(lambda self: self.build / "results")
plan = assignment.load(NAME, course)
pipeline.GradingSession(plan, course, grader).grade(finding.find(plan, [pathlib.Path(sys.argv[2])]))
"""


def test_a_grader_that_is_killed_loses_and_repeats_nothing(
    plan: Assignment, course: Course, tmp_path: Path
) -> None:
    one = submission(tmp_path, "ada", one=source("one"), two=source("two"))
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(Path(__file__).parents[1]), str(one.path)],
        env={**os.environ, "PYTHONPATH": str(Path(cache.__file__).parents[2])},
    )
    try:
        while not (one.path / "started").exists():
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    graded: list[str] = []

    def counting(assignment: str, sources: Sources, module: str) -> ModuleResult:
        graded.append(module)
        return toy_grader(assignment, sources, module)

    (outcome,) = pipeline.GradingSession(plan, course, counting).grade([one])
    assert outcome.score(plan) == 90.0
    assert graded == ["two", "one"]  # the last was graded before the grader was killed


def test_modules_are_graded_side_by_side(plan: Assignment, course: Course, tmp_path: Path) -> None:
    together = threading.Barrier(3, timeout=30)

    def meeting(assignment: str, sources: Sources, module: str) -> ModuleResult:
        together.wait()  # three at once, or nobody gets on
        return toy_grader(assignment, sources, module)

    (outcome,) = pipeline.GradingSession(plan, course, meeting, jobs=3).grade(
        [submission(tmp_path, "ada", one=source("one"))]
    )
    assert outcome.score(plan) == 30.0


def test_a_module_is_written_once_where_its_suite_reads_it(
    plan: Assignment, course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: dict[str, bool] = {}  # module -> whether the stage has the one copy
    staged: list[list[str]] = []

    def run_suite(plan: Assignment, module: str, stage: Path, **options: Any) -> ModuleResult:
        paths = list(scratch.folder().rglob(f"{module}.py"))
        copies[module] = paths == [stage / f"{module}.py"]
        staged.append(sorted(path.name for path in stage.iterdir()))
        return ModuleResult.missing(module)

    monkeypatch.setattr(grading, "run_suite", run_suite)
    monkeypatch.setattr(pipeline.suite_nursery, "start", lambda: None)
    session = pipeline.GradingSession(plan, course, SUITE_GRADER(course, trusted=True))
    modules = {"one": source("one"), "two": source("two")}
    assert session.outcome("ada", Rebuilt(modules)).status == "graded"
    assert copies == {"one": True, "two": True}
    assert sorted(staged) == [["given", "one.py"], ["given", "two.py"]]


def test_a_module_sees_the_modules_it_imports_and_no_others() -> None:
    modules = {"one": "from two import x", "two": "import more, os", "more": "", "last": ""}
    assert sorted(imported("one", modules)) == ["more", "one", "two"]
    assert sorted(imported("last", modules)) == ["last"]
    assert imported("none", modules) == {}


def test_a_result_depends_on_source_secret_suite_and_sandbox(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key(text: str = "x", **options: Any) -> str:
        return cache.key(NAME, "one", {"one": text}, course, **options)

    first = key()
    assert key() == first
    others = {key("y"), key(trusted=True), cache.key(NAME, "two", {"one": "x"}, course)}
    monkeypatch.setenv("RINGSIDE_COURSE_SECRET", "another")
    others.add(key())
    monkeypatch.delenv("RINGSIDE_COURSE_SECRET")
    monkeypatch.setattr(cache, "kit_digest", lambda *_: "another suite")
    others.add(key())
    assert len(others) == 5 and first not in others


def test_a_damaged_result_counts_as_none_and_no_partial_file_is_left(tmp_path: Path) -> None:
    store = cache.Store(tmp_path)
    whole = ModuleResult("one", [TestResult("t", "values", points=2, earned=1)])
    store.put("abc", whole)
    assert store.get("abc") == whole and store.damaged == []
    stored = tmp_path / "ab" / "abc.json"
    text = stored.read_text()
    for damage in (
        text[:-9],
        "",
        "[1]",
        '"score"',
        '{"module": "one"}',
        '{"module": "one", "tests": {}}',
        '{"module": "one", "tests": ["t"]}',
        '{"module": "one", "tests": [{"name": "t"}]}',
        text.replace('"module": "one", ', ""),
        text.replace(": 1,", ": 3,", 1),  # more earned than there was to earn
        text.replace(": 1,", ": NaN,", 1),
        text.replace(": 1,", ": Infinity,", 1),
        text.replace(": 1,", ": true,", 1),
        text.replace(": 1,", ": -5,", 1),
        "[" * 100_000,
        text.replace('"error": null', '"error": "the grader failed"'),
    ):
        assert damage != text
        stored.write_text(damage)
        assert store.get("abc") is None, damage[:80]
        assert store.damaged.pop() == stored
        store.put("abc", whole)
    with pytest.raises(InvalidResult, match="earned=nan"):
        store.put("abd", ModuleResult("one", [TestResult("t", "values", 2, float("nan"))]))
    with pytest.raises(InvalidResult, match="one was not graded: no room"):
        store.put("abd", replace(whole, error="no room"))
    with pytest.raises(ValueError, match="Out of range"):
        store.put("abd", replace(whole, counts=[{"makespan_s": float("nan")}]))
    assert [path.name for path in (tmp_path / "ab").iterdir()] == ["abc.json"]


def test_results_may_lie_elsewhere_than_in_the_kit(tmp_path: Path) -> None:
    program = "from autograder.course.course import Course; print(Course.here().results)"
    for results, expected in ((tmp_path / "store", tmp_path / "store"), ("", "build/results")):
        environment = {**os.environ, "PYTHONPATH": str(KIT), "RINGSIDE_RESULTS": str(results)}
        answer = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        assert answer.stdout.strip().endswith(str(expected)), answer.stdout


def test_a_folder_of_modules_is_graded_without_nbgrader_and_nbformat(tmp_path: Path) -> None:
    """They take seconds: jsonschema compiles the grammars of its formats, where it has them all."""
    program = (
        "import sys; from autograder.commands import cli; status = cli.main(sys.argv[1:]); "
        "print(status, *({'nbformat', 'jsonschema', 'nbgrader'} & set(sys.modules)))"
    )
    folder = tmp_path / "ada"
    folder.mkdir()
    (folder / "ping.py").write_bytes(b"\xff\xfe")  # no text, so no suite is run
    words = ["grade", "a01_first_ranks", str(folder), "--csv", str(tmp_path / "out.csv")]
    answer = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=KIT, env={**os.environ, "RINGSIDE_COURSE": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert answer.stdout.splitlines()[-1] == "0"
