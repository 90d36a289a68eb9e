"""Gradescope's list of submissions, or its word on one: whose each is, and when it arrived.

    submission_4711:
      :submitters:
      - :name: Ada Adeyemi
        :sid: u77
        :email: ada@uni.example
      :created_at: 2026-03-01 20:11:12.345678000 Z

It is written by Ruby, whose symbols begin with a colon, and whose objects may have tags. It is
read as text alone: no tag makes an object, and the number of a student keeps its zeros.

An autograder's container has ``submission_metadata.json`` about its one submission::

    {"created_at": "2026-03-01T20:11:12.345678+01:00", "assignment": {"due_date": "..."},
     "users": [{"name": "Ada", "email": "ada@uni.example", "assignment": {"due_date": "..."}}]}

A user's own date stands in the user's ``assignment``: who has an extension has a later one.
"""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import dataclass
from typing import Any

import yaml

from autograder.collect.submissions import PathError

__all__ = ["MAX_BYTES", "METADATA", "Author", "Handed", "Submitted", "of_json", "of_text"]

METADATA = "submission_metadata.yml"
MAX_BYTES = 256 << 20  # results of tests are in it, too
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # all scalars are text
_ZONE = re.compile(r"\s*(?:UTC|Z|([+-]\d\d):?(\d\d))$")


@dataclass(frozen=True)
class Author:
    """One of those who handed a submission in."""

    name: str
    sid: str  # the student's number, where the class has them
    email: str

    @property
    def student(self) -> str:
        """By which the student is known; empty where Gradescope knows neither."""
        return self.sid or self.email


@dataclass(frozen=True)
class Submitted:
    """One submission; a group has several authors."""

    authors: tuple[Author, ...]
    received: datetime.datetime  # UTC


@dataclass(frozen=True)
class Handed:
    """The one submission of an autograder's container.

    Attributes:
        due: the latest date of its authors: one author's extension is the group's. None: no date.
    """

    authors: tuple[Author, ...]
    received: datetime.datetime  # UTC
    due: datetime.datetime | None  # UTC


def of_json(text: bytes, where: str) -> Handed:
    """What a container's metadata say.

    Raises:
        PathError: it is something else, or has no author or no time.
    """
    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PathError(f"{where} can't be read: {error}") from error
    fields = table if isinstance(table, dict) else {}
    people = [entry for entry in fields.get("users") or () if isinstance(entry, dict)]
    if not people:
        raise PathError(f"{where} names nobody who handed in.")
    tables = [entry.get("assignment") for entry in people]
    dates = [entry.get("due_date") for entry in tables if isinstance(entry, dict)]
    common = fields.get("assignment")
    if not any(dates) and isinstance(common, dict):
        dates = [common.get("due_date")]
    due_times = [_time(date, f"{where}: due_date") for date in dates if date]
    authors = tuple(_author(entry, "") for entry in people)
    return Handed(
        authors,
        _time(fields.get("created_at"), f"{where}: created_at"),
        max(due_times, default=None),
    )


def of_text(text: bytes, where: str) -> dict[str, Submitted]:
    """Each submission by its folder's name.

    Raises:
        PathError: it is something else, or a submission has no author or no time.
    """
    try:
        table = yaml.load(text, Loader=_LOADER)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise PathError(f"{where} can't be read: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(table, dict):
        raise PathError(f"{where} holds no list of submissions.")
    return {str(name): _submitted(str(name), entry, where) for name, entry in table.items()}


def _submitted(name: str, entry: object, where: str) -> Submitted:
    fields = entry if isinstance(entry, dict) else {}
    people = fields.get(":submitters")
    authors = tuple(_author(person) for person in people or () if isinstance(person, dict))
    if not authors:
        raise PathError(f"{where}, {name}: it names no submitter.")
    return Submitted(authors, _moment(fields.get(":created_at"), f"{where}, {name}"))


def _author(entry: dict[str, object], mark: str = ":") -> Author:
    def text(key: str) -> str:
        value = entry.get(mark + key)
        content = value.strip() if isinstance(value, str) else ""
        return "" if content in ("null", "~") else content

    return Author(text("name"), text("sid"), text("email").lower())


def _moment(value: object, where: str) -> datetime.datetime:
    if isinstance(value, dict):  # a time of Rails, as an object
        value = value.get("utc")
    return _time(value, f"{where}: :created_at")


def _time(value: object, where: str) -> datetime.datetime:
    text = str(value or "").strip()
    try:
        moment = datetime.datetime.fromisoformat(_ZONE.sub(_offset, text))
    except ValueError as error:
        raise PathError(f"{where} is {text!r}, which is no time.") from error
    return moment.replace(tzinfo=moment.tzinfo or datetime.UTC).astimezone(datetime.UTC)


def _offset(match: re.Match[str]) -> str:
    return f"{match[1]}:{match[2]}" if match[1] else "+00:00"
