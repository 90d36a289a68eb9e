"""A course from `autograder new-course` to the grades on the platform, by the commands as typed.

exchange     release -> fetch -> hand in -> collect -> autograde -> points and comment by hand
             -> feedback -> the student fetches it
platforms    downloads of Canvas, Moodle, Gradescope -> grade, collect, autograde -> handed in
             again -> a mended suite -> regrade -> Canvas' gradebook, and its file as a roster
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from autograder.course import database
from autograder.course.course import Course
from autograder.gradebook.nbgrader import csv_export
from autograder.sandbox.sandbox import SandboxUnavailable, best_tier
from tests.autograder.conftest import KIT
from tests.requirements import lay_requirements

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]

NAME = "a77_walk"
PLAN = """title = "A walk"
[[module]]
name = "double"
title = "Twice the sum"
weight = 90
[[paragraph]]
name = "words"
title = "In your words"
points = 10
"""
NOTEBOOK = """# %% [markdown]
# # A walk
# %%
# {{module double}}
# %%
# {{check double}}
# %% [markdown]
# What did you see?
# %%
# {{paragraph words points=10}}
"""
MODULE = '''"""Twice the sum of all ranks."""


def double(comm, x):
    """Give it to every rank."""
    ### BEGIN SOLUTION
    return 2 * comm.allreduce(x)
    ### END SOLUTION
'''
SUITE = '''"""double.py"""

from dataclasses import dataclass

from ringside.checking.cases import Vectors
from ringside.checking.suite import Suite, hidden

suite = Suite("double")


@dataclass(frozen=True)
class Double(Vectors):
    target = "double:double"
    factor: int = 2

    def summands(self, rank):
        return self.factor * list(super().summands(rank))


@suite.test("plain", "values", Double())
def test_values(case, run):
    pass


@suite.test("longer", "values", Double(n=20))
def test_longer_vectors(case, run):
    pass


hidden(test_values, Double(n=5))
hidden(test_longer_vectors, Double(n=70, factor=FACTOR))
'''
WRONG_SUITE, MENDED_SUITE = SUITE.replace("FACTOR", "3"), SUITE.replace("FACTOR", "2")
RIGHT = MODULE.replace("    ### BEGIN SOLUTION\n", "").replace("    ### END SOLUTION\n", "")
ONCE = RIGHT.replace("2 * ", "")
ROSTER = """Student,ID,SIS User ID,SIS Login ID,Section,A walk (4711)
    Points Possible,,,,,100
"Adeyemi, Ada",1022,u76,ada,1,
"Bartha, Bela",1023,u77,bela,1,
李明,1024,u78,ming,1,
"von der Au, Zoë",1025,u79,zoe@uni.example,1,
"Gray, Gus",1026,0080,gus,1,
"""
WORKSHEET = """Identifier,Full name,Email address,Grade,Maximum Grade,Last modified (submission)
Participant 55123,Zoë von der Au,zoe@uni.example,,100.00,"Sunday, 1 March 2026, 9:00 PM"
"""
METADATA = """submission_4711:
  :submitters:
  - :name: Gus Gray
    :sid: '0080'
    :email: gus@uni.example
  :created_at: 2026-03-01 20:11:12.345678000 Z
"""


class Walk:
    """A machine with an exchange: a kit, an instructor's course in it, a student's home."""

    def __init__(self, place: Path) -> None:
        self.place, self.kit = place, place / "kit"
        self.course, self.home = place / "pdl 2026", place / "ada"
        self._make_kit()
        exchange = {"Exchange": {"root": str(place / "exchange")}}
        for who, settings in (
            ("etc", exchange), ("ada/.jupyter", {"CourseDirectory": {"student_id": "ada"}}),
        ):  # fmt: skip
            (place / who).mkdir(parents=True)
            settings.setdefault("CourseDirectory", {})["course_id"] = "ringside"  # type: ignore[attr-defined]
            (place / who / "nbgrader_config.json").write_text(json.dumps(settings))
        (place / "exchange").mkdir()
        (place / "exchange").chmod(0o777)

    def _make_kit(self) -> None:
        ignored = shutil.ignore_patterns("__pycache__", "a0*", "a1*", "lectures", "validation")
        for name in ("autograder", "ringside", "cluster"):
            shutil.copytree(KIT / name, self.kit / name, ignore=ignored)
        shutil.copy(KIT / "nbgrader_config.py", self.kit)
        for path, text in {
            f"solutions/{NAME}/assignment.toml": PLAN,
            f"solutions/{NAME}/notebook.py": NOTEBOOK,
            f"solutions/{NAME}/double.py": MODULE,
            f"solutions/{NAME}/checks/test_double.py": WRONG_SUITE,
        }.items():
            (self.kit / path).parent.mkdir(parents=True, exist_ok=True)
            (self.kit / path).write_text(text)
        lay_requirements(self.kit / f"solutions/{NAME}/checks", "double", plain=70, longer=30)

    def type(self, line: str, *words: Path, where: Path | None = None) -> str:
        """A command as it is typed in a folder, in the course if none is named."""
        where = where or self.course
        program, *rest = line.split()
        me = self.home if where.is_relative_to(self.home) else self.place / "instructor"
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("JUPYTER", "NBGRADER", "PYTEST", "RINGSIDE"))
        }
        done = subprocess.run(
            [sys.executable, "-m", program, *rest, *map(str, words)],
            cwd=where,
            env={
                **kept,
                "HOME": str(me),
                "JUPYTER_CONFIG_DIR": str(me / ".jupyter"),
                "JUPYTER_CONFIG_PATH": str(self.place / "etc"),
                "JUPYTER_DATA_DIR": str(me / ".data"),
                "IPYTHONDIR": str(me / ".ipython"),
                "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
                "PYTHONPATH": str(self.kit),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def scores(self) -> dict[str, float]:
        """What the gradebook holds."""
        with database.open_gradebook(Course(self.kit, self.course)) as book:
            rows = csv_export.rows(book, [NAME], [])
            return {str(row["student"]): float(str(row["raw_score"])) for row in rows}

    def page(self, student: str) -> str:
        return (self.course / "build" / "feedback" / student / NAME / f"{NAME}.html").read_text()


def write_cells(notebook: Path, **cells: str) -> None:
    """What a student does in Jupyter."""
    book = nbformat.read(notebook, as_version=4)
    for cell in book.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in cells:
            cell.source = cells[name]
    nbformat.write(book, notebook)


def packed(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def exported(path: Path) -> dict[str, str]:
    with path.open(newline="", encoding="utf-8") as stream:
        return {row["ID"]: row["A walk (4711)"] for row in csv.DictReader(stream) if row["ID"]}


@pytest.fixture
def walk(tmp_path: Path) -> Walk:
    try:
        best_tier()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    return Walk(tmp_path)


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_an_instructor_walks_from_a_new_course_to_grades_on_the_platform(walk: Walk) -> None:
    # -- a course, and a student on its exchange
    walk.type(f"autograder build {NAME}", where=walk.kit)
    assert "Next: cd" in walk.type("autograder new-course", walk.course, where=walk.place)
    walk.type(f"nbgrader release_assignment {NAME}")
    walk.type(f"nbgrader fetch_assignment {NAME}", where=walk.home)
    folder = walk.home / NAME
    assert sorted(path.name for path in folder.iterdir()) == [f"{NAME}.ipynb", "checks"]
    write_cells(folder / f"{NAME}.ipynb", double=f"%%module double.py\n{RIGHT}", words="It adds.")
    (folder / "double.py").write_text(RIGHT)
    assert "Submitted to the course's exchange" in walk.type("ringside handin", where=folder)
    walk.type(f"nbgrader collect {NAME}")

    # -- the others hand in on three platforms
    canvas = packed(walk.place / "submissions.zip", {
        "barthabela_1023_9001_double.py": ONCE, "李明_LATE_1024_9002_double.py": RIGHT,
    })  # fmt: skip
    moodle = walk.place / "moodle"
    (moodle / "Zoë von der Au_55123_assignsubmission_file_").mkdir(parents=True)
    handed_in = moodle / "Zoë von der Au_55123_assignsubmission_file_"
    packed(handed_in / f"{NAME}.zip", {f"{NAME}.ipynb": "{ damaged", "double.py": RIGHT})
    (walk.place / "worksheet.csv").write_text(WORKSHEET)
    gradescope = packed(walk.place / "export.zip", {
        "export/submission_metadata.yml": METADATA, "export/submission_4711/double.py": ONCE,
    })  # fmt: skip
    given = [canvas, moodle, gradescope, Path("--roster"), walk.place / "worksheet.csv"]
    told = walk.type(f"autograder grade {NAME} --json out.json", *given)
    graded = json.loads((walk.course / "out.json").read_text())["submissions"]
    first = {"0080": 0, "1023": 0, "1024": 63, "zoe@uni.example": 63}
    assert {each["student"]: each["score"] for each in graded} == first
    assert "1024 (李明)" in told and "zoe@uni.example (Zoë von der Au): The notebook is not" in told
    assert "4 submissions (4 new)." in walk.type(f"autograder collect {NAME}", *given)

    # -- into the gradebook; a person reads ada's text
    walk.type(f"nbgrader autograde {NAME}")
    assert walk.scores() == {**first, "ada": 63}
    with database.open_gradebook(Course(walk.kit, walk.course)) as book:
        assert book.find_submission(NAME, "ada").needs_manual_grade
        grade = book.find_grade("words", NAME, NAME, "ada")
        grade.manual_score, grade.needs_manual_grade = 8.0, False
        book.find_comment("words", NAME, NAME, "ada").manual_comment = "Say what it adds."
        book.db.commit()
    walk.type(f"nbgrader generate_feedback {NAME}")
    walk.type(f"nbgrader release_feedback {NAME}")
    walk.type(f"nbgrader fetch_feedback {NAME}", where=walk.home)
    (page,) = (walk.home / NAME / "feedback").rglob("*.html")
    assert "Say what it adds." in page.read_text() and "<strong>71</strong>" in page.read_text()
    assert "handed in beside it were graded instead: double.py" in walk.page("zoe@uni.example")

    # -- bela hands in again; then the suite turns out to be wrong
    again = packed(walk.place / "again.zip", {"barthabela_1023_9044_double-1.py": RIGHT})
    assert "(1 replaced)" in walk.type(f"autograder collect {NAME}", again)
    walk.type(f"nbgrader autograde {NAME}")
    assert walk.scores() == {**first, "ada": 71, "1023": 63}
    suite = walk.kit / "solutions" / NAME / "checks" / "test_double.py"
    suite.write_text(MENDED_SUITE)
    told = walk.type(f"autograder regrade {NAME} --yes")
    assert "4 students with other points; 1 as before" in told
    final = {"ada": 98, "1023": 90, "1024": 90, "zoe@uni.example": 90, "0080": 0}
    assert walk.scores() == final
    walk.type(f"nbgrader generate_feedback {NAME}")
    assert "<strong>98</strong>" in walk.page("ada") and "Say what it adds." in walk.page("ada")

    # -- to Canvas, and back
    roster, grades = walk.place / "canvas.csv", walk.place / "grades.csv"
    roster.write_text(ROSTER)
    words = f"autograder export {NAME} --to canvas --raw --out"
    told = walk.type(words, grades, Path("--roster"), roster)
    assert "Scores are the gradebook's" in told
    wanted = {"1022": "98.0", "1023": "90.0", "1024": "90.0", "1025": "90.0", "1026": "0.0"}
    assert exported(grades) == wanted
    walk.type(words, walk.place / "again.csv", Path("--roster"), grades)
    assert (walk.place / "again.csv").read_bytes() == grades.read_bytes()
