"""Moodle's grading worksheet: who its participants are, and when they handed in.

    Identifier         Full name    Email address    ...  Last modified (submission)
    Participant 55123  Ada Adeyemi  ada@uni.example       Sunday, 1 March 2026, 9:00 PM

A participant has another number in each assignment; so what stays is taken where it is there: the
username, the ID number or the email address. Times have no zone: they are those of the zone of
whoever downloads the worksheet.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

from autograder.collect.submissions import PathError

__all__ = ["Person", "Worksheet"]

MODIFIED = "Last modified (submission)"
_KNOWN_BY = ("Username", "ID number", "Email address")
_FORMS = (
    "%A, %d %B %Y, %I:%M %p",
    "%A, %d %B %Y, %H:%M",
    "%A, %B %d, %Y, %I:%M %p",
)
_NUMBER = re.compile(r"Participant (\d+)")


@dataclass(frozen=True)
class Person:
    """A participant."""

    student: str
    name: str
    email: str
    received: datetime.datetime | None  # UTC; None where nothing was handed in


@dataclass(frozen=True)
class Worksheet:
    """The worksheet of one assignment: its participants, by their numbers."""

    path: Path
    people: dict[str, Person]

    @staticmethod
    def is_one(path: Path) -> bool:
        """Whether a file is a grading worksheet."""
        from autograder.gradebook.marks import ExportError  # and nbgrader with it: seconds
        from autograder.platforms.roster import Roster

        try:
            return "Identifier" in Roster.read(path).columns
        except ExportError:
            return False

    @classmethod
    def read(cls, path: Path, zone: ZoneInfo | None = None) -> Worksheet:
        """Read a worksheet; times are in `zone`, None for this machine's.

        Raises:
            ExportError: it is no table.
            PathError: it is no worksheet, or holds a time that can't be read.
        """
        from autograder.platforms.roster import Roster

        table = Roster.read(path)
        if "Identifier" not in table.columns:
            raise PathError(
                f"{path} is not Moodle's grading worksheet: it has no column 'Identifier'. "
                "Download it from the assignment, in English."
            )
        people: dict[str, Person] = {}
        for line, row in enumerate(table.rows, start=2):
            match = _NUMBER.search(row["Identifier"])
            if match is not None:
                people[match[1]] = _person(row, match[1], f"{path}, line {line}", zone)
        # What two participants share tells them apart no more: each keeps the number instead.
        names = [person.student for person in people.values()]
        people = {
            number: person
            if names.count(person.student) == 1
            else Person(number, person.name, person.email, person.received)
            for number, person in people.items()
        }
        return cls(path, people)


def _person(row: dict[str, str], number: str, where: str, zone: ZoneInfo | None) -> Person:
    cells = [row.get(column, "").strip() for column in _KNOWN_BY]
    return Person(
        student=next((cell.lower() for cell in cells if cell), number),
        name=row.get("Full name", "").strip(),
        email=row.get("Email address", "").strip().lower(),
        received=_moment(row.get(MODIFIED, ""), where, zone),
    )


def _moment(text: str, where: str, zone: ZoneInfo | None) -> datetime.datetime | None:
    text = " ".join(text.split())
    if text in ("", "-"):
        return None
    for form in _FORMS:
        try:
            moment = datetime.datetime.strptime(text, form)
        except ValueError:
            continue
        return (moment.replace(tzinfo=zone) if zone else moment.astimezone()).astimezone(
            datetime.UTC
        )
    raise PathError(
        f"{where}: {MODIFIED!r} is {text!r}, which is no time like 'Sunday, 1 March 2026, "
        "9:00 PM': set Moodle to English, and download the worksheet again."
    )
