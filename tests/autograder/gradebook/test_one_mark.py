"""A mark follows from what was handed in, the suite, what people gave and the term's rules.

Commands are typed in any order, and between them points are given in the formgrader, decisions
made and dates moved. Whatever reads the mark then finds the one that the last facts give.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
import json
import math
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from autograder.commands import cli
from autograder.course import database, nbgrader_steps, receipt
from autograder.course.course import Course
from autograder.grade import cache, class_grading, pipeline
from autograder.grade.pipeline import Sources
from autograder.grade.suite.result import ModuleResult
from autograder.gradebook import total
from autograder.sandbox.sandbox import Tier
from tests.autograder.conftest import NAME, solved, toy_grader

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
DUE = datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)
TERM = """[weights]
a99_toy = 1
[late]
grace_days = 0
[released]
a99_toy = 2019-12-22T12:00:00Z
[due]
a99_toy = {due:%Y-%m-%dT%H:%M:%SZ}
"""
TEAM = ("ada", "bob")  # bob hands in nothing himself; cy is alone
PARTS = ("one", "two", "more", "one_cluster", "words")


@dataclass
class Facts:
    """All that a mark is a function of."""

    suite: dict[str, float] = field(
        default_factory=lambda: {"one": 9.0, "two": 60.0, "more": 20.0, "one_cluster": 0.0}
    )
    hand: dict[tuple[str, str], float] = field(default_factory=dict)  # (student, part)
    decided: dict[tuple[str, str], float] = field(default_factory=dict)
    due: datetime.datetime = DUE
    days: dict[str, float] = field(default_factory=dict)  # extensions
    factor: dict[str, float] = field(default_factory=dict)
    excused: set[str] = field(default_factory=set)
    mended: bool = False  # the suite gives `one` more

    def own_due(self, student: str) -> datetime.datetime:
        began = datetime.datetime(2019, 12, 22, 12, tzinfo=datetime.UTC)
        longer = (self.due - began) * (self.factor.get(student, 1.0) - 1)
        return self.due + datetime.timedelta(days=self.days.get(student, 0.0)) + longer

    def mark(self, student: str) -> tuple[float, float] | None:
        """The oracle: the score, and what lateness leaves of it; None while a text is unread."""
        team = TEAM if student in TEAM else (student,)
        by_hand: dict[str, float] = {}
        for part in PARTS:
            given = {self.hand[who, part] for who in team if (who, part) in self.hand}
            if part in ("words", "one_cluster"):  # what one member has, the others have
                if (student, part) in self.hand:
                    by_hand[part] = self.hand[student, part]
                elif len(given) == 1:
                    by_hand[part] = given.pop()
            elif (student, part) in self.hand:
                by_hand[part] = self.hand[student, part]
        points = self.suite | by_hand
        points |= {part: each for (who, part), each in self.decided.items() if who == student}
        if "words" not in points:
            return None
        late_s = (DUE + 3 * HOUR - max(map(self.own_due, team))).total_seconds()
        days = math.ceil(late_s / 86_400) if late_s > 900 else 0
        score = sum(points.values())
        return score, score * (1 - min(50, 10 * days) / 100)


@dataclass
class Term:
    """A course, and everything that its teachers do to it."""

    course: Course
    folder: Path
    facts: Facts
    mend: Callable[[], None]

    def write_term(self) -> None:
        self.course.settings.write_text(TERM.format(due=self.facts.due))

    # -- commands, which change no fact --------------------------------------------------------

    def autograde(self) -> None:
        self._take_the_suite()
        nbgrader_steps.autograde(self.course, NAME)

    def regrade(self) -> None:
        self._take_the_suite()
        self._run("regrade", NAME, "--yes")

    def feedback(self) -> None:
        nbgrader_steps.generate_feedback(self.course, NAME)

    def export(self, kind: str) -> None:
        self._run("export", NAME, "--partial", "--to", kind, "--out", str(self.folder / kind))

    def total(self) -> None:
        self._run("total", "--csv", str(self.folder / "total.csv"))

    def report(self) -> None:
        self._run("report", NAME)

    # -- facts ---------------------------------------------------------------------------------

    def by_hand(self, student: str, part: str, points: float | None) -> None:
        """As the formgrader writes it: nbgrader's `GradeHandler.put`."""
        extra = part == "more"
        with database.open_gradebook(self.course) as book:
            name = f"check_{part}" if part in ("one", "two", "more") else part
            grade = book.find_grade(name, NAME, NAME, student)
            grade.manual_score = None if extra else points
            grade.extra_credit = points if extra else None
            grade.needs_manual_grade = grade.manual_score is None and grade.auto_score is None
            book.db.commit()
        if points is not None:
            self.facts.hand[student, part] = points
        else:
            self.facts.hand.pop((student, part), None)

    def decide(self, student: str, part: str, points: float | None) -> None:
        team = TEAM if student in TEAM else (student,)
        if points is None and (student, part) not in self.facts.decided:
            return
        words = [] if points is None else ["--points", str(points)]
        self._run("decide", NAME, student, part, *words, "--why", "Because.")
        for each in team:
            if points is None:
                self.facts.decided.pop((each, part), None)
            else:
                self.facts.decided[each, part] = points

    def due(self, hours: int) -> None:
        self.facts.due = DUE + hours * HOUR
        self.write_term()

    def extend(self, student: str, days: float) -> None:
        self.facts.days[student] = days
        rows = "".join(f"{who},{NAME},{more}\n" for who, more in self.facts.days.items())
        self.course.extensions.write_text("student,assignment,days\n" + rows)

    def accommodate(self, student: str, factor: float) -> None:
        self.facts.factor[student] = factor
        rows = "".join(f"{who},{more}\n" for who, more in self.facts.factor.items())
        self.course.accommodations.write_text("student,factor\n" + rows)
        self.course.accommodations.chmod(0o600)

    def mend_and_regrade(self) -> None:
        self.facts.mended = True
        self.mend()
        self.regrade()

    # -- readers -------------------------------------------------------------------------------

    def seen(self, student: str) -> dict[str, Any]:
        """The mark as each reader says it: the score that counts."""
        with (self.folder / "csv").open(newline="") as stream:
            ours = {row["student"]: row for row in csv.DictReader(stream)}
        with (self.folder / "nbgrader").open(newline="") as stream:
            theirs = {row["student"]: row for row in csv.DictReader(stream)}
        with (self.folder / "canvas").open(newline="") as stream:
            canvas = {row["SIS Login ID"]: row["A toy"] for row in csv.DictReader(stream)}
        with (self.folder / "moodle").open(newline="") as stream:
            moodle = {row["Username"]: row["A toy"] for row in csv.DictReader(stream)}
        results = self.folder / "gradescope" / student / "results.json"
        totals = {row.student: row for row in total.of_course(self.course).rows}
        text = (self.course.feedback(student, NAME) / f"{NAME}.html").read_text()
        found = re.search(r'<div class="total">\s*<strong>([-\d.e+]+)', text)
        assert found is not None
        api = nbgrader_steps.api(self.course).get_submission(NAME, student)
        with database.open_gradebook(self.course) as book:
            column = book.find_submission(NAME, student).late_submission_penalty
        return {
            "export csv": _number(ours[student]["score"]),
            "export nbgrader": _number(theirs[student]["score"]),
            "canvas": _number(canvas[student]),
            "moodle": _number(moodle.get(student, "")),
            "gradescope": json.loads(results.read_text())["score"] if results.is_file() else None,
            "total": totals[student].percent,
            "page": float(found[1]),
            "formgrader, before lateness": api["score"],
            "nbgrader's column": api["score"] - column,
        }

    def check(self) -> None:
        """All readers find the oracle's mark."""
        for path in ("csv", "nbgrader", "canvas", "moodle"):
            (self.folder / path).unlink(missing_ok=True)
        shutil.rmtree(self.folder / "gradescope", ignore_errors=True)
        for kind in ("csv", "nbgrader", "canvas", "moodle", "gradescope"):
            self.export(kind)
        self.feedback()
        for student in (*TEAM, "cy"):
            mark, seen = self.facts.mark(student), self.seen(student)
            if mark is None:
                blank = ("export csv", "export nbgrader", "canvas", "moodle", "gradescope", "total")
                assert {name: seen[name] for name in blank} == dict.fromkeys(blank), student
                continue
            wanted = dict.fromkeys(seen, mark[1]) | {"formgrader, before lateness": mark[0]}
            assert seen == pytest.approx(wanted, abs=0.006), (student, mark)

    def _take_the_suite(self) -> None:
        if self.facts.mended:
            self.facts.suite["one"] = 13.5

    def _run(self, *words: str) -> None:
        quiet = io.StringIO()
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            status = cli.main(list(words))
        assert status == 0, quiet.getvalue()


def _number(cell: str) -> float | None:
    return float(cell) if cell else None


@pytest.fixture
def new_term(
    course: Course,
    registered_build: Path,
    notebook: Callable[..., nbformat.NotebookNode],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Callable[[], Term]:
    """Makes a course of three students, late by three hours, of whom nothing is graded yet."""
    monkeypatch.setattr(class_grading, "best_tier", lambda **_: Tier.NONE)
    digest, mended = cache.kit_digest, [False]

    def grade(assignment: str, sources: Sources, module: str) -> ModuleResult:
        result = toy_grader(assignment, sources, module)
        if mended[0] and module == "one":
            result.tests[0].earned = 45.0
        return result

    def other(kit: Path, assignment: str, module: str) -> str:
        return digest(kit, assignment, module) + ("mended" if mended[0] else "")

    monkeypatch.setattr(pipeline, "suite_grader", lambda course, **_: grade)
    monkeypatch.setattr(cache, "kit_digest", other)
    work = notebook(
        one="%%writefile one.py\n'half'", two=solved("two"), more=solved("more"), words="I saw it."
    )

    def make() -> Term:
        mended[0] = False
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        fresh = Course(kit=course.kit, root=folder / "course")
        monkeypatch.setenv("RINGSIDE_COURSE", str(fresh.root))
        shutil.copytree(registered_build, fresh.build)
        for student in ("ada", "cy"):
            place = fresh.submitted(student, NAME)
            place.mkdir(parents=True)
            (place / f"{NAME}.ipynb").write_text(json.dumps(work))
            receipt.record(fresh, NAME, student, DUE + 3 * HOUR)
        fresh.teams(NAME).parent.mkdir()
        fresh.teams(NAME).write_text("team,student\nred,ada\nred,bob\n")
        term = Term(fresh, folder, Facts(), lambda: mended.__setitem__(0, True))
        term.write_term()
        return term

    return make


STUDENTS = st.sampled_from(["ada", "bob", "cy"])
COMMANDS = st.one_of(
    st.just(("autograde",)),
    st.just(("regrade",)),
    st.just(("feedback",)),
    st.just(("total",)),
    st.just(("report",)),
    st.tuples(st.just("export"), st.sampled_from(["csv", "canvas", "nbgrader"])),
)
# Decisions and the formgrader give different numbers, so that what is left tells whose it is.
DECISIONS = st.tuples(
    st.just("decide"),
    STUDENTS,
    st.sampled_from(["one", "more", "words"]),
    st.sampled_from([1.5, 4.5, None]),
)
DATES = st.one_of(
    st.tuples(st.just("due"), st.sampled_from([-72, -30, 0, 2, 12])),
    st.tuples(st.just("extend"), STUDENTS, st.sampled_from([0.0, 1.0, 2.0])),
    st.tuples(st.just("accommodate"), STUDENTS, st.sampled_from([1.05, 1.5])),
)
HAND = st.tuples(
    st.just("by_hand"),
    STUDENTS,
    st.sampled_from(["two", "more", "words"]),
    st.sampled_from([1.0, 3.0]),
)
BEFORE = st.lists(st.one_of(DECISIONS, DATES), max_size=2)
AFTER = st.lists(
    st.one_of(COMMANDS, COMMANDS, HAND, HAND, DECISIONS, DATES, st.just(("mend_and_regrade",))),
    max_size=8,
)


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],  # shrinking would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@example([], [("by_hand", "cy", "words", 3.0)])
@given(BEFORE, AFTER)
def test_the_order_and_number_of_commands_change_no_mark(
    new_term: Callable[[], Term], before: list[tuple[Any, ...]], after: list[tuple[Any, ...]]
) -> None:
    term = new_term()
    for name, *words in [*before, ("autograde",), *after]:
        getattr(term, name)(*words)
    term.check()
