"""A term in one file, ``course.toml``: what is taught, handed out and due when, and how it counts.

title = "Parallel deep learning"         # of the calendar
term = "Spring 2026"
timezone = "Europe/Berlin"               # of dates without an offset, and of what is shown; UTC
path = "8 weeks"                         # which modules make up the total: a path of the course
runs = "by hand"                         # who vouches for a run.json: one of RUNS
assistants = "separated"                 # what AI assistants may do: one of ASSISTANTS
drop_lowest = 1                          # assignments that don't count in the course's total

[units]                                  # the lectures of the term, in the order of their dates
03 = 2026-02-16                          # a day
04 = [2026-02-18T10:15:00, 2026-02-23]   # two sessions, one with its time

[released]                               # what students get, and from when
a03_allreduce = 2026-02-16T12:00:00
a05_ddp = "not yet"                      # listed, and held back until a date stands here

[waived]                                 # tests that proved too strict: their points go to all
a03_allreduce.ring.test_pairs = "It counted a message that the docstring allows."

[due]
a03_allreduce = 2026-03-01T23:59:00      # before the date in the kit's assignment.toml

[weights]                                # shares of the course's total: 10 of the sum of all
a03_allreduce = 10

[late]                                   # before the numbers in nbgrader_config.py
grace_days = 5
grace_days_each = 2
percent_per_day = 10
max_percent = 50
grace_s = 900

Every line is optional. An instructor's commands and the students' pages read it here.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ringside import toml_tables
from ringside.course.paths import CoursePath, course_paths
from ringside.toml_tables import NUMBER, Kinds, TableError

__all__ = [
    "ASSISTANTS",
    "FILE",
    "LATE",
    "RUNS",
    "Session",
    "Term",
    "due_line",
    "due_said",
    "read",
    "shown",
]

FILE = "course.toml"
NOT_YET = "not yet"  # in the place of a release date
RUNS = ("accounting", "word", "by hand")
ASSISTANTS = ("open", "separated", "closed")
LATE: Kinds = {
    "percent_per_day": NUMBER, "max_percent": NUMBER, "grace_s": NUMBER,
    "grace_days": int, "grace_days_each": int,
}  # fmt: skip
_TOP: Kinds = {
    "title": str, "term": str, "timezone": str, "path": str, "runs": str, "assistants": str,
    "drop_lowest": int, "units": dict, "released": dict, "due": dict, "weights": dict, "late": dict,
    "waived": dict,
}  # fmt: skip
_ABOVE = tuple(key for key, kind in _TOP.items() if kind is not dict)
UNIT = re.compile(r"\d\d")

Waived = Mapping[str, Mapping[str, Mapping[str, str]]]  # assignment -> module -> test -> reason


@dataclass(frozen=True)
class Session:
    """One lecture of a unit: its day, and its time where the file has one."""

    unit: str
    day: datetime.date
    at: datetime.datetime | None = None


@dataclass(frozen=True)
class Term:
    """What a course.toml says; moments have their zone."""

    path: Path
    title: str = "Parallel deep learning"
    term: str = ""
    zone: datetime.tzinfo = datetime.UTC
    course_path: CoursePath | None = None
    runs: str = ""
    assistants: str = ""
    drop_lowest: int = 0
    sessions: tuple[Session, ...] = ()  # in the order of their dates
    released: Mapping[str, datetime.datetime] = field(default_factory=dict)
    due: Mapping[str, datetime.datetime] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    late: Mapping[str, float] = field(default_factory=dict)
    listed: tuple[str, ...] = ()  # below [released], with a date or "not yet"
    waived: Waived = field(default_factory=dict)

    @property
    def has_dates(self) -> bool:
        return bool(self.sessions or self.released or self.due)


def shown(moment: datetime.datetime) -> str:
    """A moment with its zone, for a reader.

    >>> shown(datetime.datetime(2026, 3, 1, 23, 59, tzinfo=datetime.UTC))
    'Sun 1 Mar 2026, 23:59 UTC'
    """
    days, months = "Mon Tue Wed Thu Fri Sat Sun", "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"
    day, month = days.split()[moment.weekday()], months.split()[moment.month - 1]
    return f"{day} {moment.day} {month} {moment.year}, {moment:%H:%M} {moment.tzname()}"


def due_line(due: datetime.datetime) -> str:
    """What an assignment's notebook says of its date, below its title."""
    return f"**Due** {shown(due)}, unless the course has moved it since."


def due_said(text: str) -> str:
    """The date in a notebook's text, as `due_line` has written it; empty where there is none.

    >>> due_said(due_line(datetime.datetime(2026, 3, 1, 23, 59, tzinfo=datetime.UTC)))
    'Sun 1 Mar 2026, 23:59 UTC'
    """
    match = re.search(r"^\*\*Due\*\* (.{1,60}), unless the course has", text, re.MULTILINE)
    return match[1] if match else ""


def read(path: Path, assignments: Collection[str] | None = None) -> Term:
    """Read a course.toml.

    Args:
        assignments: the names that its tables may have; None: any.

    Raises:
        TableError: the file holds something else; the message names file, line, value and cure.
        OSError: it can't be read.
    """
    table = toml_tables.read(path)
    _check(path, "", table, _TOP)
    paths = course_paths()
    for name, choices in (("runs", RUNS), ("assistants", ASSISTANTS), ("path", tuple(paths))):
        if (word := table.get(name, choices[0])) not in choices:
            options = ", ".join(f'"{choice}"' for choice in choices)
            raise _error(path, name, "", f"{name} = {word!r}: one of {options}.")
    for name in ("released", "due", "weights"):
        part = table.get(name, {})
        if name == "released":
            some = datetime.datetime.min  # in the place of "not yet"
            part = {key: some if value == NOT_YET else value for key, value in part.items()}
        kind: type | tuple[type, ...] = NUMBER if name == "weights" else datetime.datetime
        names = part.keys() if assignments is None else assignments
        _check(path, name, part, dict.fromkeys(names, kind))
    listed = table.get("released", {})
    _check(path, "late", table.get("late", {}), LATE)
    zone = _zone(path, table.get("timezone", ""))
    term = Term(
        path=path,
        title=table.get("title", Term.title),
        term=table.get("term", ""),
        zone=zone,
        course_path=paths.get(table.get("path", "")),
        runs=table.get("runs", ""),
        assistants=table.get("assistants", ""),
        drop_lowest=table.get("drop_lowest", 0),
        sessions=_sessions(path, table.get("units", {}), zone),
        released=_moments(
            {name: value for name, value in listed.items() if value != NOT_YET}, zone
        ),
        due=_moments(table.get("due", {}), zone),
        weights={name: float(value) for name, value in table.get("weights", {}).items()},
        late=table.get("late", {}),
        listed=tuple(listed),
        waived=_waived(path, table.get("waived", {}), assignments),
    )
    _compare(path, term)
    return term


def _error(path: Path, key: str, table: str, said: str) -> TableError:
    where = f"[{table}]: " if table else ""
    return TableError(f"{path}{toml_tables.line_of(path, key, table)}: {where}{said}")


def _check(path: Path, name: str, part: Mapping[str, Any], kinds: Kinds) -> None:
    """Compare one table with what it may hold."""
    try:
        toml_tables.check(part, kinds, f"[{name}]" if name else "", above=_ABOVE if name else ())
    except TableError as error:
        stray = next((key for key in part if f"{key} = " in str(error)), "")
        raise TableError(f"{path}{toml_tables.line_of(path, stray, name)}: {error}") from None


def _waived(path: Path, part: Mapping[str, Any], assignments: Collection[str] | None) -> Waived:
    """The tests that were waived, each with a reason."""
    names = part.keys() if assignments is None else assignments
    _check(path, "waived", part, dict.fromkeys(names, dict))
    for assignment, modules in part.items():
        for module, tests in modules.items():
            for test, reason in tests.items() if isinstance(tests, dict) else [("", "")]:
                if not test or not isinstance(reason, str) or not reason.strip():
                    key = ".".join(filter(None, (assignment, module, test)))
                    text = "a line names assignment, module and test, and says why: "
                    text += 'a03_allreduce.ring.test_pairs = "It counted ...".'
                    raise _error(path, key, "waived", f"{key}: {text}")
    return part


def _zone(path: Path, name: str) -> datetime.tzinfo:
    if not name:
        return datetime.UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        text = f"timezone = {name!r}: no such zone is known here; write one like Europe/Berlin."
        raise _error(path, "timezone", "", text) from None


def _in_zone(value: datetime.datetime, zone: datetime.tzinfo) -> datetime.datetime:
    """A moment as it is shown; without an offset it is the zone's."""
    return value.replace(tzinfo=zone) if value.tzinfo is None else value.astimezone(zone)


def _moments(
    part: Mapping[str, datetime.datetime], zone: datetime.tzinfo
) -> dict[str, datetime.datetime]:
    return {name: _in_zone(value, zone) for name, value in part.items()}


def _sessions(path: Path, part: Mapping[str, Any], zone: datetime.tzinfo) -> tuple[Session, ...]:
    """The lectures of all units, by date; those of a day without a time come first."""
    sessions = []
    for unit, value in part.items():
        if not UNIT.fullmatch(unit):
            text = f"{unit} = {value}: units are named in two digits, like 03."
            raise _error(path, unit, "units", text)
        for date in value if isinstance(value, list) and value else [value]:
            if isinstance(date, datetime.datetime):
                at = _in_zone(date, zone)
                sessions.append(Session(unit, at.date(), at))
            elif isinstance(date, datetime.date):
                sessions.append(Session(unit, date))
            else:
                text = f"{unit} = {date!r}: a date is wanted, like 2026-02-16, or a list of dates."
                raise _error(path, unit, "units", text)
    first = datetime.datetime.min.replace(tzinfo=datetime.UTC)
    return tuple(sorted(sessions, key=lambda one: (one.day, one.at or first, one.unit)))


def _compare(path: Path, term: Term) -> None:
    """Numbers and dates that can't be meant."""
    for name, weight in term.weights.items():
        if not 0 <= weight < float("inf"):
            raise _error(path, name, "weights", f"{name} = {weight:g}: a share is 0 or more.")
    for name, number in term.late.items():
        limit = 100 if "percent" in name else 366 * 86_400
        if not 0 <= number <= limit:
            raise _error(path, name, "late", f"{name} = {number:g}: from 0 to {limit}.")
    if term.weights and not any(term.weights.values()):
        raise TableError(f"{path}: [weights] are all 0: nothing would count.")
    if not 0 <= term.drop_lowest < max(1, len(term.weights)):
        most = max(0, len(term.weights) - 1)
        text = f"drop_lowest = {term.drop_lowest}: from 0 to {most}; some must be left."
        raise _error(path, "drop_lowest", "", text)
    for name, moment in term.released.items():
        if name in term.due and moment >= term.due[name]:
            raise _error(
                path, name, "released",
                f"{name} = {shown(moment)}, and it is due {shown(term.due[name])}: nobody could "
                "hand it in. Change one of the two.",
            )  # fmt: skip
