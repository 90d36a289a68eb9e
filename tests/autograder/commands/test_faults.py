"""What goes wrong beside the submissions: nobody's grade is lost, and it is said what to do."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest

from autograder import scratch
from autograder.__main__ import run
from autograder.author.new_course import CONFIGURATION
from autograder.collect import submissions as finding
from autograder.commands import cli, verify
from autograder.commands import grade as cli_grade
from autograder.course import database, nbgrader_steps
from autograder.course.assignment import Assignment
from autograder.course.course import CONFIG, Course
from autograder.grade import class_grading, pipeline
from autograder.grade.pipeline import Sources
from autograder.grade.suite.result import ModuleResult
from autograder.gradebook.nbgrader import csv_export
from autograder.sandbox.sandbox import Tier
from tests.autograder.conftest import KIT, NAME, solved, toy_grader

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
Notebook = Callable[..., nbformat.NotebookNode]
HandIn = Callable[..., Path]


@pytest.fixture(autouse=True)
def any_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_grading, "best_tier", lambda **_: Tier.NONE)
    monkeypatch.setattr(database, "LOCK_PATIENCE_S", 0.05)


def scores(course: Course) -> dict[str, object]:
    with database.open_gradebook(course) as book:
        return {row["student"]: row["raw_score"] for row in csv_export.rows(book, [NAME], [])}


def failing(times: int, word: str = "") -> tuple[pipeline.Grader, list[str]]:
    """A grader that fails so many times on modules that hold a word."""
    tries: list[str] = []

    def grade(assignment: str, sources: Sources, module: str) -> ModuleResult:
        if module in sources and word in sources[module]:
            tries.append(module)
            if len(tries) <= times:
                raise BlockingIOError(11, "Resource temporarily unavailable")
        return toy_grader(assignment, sources, module)

    return grade, tries


def folders(tmp_path: Path) -> list[finding.Submission]:
    for student, text in (("ada", "one is solved"), ("bob", "half")):
        (tmp_path / student).mkdir()
        (tmp_path / student / "one.py").write_text(text)
    return [finding.Submission(name, tmp_path / name) for name in ("ada", "bob")]


# -- a fault of the grader ---------------------------------------------------------------------


def test_a_fault_that_passes_costs_nobody_anything(
    plan: Assignment, course: Course, tmp_path: Path
) -> None:
    grader, tries = failing(2, "half")
    outcomes = pipeline.GradingSession(plan, course, grader).grade(folders(tmp_path))
    assert [(o.status, o.score(plan)) for o in outcomes] == [("graded", 30.0), ("graded", 9.0)]
    assert tries == ["one"] * 3


def test_a_fault_that_stays_is_reported_and_tried_again_the_next_time(
    plan: Assignment, course: Course, tmp_path: Path
) -> None:
    submissions = folders(tmp_path)
    grader, tries = failing(100, "half")
    ada, bob = pipeline.GradingSession(plan, course, grader).grade(submissions)
    assert (ada.status, ada.score(plan)) == ("graded", 30.0)
    assert bob.status == "grader_error"
    assert bob.message == (
        "The grader failed. one: BlockingIOError: [Errno 11] Resource temporarily unavailable "
        "(the last of 3 tries)"
    )
    assert len(tries) == 3
    ada, bob = pipeline.GradingSession(plan, course, toy_grader).grade(submissions)
    assert (bob.status, bob.score(plan)) == ("graded", 9.0)


def test_a_suite_that_is_broken_for_all_is_tried_anew_for_the_first_only(
    plan: Assignment, course: Course, tmp_path: Path
) -> None:
    grader, tries = failing(100)
    outcomes = pipeline.GradingSession(plan, course, grader).grade(folders(tmp_path))
    assert {outcome.status for outcome in outcomes} == {"grader_error"}
    assert tries.count("one") == 3 + 1


BROKEN = """a99_toy/{module}: the suite left no record.
/tmp/x/suite-{number}/modules/{module}.py collected
    import torch
E   ImportError: libtorch.so: cannot open shared object file
1 error in 0.{number}s"""


def test_a_cause_that_hits_every_module_is_said_once_for_the_whole_class(
    registered: Course, notebook: Notebook, hand_in: HandIn, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    tries: list[str] = []

    def broken(assignment: str, sources: Sources, module: str) -> ModuleResult:
        tries.append(module)
        return ModuleResult(module, error=BROKEN.format(module=module, number=len(tries)))

    monkeypatch.setattr(pipeline, "suite_grader", lambda course, **_: broken)
    monkeypatch.setattr(class_grading, "best_tier", lambda **_: Tier.NONE)
    for student in ("ada", "bob", "cy"):
        hand_in(student, notebook(one=solved("one") + f"# {student}"))
    cause = "one, two, more: ImportError: libtorch.so: cannot open shared object file"
    assert cli.main(["grade", NAME, str(registered.build / "submitted")]) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if "libtorch" in line]
    assert told == [
        f"autograder: 3 submissions (ada, bob, cy): grader_error: The grader failed. {cause} "
        "(the last of 3 tries)"
    ]
    with pytest.raises(database.GradebookError) as raised:
        nbgrader_steps.autograde(registered, NAME)
    log = str(raised.value)
    assert log.count("libtorch") == 1 and cause in log
    assert log.count("Traceback") == 1  # of the library call that ends with the log
    assert log.count("There was an error processing assignment: ") == 3


def test_a_result_that_is_none_is_a_fault(plan: Assignment, course: Course, tmp_path: Path) -> None:
    def nonsense(assignment: str, sources: Sources, module: str) -> ModuleResult:
        result = toy_grader(assignment, sources, module)
        result.tests[0].earned = float("nan")
        return result

    outcome = pipeline.GradingSession(plan, course, nonsense).grade(folders(tmp_path))[0]
    assert outcome.status == "grader_error"
    assert "the suite gave no result" in outcome.message


def test_in_the_gradebook_a_fault_leaves_the_earlier_grade_or_none(
    registered: Course,
    notebook: Notebook,
    hand_in: HandIn,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    hand_in("ada", notebook(one=solved("one")))
    nbgrader_steps.autograde(registered, NAME)
    assert scores(registered) == {"ada": 30.0}
    grader, _ = failing(100, "half")
    monkeypatch.setattr(pipeline, "suite_grader", lambda course, **_: grader)
    hand_in("ada", notebook(one="%%module one.py\n'half'"))
    hand_in("bob", notebook(one="%%module one.py\n'half'"))
    hand_in("eve", notebook(one=solved("one")))
    with pytest.raises(database.GradebookError, match=r"The grader failed\. one: BlockingIO"):
        nbgrader_steps.autograde(registered, NAME)
    assert scores(registered) == {"ada": 30.0, "bob": "", "eve": 30.0}
    with database.open_gradebook(registered) as book:
        assert book.find_submission(NAME, "bob").needs_manual_grade
        assert not book.find_submission(NAME, "ada").needs_manual_grade
    table = csv_export.export(registered, NAME, tmp_path / "grades.csv").read_text()
    (row,) = (line for line in table.splitlines() if ",bob," in line)
    assert row.endswith(",,,,100.0,yes,not autograded yet,,,")
    monkeypatch.setattr(pipeline, "suite_grader", lambda course, **_: toy_grader)
    nbgrader_steps.autograde(registered, NAME)
    assert scores(registered) == {"ada": 9.0, "bob": 9.0, "eve": 30.0}
    with database.open_gradebook(registered) as book:
        assert not book.find_submission(NAME, "bob").needs_manual_grade


# -- the store and the disk --------------------------------------------------------------------


def test_a_damaged_result_is_told_and_graded_again(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders(tmp_path)
    words = ["grade", NAME, str(tmp_path / "ada")]
    assert cli.main(words) == 0
    whole = capsys.readouterr()
    assert whole.err == ""
    paths = sorted(course.results.glob("*/*.json"))
    content = paths[0].read_bytes()
    paths[0].write_bytes(content[:50])
    assert cli.main(words) == 0
    again = capsys.readouterr()
    assert f"{paths[0]} was damaged; it was graded again." in again.err
    assert again.out == whole.out
    assert paths[0].read_bytes() == content


@pytest.mark.skipif(
    subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode
    if shutil.which("unshare")
    else True,
    reason="mounting small file systems needs root (util-linux's unshare)",
)
def test_a_full_disk_and_a_read_only_one_stop_nothing_for_good(
    registered: Course, notebook: Notebook, hand_in: HandIn, tmp_path: Path
) -> None:
    folders(tmp_path)
    hand_in("ada", notebook(one=solved("one")))
    answer = subprocess.run(
        ["unshare", "--mount", "--propagation", "private",
         sys.executable, str(KIT / "tests" / "autograder" / "full_disk.py"), str(tmp_path)],
        cwd=KIT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr
    found = json.loads(answer.stdout)
    for name, why, cure in (
        ("store", "No space left on device", "Free some room there"),
        ("read-only store", "Read-only file system", "Make that file system writable"),
    ):
        assert found[name]["status"] == 2, found
        assert str(registered.results) in found[name]["said"]
        assert f"can't be written: {why}. {cure}, then start" in found[name]["said"]
    assert found["temporary files"]["status"] == 2
    assert "ada: grader_error: The grader failed. " in found["temporary files"]["said"]
    assert "No space left on device" in found["temporary files"]["said"]
    assert found["again"] == {"status": 0, "said": ""}
    assert "graded/a99_toy/ada.json can't be written: No space left" in found["records"]
    assert "gradebook.db can't be used: No room is left on the disk" in found["gradebook"]
    assert found["gradebook again"] == ""
    assert found["scores"] == {"ada": 30.0}
    assert found["left"] == []


def test_no_clock_is_believed(
    plan: Assignment, course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submissions = folders(tmp_path)
    before = [
        o.as_json(plan)
        for o in pipeline.GradingSession(plan, course, toy_grader).grade(submissions)
    ]
    shutil.rmtree(course.results)
    real, jumps = time.time, iter(range(1, 1 << 30))
    monkeypatch.setattr(time, "time", lambda: real() + (-1) ** next(jumps) * 86_400 * 400)
    session = pipeline.GradingSession(plan, course, toy_grader, jobs=2)
    assert [o.as_json(plan) for o in session.grade(submissions)] == before
    graded: list[str] = []

    def counting(assignment: str, sources: Sources, module: str) -> ModuleResult:
        graded.append(module)
        return toy_grader(assignment, sources, module)

    pipeline.GradingSession(plan, course, counting).grade(submissions)
    assert graded == []


# -- the gradebook -----------------------------------------------------------------------------


@pytest.fixture
def graded_book(registered: Course, notebook: Notebook, hand_in: HandIn) -> Course:
    hand_in("ada", notebook(one=solved("one")))
    nbgrader_steps.autograde(registered, NAME)
    return registered


def drop_table(path: Path) -> None:
    book = sqlite3.connect(path)
    book.execute("DROP TABLE grade")
    book.commit()
    book.close()


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda path: path.write_bytes(b"no database" * 500), "file is not a database"),
        (lambda path: path.write_bytes(b""), "it has no table assignment, grade, student"),
        (drop_table, "it has no table grade"),
        (lambda path: path.unlink(), "it is gone, and grades were written into it"),
    ],
    ids=["garbage", "empty", "a table is missing", "gone"],
)
def test_a_damaged_gradebook_is_refused_and_left_as_it_is(
    graded_book: Course,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[Path], object],
    why: str,
) -> None:
    path = graded_book.database
    whole = path.read_bytes()
    damage(path)
    damaged = path.read_bytes() if path.exists() else None
    for words in (["regrade", NAME, "--dry-run"], ["regrade", NAME, "--yes"]):
        assert cli.main(words) == 2
        said = capsys.readouterr().err
        assert f"{path} can't be used: {why}" in said
        assert "Put back a copy of it, or move it away and run `autograder build`" in said
    with pytest.raises(database.GradebookError, match="can't be used"):
        nbgrader_steps.autograde(graded_book, NAME)
    assert (path.read_bytes() if path.exists() else None) == damaged
    path.write_bytes(whole)
    assert cli.main(["regrade", NAME]) == 0
    assert scores(graded_book) == {"ada": 30.0}


def test_a_gradebook_that_another_program_holds_is_told(
    graded_book: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    other = sqlite3.connect(graded_book.database, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    for words in (["regrade", NAME], ["grade", NAME, str(graded_book.build / "submitted")]):
        assert cli.main(words) == 2
        said = capsys.readouterr().err
        assert f"{graded_book.database} can't be used: database is locked." in said
        assert "let `nbgrader` or formgrader end" in said
    # nbgrader's own command is refused before it has touched anything.
    with pytest.raises(database.GradebookError, match=r"is locked\. Another program"):
        nbgrader_steps._convert(nbgrader_steps.Autograde, graded_book, NAME, "*")
    assert (graded_book.build / "autograded" / "ada" / NAME / f"{NAME}.ipynb").is_file()
    other.execute("ROLLBACK")
    other.close()
    assert cli.main(["regrade", NAME]) == 0


def test_a_gradebook_whose_making_was_interrupted_is_made_whole(course: Course) -> None:
    course.build.mkdir()
    sqlite3.connect(course.database).execute("CREATE TABLE student (id VARCHAR)").connection.close()
    database.check(course, write=True)
    course.database.write_bytes(b"")
    database.check(course, write=True)
    with database.open_gradebook(course) as book:
        assert book.students == []


# -- nbgrader's own command --------------------------------------------------------------------


@pytest.fixture
def nbgrader(
    registered: Course, toy_kit: Path, notebook: Notebook, hand_in: HandIn, plan: Assignment
) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts `nbgrader autograde`: ada's results are stored, bob's are not, and none can be had."""
    registered.root.joinpath(CONFIG).write_text(CONFIGURATION)
    hand_in("ada", notebook(one=solved("one")))
    hand_in("bob", notebook(one="%%module one.py\n'half'"))
    found = finding.find(plan, [registered.submitted("ada", NAME)])
    pipeline.GradingSession(plan, registered, toy_grader).grade(found)
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "nbgrader", "autograde", NAME]
        environment = {**os.environ, "PYTHONPATH": str(KIT), "RINGSIDE_KIT": str(toy_kit)}
        process = subprocess.Popen(
            words, cwd=registered.root, env=environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            # Whatever runs the tests may ignore it, as a shell does for what it starts aside.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_nbgrader_that_was_interrupted_goes_on_where_it_was(
    registered: Course,
    plan: Assignment,
    nbgrader: Callable[[], subprocess.Popen[str]],
    number: signal.Signals,
) -> None:
    process = nbgrader()
    half = registered.build / "autograded" / "bob" / NAME
    end = time.monotonic() + 120
    while not (half / f"{NAME}.ipynb").exists():  # sanitised: bob is being graded
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(number)
    output = process.communicate(timeout=120)[0]
    assert process.returncode != 0, output
    assert half.exists() == (number == signal.SIGKILL)
    assert scores(registered)["ada"] == 30.0
    assert scores(registered)["bob"] == ""
    found = finding.find(plan, [registered.build / "submitted"])
    pipeline.GradingSession(plan, registered, toy_grader).grade(found)
    process = nbgrader()
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 0, output
    assert ("A run that was stopped has left only a part" in output) == (number == signal.SIGKILL)
    assert "Skipping existing assignment" in output  # ada's is whole
    assert scores(registered) == {"ada": 30.0, "bob": 9.0}


def test_half_a_feedback_page_is_made_anew_and_a_whole_one_is_not(
    graded_book: Course, notebook: Notebook, hand_in: HandIn
) -> None:
    hand_in("bob", notebook())
    nbgrader_steps.autograde(graded_book, NAME)
    nbgrader_steps.generate_feedback(graded_book, NAME)
    ada, bob = (graded_book.build / "feedback" / n / NAME / f"{NAME}.html" for n in ("ada", "bob"))
    whole, before = ada.read_bytes(), bob.stat().st_mtime_ns
    ada.chmod(0o644)
    ada.write_bytes(whole[:-200])
    gc.collect()  # the exporters of before hold the course until they go
    config, coursedir = nbgrader_steps._directory(graded_book)
    coursedir.assignment_id = NAME
    nbgrader_steps.GenerateFeedback(coursedir=coursedir, config=config).start()
    assert ada.read_bytes() == whole
    assert bob.stat().st_mtime_ns == before


# -- temporary files ---------------------------------------------------------------------------

RUN = """
import os, sys, time; sys.path.insert(0, {kit!r})
from autograder import scratch
print(scratch.new("mine-"), flush=True)
{then}
"""


def start_run(then: str) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", RUN.format(kit=str(KIT), then=then)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip()).parent


def test_a_run_removes_what_dead_runs_have_left_and_nothing_of_live_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    live, its = start_run("time.sleep(600)")
    dead, left = start_run("time.sleep(600)")
    dead.kill()
    dead.communicate()
    (tmp_path / f"{scratch.PREFIX}unlocked").mkdir()  # killed before it had a lock
    foreign = tmp_path / f"{scratch.PREFIX}baseline"
    foreign.mkdir()
    (foreign / "times.csv").touch()
    (tmp_path / f"{scratch.PREFIX}link").symlink_to(KIT)
    assert its.parent == left.parent == tmp_path and left.exists()
    last, own = start_run("")
    assert last.wait() == 0
    last.communicate()
    link = tmp_path / f"{scratch.PREFIX}link"
    assert sorted(tmp_path.iterdir()) == sorted([its, foreign, link])
    assert (foreign / "times.csv").exists()
    assert own != its and KIT.exists()
    live.kill()
    live.communicate()


def test_whoever_joins_a_run_removes_its_folder_when_the_others_are_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    first, folder = start_run("time.sleep(600)")
    join = (
        f"import sys; sys.path.insert(0, {str(KIT)!r}); from pathlib import Path\n"
        "from autograder import scratch; print(scratch.join(Path(sys.argv[1])), flush=True)\n"
        "sys.stdin.read()"
    )
    second = subprocess.Popen(
        [sys.executable, "-c", join, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert second.stdout is not None
    assert second.stdout.readline() == "True\n"
    first.kill()
    first.communicate()
    assert folder.exists()
    second.communicate("")
    assert not folder.exists()
    assert not scratch.join(folder)


@pytest.mark.parametrize(
    ("command", "says"),
    [("verify", "stopped"), ("grade", "stopped; what was graded is kept")],
)
def test_ctrl_c_stops_a_command_in_one_line(
    command: str, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(verify, "run", stops)
    monkeypatch.setattr(cli_grade, "run", stops)
    assert cli.main([command, NAME, *(["folder"] if command == "grade" else [])]) == 130
    assert capsys.readouterr().err == f"autograder: {says}.\n"


def test_ctrl_c_while_it_is_imported_shows_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        @staticmethod
        def find_spec(*_: object) -> None:
            raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "autograder.commands.cli")
    monkeypatch.setattr(sys, "meta_path", [Interrupted, *sys.meta_path])
    assert run() == 130
