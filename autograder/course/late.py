"""What lateness costs: extensions move a due date, grace days are spent, then each day has a price.

A submission is late by our receipt (`autograder.course.receipt`). For each student, over the
assignments of the course in the order of their due dates:

    late     receipt - (due date + the student's extension)
    days     days begun; none within the first ``grace_s`` seconds
    spent    min(days, ``grace_days_each``, what is left of ``grace_days``): spent by themselves
    penalty  (days - spent) * ``percent_per_day`` of the score, at most ``max_percent``

This is computed anew from all receipts each time, so the same receipts give the same penalties,
whatever was graded first. The points that a penalty takes follow from the score when somebody
reads it (`penalty`): nbgrader stores them when it autogrades, so `tell` writes them anew before a
mark is read.

Extensions stand in ``build/extensions.csv`` (student, assignment, days; one line each, 1.5 is a
day and a half; a column ``note`` may say why). They need no submission, where nbgrader's own
(``Gradebook.grant_extension``) do; where both say something the file goes first.

A student with a factor in ``build/accommodations.csv`` has that much more of the time from an
assignment's release to its due date, and an extension on top. A team is late by its newest
receipt, after the latest due date that one of its members has; the days are then spent and charged
for each member apart. Whoever is excused from an assignment is never late with it.

A due date stands in an assignment's ``assignment.toml``, or in the course's ``course.toml``, which
goes first; one that a person sets in nbgrader goes before both. nbgrader is told of dates and
extensions (`tell`), and a line that is removed is taken back from it (`applied_tables`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbgrader.api import MissingEntry, SubmittedAssignment, SubmittedNotebook
from nbgrader.plugins import LateSubmissionPlugin
from traitlets import Float, Integer

from autograder import tables
from autograder.course import (
    accommodations,
    applied_tables,
    database,
    excused,
    nbgrader_steps,
    receipt,
    settings,
    teams,
)
from autograder.course import assignment as plans
from autograder.course.assignment import AssignmentError
from autograder.course.course import Course
from autograder.tables import TableError

DAY_S = 86_400.0


@dataclass(frozen=True)
class Policy:
    """The course's rules; see the settings of `LatePenalty`."""

    percent_per_day: float = 10.0
    max_percent: float = 50.0
    grace_s: float = 900.0
    grace_days: int = 0
    grace_days_each: int = 0


@dataclass(frozen=True)
class Late:
    """One late submission."""

    assignment: str
    late_s: float  # after the student's own due date
    days: int  # begun
    spent: int  # grace days
    left: int  # of the student's grace days, after this
    percent: float  # of the score

    @property
    def sentence(self) -> str:
        """What became of the days, for the student."""
        if not self.days:
            return "That costs nothing."
        clauses = [f"{_days(self.spent)} of grace spent, {self.left} left"] if self.spent else []
        if self.percent:
            charged = self.days - self.spent
            clauses.append(f"{_days(charged)} charged: {self.percent:g} % of the score")
        return "; ".join(clauses) + "."


def _days(number: int) -> str:
    return "1 day" if number == 1 else f"{number} days"


@dataclass(frozen=True)
class Calendar:
    """When the assignments are due (naive UTC), and who has more time.

    Attributes:
        extensions: (student, assignment) -> what the student alone has, accommodations apart.
        factors: student -> by how much the time of each assignment is longer.
        released: when the time of each assignment began (naive UTC).
        teams: assignment -> student -> the team.
        excused: (student, assignment).
    """

    due: Mapping[str, datetime.datetime]
    extensions: Mapping[tuple[str, str], datetime.timedelta]
    factors: Mapping[str, float] = field(default_factory=dict)
    released: Mapping[str, datetime.datetime] = field(default_factory=dict)
    teams: Mapping[str, Mapping[str, teams.Team]] = field(default_factory=dict)
    excused: frozenset[tuple[str, str]] = frozenset()

    def more_time(self, student: str, assignment: str) -> datetime.timedelta:
        """After the due date: the extension and the accommodation; a team has its members' most."""
        team = self.teams.get(assignment, {}).get(student)
        return max(
            self._own(member, assignment) for member in (team.members if team else (student,))
        )

    def _own(self, student: str, assignment: str) -> datetime.timedelta:
        more = self.extensions.get((student, assignment), datetime.timedelta())
        factor = self.factors.get(student, 1.0)
        if factor > 1 and {assignment} <= self.due.keys() & self.released.keys():
            more += (factor - 1) * (self.due[assignment] - self.released[assignment])
        return more

    def late_s(self, student: str, assignment: str, moment: datetime.datetime) -> float:
        """How late a receipt is; nothing is late that has no due date, or need not be done.

        Raises:
            AssignmentError: it depends on an accommodation, and nobody knows from when that counts.
        """
        if assignment not in self.due or (student, assignment) in self.excused:
            return 0.0
        due = self.due[assignment] + self.more_time(student, assignment)
        late_s = receipt.late_seconds(moment, due)
        team = self.teams.get(assignment, {}).get(student)
        accommodated = {*(team.members if team else (student,))} & self.factors.keys()
        if late_s and accommodated and assignment not in self.released:
            raise AssignmentError(
                f"{student} is late with {assignment}, unless the factor in accommodations.csv "
                f"gives enough time, and nobody knows from when that time counts: write "
                f"`{assignment} = {tables.EXAMPLE}` below [released] in course.toml."
            )
        return late_s


def spend(policy: Policy, lateness: Sequence[tuple[str, float]]) -> dict[str, Late]:
    """What one student's late submissions cost; `lateness` is in the order of due dates.

    >>> found = spend(Policy(grace_days=3, grace_days_each=2), [("a", 3e5), ("b", 1e5)])
    >>> [(each.days, each.spent, each.left, each.percent) for each in found.values()]
    [(4, 2, 1, 20.0), (2, 1, 0, 10.0)]
    """
    costs: dict[str, Late] = {}
    rest_days = policy.grace_days
    for assignment, late_s in lateness:
        if late_s <= 0:
            continue
        # Past the grace all of the lateness counts, from the due date on.
        days = math.ceil(late_s / DAY_S) if late_s > policy.grace_s else 0
        spent = min(days, rest_days, policy.grace_days_each)
        rest_days -= spent
        percent = min(policy.max_percent, (days - spent) * policy.percent_per_day)
        costs[assignment] = Late(assignment, late_s, days, spent, rest_days, percent)
    return costs


def extensions(course: Course) -> dict[tuple[str, str], datetime.timedelta]:
    """The course's own list of extensions.

    Raises:
        AssignmentError: a line is not `student,assignment,days`; it is named.
    """
    path = course.extensions
    if not path.is_file():
        return {}
    durations: dict[tuple[str, str], datetime.timedelta] = {}
    try:
        for line, row in tables.rows(path, ("student", "assignment", "days"), also=("note",)):
            student, name = row["student"], row["assignment"]
            try:
                days = float(row["days"])
            except ValueError:
                days = math.nan
            if not student or not 0 <= days <= 1000:
                raise TableError(
                    f"{path}, line {line}: {row['days']!r} is no number of days "
                    "from 0 to 1000, or the student is missing."
                )
            if (student, name) in durations:
                raise TableError(
                    f"{path}, line {line}: {student} has an extension for {name} "
                    "already: keep one of the lines."
                )
            durations[student, name] = datetime.timedelta(days=days)
    except TableError as error:
        raise AssignmentError(str(error)) from None
    return durations


def calendar(course: Course, book: Any = None) -> Calendar:
    """Due dates and extensions: a person's in nbgrader, then the course's, then the kit's.

    Raises:
        AssignmentError: a line of the file is wrong, or names no assignment.
    """
    due = {}
    names = plans.known(course)
    for name in names:
        plan_due = plans.load(name, course).due_utc
        if plan_due is not None:
            due[name] = plan_due
    granted: dict[tuple[str, str], datetime.timedelta] = {}
    if book is None and course.database.is_file():
        with database.open_gradebook(course) as opened:
            return calendar(course, opened)
    if book is not None:
        ours = applied_tables.read(book)
        due |= {
            row.name: row.duedate
            for row in book.assignments
            if not applied_tables.agreed(ours, (row.name, applied_tables.DUE), row.duedate)
        }
        granted = {
            (row.student_id, row.assignment.name): row.extension
            for row in _extended(book)
            if not applied_tables.agreed(ours, (row.assignment.name, row.student_id), row.extension)
        }
    durations = extensions(course)
    for student, name in durations:
        if name not in due and name not in names:
            raise AssignmentError(
                f"{course.extensions}: {student} has an extension for {name!r}, which is no "
                f"assignment; {tables.meant(name, names)}"
            )
    return Calendar(
        due,
        granted | durations,
        accommodations.factors(course),
        _released(course, due),
        {name: by_student for name in names if (by_student := teams.of_students(course, name))},
        frozenset(excused.read(course)),
    )


def _released(course: Course, due: Mapping[str, datetime.datetime]) -> dict[str, datetime.datetime]:
    """When the assignments were handed out, in naive UTC."""
    try:
        dates = settings.released(course, tuple(plans.known(course)))
    except TableError as error:
        raise AssignmentError(str(error)) from None
    moments = {
        name: moment.astimezone(datetime.UTC).replace(tzinfo=None) for name, moment in dates.items()
    }
    for name, moment in moments.items():
        if name in due and moment >= due[name]:
            raise AssignmentError(
                f"{course.settings}: {name} is released {moment} UTC, and due {due[name]} UTC: the "
                "release must come first."
            )
    return moments


def _extended(book: Any) -> list[Any]:
    """The submissions for which nbgrader has an extension."""
    all_of_them = book.db.query(SubmittedAssignment)
    return list(all_of_them.filter(SubmittedAssignment.extension.isnot(None)))


def tell(course: Course) -> None:
    """Let nbgrader know the course's dates, extensions and receipts as they stand now.

    It finds by them who is late at all. What came from a line that was removed is taken back;
    what a person has set in nbgrader stays.

    Raises:
        AssignmentError: a line of a file is wrong.
    """
    if course.database.is_file():
        with database.open_gradebook(course) as book:
            tell_book(course, book)


def tell_book(course: Course, book: Any) -> None:
    """As `tell`, in a gradebook that is open; then all is committed."""
    ours, durations = applied_tables.read(book), extensions(course)
    names = set(plans.known(course))
    for assignment in book.assignments:
        if assignment.name not in names:
            continue
        due, key = (
            plans.load(assignment.name, course).due_utc,
            (assignment.name, applied_tables.DUE),
        )
        if assignment.duedate == due or applied_tables.agreed(ours, key, assignment.duedate):
            assignment.duedate = due
            applied_tables.write(book, key, due)
        receipts = receipt.arrived(course, assignment.name)
        for submission in assignment.submissions:
            moment = receipts.get(submission.student_id)
            submission.timestamp = moment and moment.replace(tzinfo=None)
    dates = calendar(course, book)
    for submission in book.db.query(SubmittedAssignment).all():
        _tell_extension(book, ours, durations, dates, submission)
    book.db.commit()
    _charge(book, of_course(course, dates))
    book.db.commit()


def _charge(book: Any, accounts: Mapping[str, Mapping[str, Late]]) -> None:
    """Write what lateness takes of each score as it is now, where nbgrader looks for it."""
    of = {
        submission.id: accounts.get(assignment.name, {}).get(submission.student_id)
        for assignment in book.assignments
        for submission in assignment.submissions
    }
    for notebook in book.db.query(SubmittedNotebook).all():
        late, charge = of.get(notebook.assignment_id), None
        if late is not None and late.percent:
            book.db.expire(notebook, ["score"])  # the sum of its cells may be another one
            charge = penalty(notebook.score, late)
        if notebook.late_submission_penalty != charge:
            notebook.late_submission_penalty = charge


def penalty(score: float, late: Late | None) -> float:
    """The points that lateness takes of a score; ``marks`` does the same without a gradebook."""
    return round(score * late.percent / 100.0, 4) if late is not None else 0.0


def _tell_extension(
    book: Any,
    ours: applied_tables.Told,
    own: Mapping[tuple[str, str], datetime.timedelta],
    dates: Calendar,
    submission: Any,
) -> None:
    """Let nbgrader know how much more time a submission has; a person's own word stays there.

    What the course's list says goes before that word.
    """
    name, student = submission.assignment.name, submission.student_id
    if (student, name) not in own and not applied_tables.agreed(
        ours, (name, student), submission.extension
    ):
        return
    extension = dates.more_time(student, name) or None
    # Also where it is the same already: then it is noted as ours, to be taken back with its line.
    if submission.extension != extension or extension is not None:
        submission.extension = extension
        applied_tables.write(book, (name, student), extension)


def of_course(course: Course, dates: Calendar | None = None) -> dict[str, dict[str, Late]]:
    """Assignment -> student -> what came of a late submission; assignments by their due dates."""
    policy, dates = policy_of(course), dates or calendar(course)
    # Grace days are spent in this order; a name decides where two are due at once.
    names = sorted(dates.due, key=lambda each: (dates.due[each], each))
    arrived = {name: receipt.arrived(course, name) for name in names}
    accounts: dict[str, dict[str, Late]] = {name: {} for name in names}
    for student in sorted({student for moments in arrived.values() for student in moments}):
        lateness = [
            (name, dates.late_s(student, name, moment))
            for name in names
            if (moment := arrived[name].get(student)) is not None
        ]
        for name, late in spend(policy, lateness).items():
            accounts[name][student] = late
    return accounts


def account(
    course: Course, student: str, policy: Policy | None = None, dates: Calendar | None = None
) -> dict[str, Late]:
    """One student's late submissions, by assignment in the order of due dates."""
    policy = policy or policy_of(course)
    dates = dates or calendar(course)
    lateness = []
    for name in sorted(dates.due, key=lambda each: (dates.due[each], each)):
        moment = receipt.arrived(course, name).get(student)
        if moment is not None:
            lateness.append((name, dates.late_s(student, name, moment)))
    return spend(policy, lateness)


def of_assignment(course: Course, assignment: str) -> dict[str, Late]:
    """The students whose submission of one assignment is late, and what came of it."""
    return of_course(course).get(assignment, {})


def seconds_late(course: Course, assignment: str) -> dict[str, float]:
    """How late each student's receipt is, after the student's own due date."""
    dates = calendar(course)
    return {
        student: dates.late_s(student, assignment, moment)
        for student, moment in receipt.arrived(course, assignment).items()
    }


def policy_of(course: Course) -> Policy:
    """The rules that ``nbgrader_config.py`` sets, and before them ``[late]`` of course.toml."""
    return _own(course, LatePenalty(config=nbgrader_steps.configuration(course)).policy)


def _own(course: Course, policy: Policy) -> Policy:
    return dataclasses.replace(policy, **settings.late(course))  # type: ignore[arg-type]


class LatePenalty(LateSubmissionPlugin):  # type: ignore[misc]
    """nbgrader's plugin: grace days first, then a share of the score for each day begun."""

    percent_per_day = Float(10.0, help="Share of the score lost per day begun.").tag(config=True)
    max_percent = Float(50.0, help="The largest share that can be lost.").tag(config=True)
    grace_s = Float(900.0, help="Lateness that costs nothing, in seconds.").tag(config=True)
    grace_days = Integer(0, help="Days of grace that a student has in all.").tag(config=True)
    grace_days_each = Integer(2, help="Of them, at most so many an assignment.").tag(config=True)

    @property
    def policy(self) -> Policy:
        return Policy(
            percent_per_day=self.percent_per_day,
            max_percent=self.max_percent,
            grace_s=self.grace_s,
            grace_days=max(0, self.grace_days),
            grace_days_each=max(0, self.grace_days_each),
        )

    def late_submission_penalty(
        self, student_id: str, score: float, total_seconds_late: float
    ) -> float | None:
        """The points to take off, or None.

        nbgrader doesn't say which assignment it asks about: its preprocessor, which made this
        plugin, knows it (``AssignLatePenalties.preprocess``), and the converter knows the course.
        """
        if self.parent is None:
            late = spend(self.policy, [("", total_seconds_late)]).get("")
        else:
            late = self._late(student_id, self.parent.assignment_id)
        return penalty(score, late) or None

    def _late(self, student: str, assignment: str) -> Late | None:
        book = self.parent.gradebook
        root = self.parent.parent.parent.coursedir.root  # preprocessor, exporter, converter
        course = Course.of_root(root)
        dates = calendar(course, book)
        with contextlib.suppress(MissingEntry):
            submission = book.find_submission(assignment, student)
            # formgrader and nbgrader's exports show lateness after it
            _tell_extension(book, applied_tables.read(book), extensions(course), dates, submission)
            book.db.commit()
        return account(course, student, _own(course, self.policy), dates).get(assignment)
