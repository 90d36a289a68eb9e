"""Makes the class, grades it with nbgrader's own commands, and says where everything lies."""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from autograder import scratch, storage
from autograder.author.demo.students import ASSIGNMENT, STUDENTS, Student, hand_in, source
from autograder.author.new_course import CONFIGURATION
from autograder.collect import submissions
from autograder.collect.rebuild import release_notebook
from autograder.course import assignment as plans
from autograder.course import database, receipt
from autograder.course import secret as course_secret
from autograder.course.assignment import Assignment
from autograder.course.course import CONFIG, Course
from autograder.course.secret import PUBLIC_SECRET
from autograder.grade import pipeline
from autograder.gradebook.nbgrader import csv_export, grades
from autograder.gradebook.nbgrader.release import register
from autograder.publish import build
from autograder.sandbox.sandbox import best_tier
from ringside import output_folder

DUE = datetime.datetime(2026, 3, 1, 23, 59, tzinfo=datetime.UTC)
COMMAND = "autograder demo"


class DemoError(OSError):
    """The demo can't be made where it was asked for."""


def run(folder: Path | None, *, jobs: int, console: Console) -> int:
    """Make, grade and show the class in `folder`; gives the exit status."""
    started = time.monotonic()
    kit = Course.here().kit
    root = (folder or kit / "build" / "demo").resolve()
    # The class is there to be played with; only what is added to it is not the demo's.
    with (
        storage.making(root.parent, otherwise="Or name a folder elsewhere: `--to FOLDER`."),
        output_folder.made_anew(root, COMMAND, protected=[kit], exact=False) as fresh,
    ):
        plan = _graded_class(Course(kit=kit, root=fresh), jobs, console)
    course = Course(kit=kit, root=root)
    console.print()
    console.print(class_table(plan, course))
    _say_where(course, plan, console)
    console.print(f"{time.monotonic() - started:.0f} s in all.")
    return 0


def _graded_class(course: Course, jobs: int, console: Console) -> Assignment:
    """A class in `course`, graded; its folder is renamed afterwards."""
    plan = plans.load(ASSIGNMENT, course)
    best_tier()  # refuse now, not when all is made ready
    _ensure_release(plan, course, console)
    console.print(f"A class of {len(STUDENTS)} hands in {plan.name}.")
    write_class(plan, course)
    with scratch.fresh("release-") as folder:
        register(plan, course, folder)
    database.set_due(course, plan.name, DUE)
    database.name_students(course, {s.name: (s.name.title(), s.family) for s in STUDENTS})
    graded = time.monotonic()
    _grade(plan, course, jobs)
    console.print(f"Graded in {time.monotonic() - graded:.0f} s; results are kept by content.")
    for arguments in (
        ["autograde", plan.name],
        ["generate_feedback", plan.name],
        ["export", "--to", str(course.build / "grades.csv")],
    ):
        nbgrader(course, arguments, console)
    return plan


def _ensure_release(plan: Assignment, course: Course, console: Console) -> None:
    """The release and nbgrader's source, built where they are missing or stale."""
    kit = Course(kit=course.kit, root=course.kit)
    if build.stale(plan, kit) or not kit.source(plan.name).is_dir():
        console.print(f"Building assignments/{plan.name}.")
        build.build(plan, kit, console.print)
    shutil.copytree(kit.source(plan.name), course.source(plan.name))
    (course.root / CONFIG).write_text(CONFIGURATION, encoding="utf-8")
    (course.root / course_secret.FILE).write_text(PUBLIC_SECRET, encoding="utf-8")
    course.settings.write_text('runs = "word"\n', encoding="utf-8")  # its run was made here


def write_class(plan: Assignment, course: Course) -> None:
    """Put every student's hand-in into nbgrader's submitted tree, as collecting leaves it."""
    release = release_notebook(plan, course.release(plan.name))
    record = _run_of_reference(plan, course)
    for student in STUDENTS:
        folder = course.submitted(student.name, plan.name)
        folder.mkdir(parents=True)
        (folder / plan.notebook).write_bytes(hand_in(student, release, course))
        _write_files(student, folder, course, record)
        late = datetime.timedelta(hours=student.late_hours or -5.0)
        receipt.record(course, plan.name, student.name, DUE + late)


def _write_files(student: Student, folder: Path, course: Course, record: bytes | None) -> None:
    if student.ran_on_cluster and record is not None:
        (folder / "run.json").write_bytes(record)
    if student.timestamp:
        (folder / "timestamp.txt").write_text(student.timestamp + "\n", encoding="utf-8")
    if student.link:
        (folder / student.link).symlink_to(course.database)


def _run_of_reference(plan: Assignment, course: Course) -> bytes | None:
    """A real run of the reference on this machine's MPI; None where that doesn't work."""
    if not plan.runs:
        return None
    module = plan.runs[0].module
    with scratch.fresh("run-") as folder:
        (folder / f"{module}.py").write_text(
            source(course, module, "reference") + "\n", encoding="utf-8"
        )
        scratch.lay(plan.supplied, course.solution(plan.name), folder)
        command = [sys.executable, "-m", "ringside", "launch", f"{module}.py:all_reduce"]
        subprocess.run(
            [*command, "--site", "local"],
            cwd=folder,
            env=_environment(course),
            capture_output=True,
            timeout=120,
            check=False,
        )
        path = folder / "run.json"
        return path.read_bytes() if path.is_file() else None


def _grade(plan: Assignment, course: Course, jobs: int) -> None:
    """Grade in parallel before nbgrader asks: it then finds every result in the store."""
    session = pipeline.GradingSession(plan, course, pipeline.suite_grader(course), jobs=jobs)
    outcomes = session.grade(submissions.find(plan, [course.build / "submitted"], "submitted"))
    faults = [f"{o.student}: {o.message}" for o in outcomes if o.status == "grader_error"]
    if faults:
        raise DemoError(
            f"{len(faults)} of {len(outcomes)} can't be graded. The first is {faults[0]}"
        )


def _environment(course: Course) -> dict[str, str]:
    paths = [str(course.kit), os.environ.get("PYTHONPATH", "")]
    bin_folder = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "RINGSIDE_COURSE": str(course.root),  # not the instructor's own
        "PATH": os.pathsep.join([bin_folder, os.environ.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


def nbgrader(course: Course, words: Sequence[str], console: Console) -> None:
    """Run one of nbgrader's own commands in the course's folder."""
    started = time.monotonic()
    answer = subprocess.run(
        [sys.executable, "-m", "nbgrader", *words],
        cwd=course.root,
        env=_environment(course),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    (course.build / f"{words[0]}.log").write_text(answer.stdout, encoding="utf-8")
    if answer.returncode != 0:
        tail = "\n".join(answer.stdout.splitlines()[-15:])
        raise DemoError(f"nbgrader {' '.join(words)} failed:\n{tail}")
    console.print(f"nbgrader {words[0]}: {time.monotonic() - started:.0f} s")


def class_table(plan: Assignment, course: Course) -> Table:
    """The gradebook as it stands, one row per student."""
    with database.open_gradebook(course) as book:
        rows = {str(row["student"]): row for row in csv_export.rows(book, [plan.name], [])}
        points = {name: grades.cell_scores(book, plan.name, name) for name in rows}
    table = Table(title=f"{plan.title}: the gradebook", title_justify="left", header_style="bold")
    table.add_column("student")
    columns = [
        *((f"check_{m.name}", m.name, f"+{m.weight:g}" if m.extra else f"{m.weight:g}")
          for m in plan.modules),
        *((r.name, "run", f"{r.points:g}") for r in plan.runs),
    ]  # fmt: skip
    for _, name, weight in columns:
        table.add_column(f"{name.replace('_', ' ')}\n{weight}", justify="right")
    for name in ("late", "score", "by hand", "what it shows"):
        table.add_column(name, justify="right" if name in ("late", "score") else "left")
    for student in STUDENTS:
        row = rows[student.name]
        late = float(str(row["late_seconds"])) / 3600
        table.add_row(
            student.name,
            *(f"{points[student.name].get(cell, 0.0):.3g}" for cell, _, _ in columns),
            f"{late:.3g} h" if late else "",
            f"[bold]{float(str(row['score'])):.4g}[/bold]",
            "to do" if row["needs_manual_grade"] == "yes" else "",
            student.shows,
        )
    return table


def _say_where(course: Course, plan: Assignment, console: Console) -> None:
    def short(path: Path) -> str:
        return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)

    pages = sorted((course.build / "feedback").glob(f"*/{plan.name}/*.html"))
    console.print()
    console.print(f"CSV        {short(course.build / 'grades.csv')}", soft_wrap=True)
    for page in pages:
        console.print(f"feedback   {short(page)}", soft_wrap=True)
    console.print(
        f"formgrader  cd {short(course.root)} && jupyter notebook, then Nbgrader > Formgrader",
        soft_wrap=True,
    )
