"""Gradescope's list of submissions: whose each is, and when it arrived.

    submission_4711:
      :submitters:
      - :name: Ada Adeyemi
        :sid: u77
        :email: ada@uni.example
      :created_at: 2026-03-01 20:11:12.345678000 Z

It is written by Ruby, whose symbols begin with a colon, and whose objects may have tags. It is
read as text alone: no tag makes an object, and the number of a student keeps its zeros.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Any

import yaml

from autograder.submission.finding import PathError

__all__ = ["MAX_BYTES", "METADATA", "Author", "Submitted", "of_text"]

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
    return {str(name): _submitted(str(name), each, where) for name, each in table.items()}


def _submitted(name: str, entry: object, where: str) -> Submitted:
    found = entry if isinstance(entry, dict) else {}
    people = found.get(":submitters")
    authors = tuple(_author(each) for each in people or () if isinstance(each, dict))
    if not authors:
        raise PathError(f"{where}, {name}: it names no submitter.")
    return Submitted(authors, _moment(found.get(":created_at"), f"{where}, {name}"))


def _author(entry: dict[str, object]) -> Author:
    def text(key: str) -> str:
        value = entry.get(key)
        told = value.strip() if isinstance(value, str) else ""
        return "" if told in ("null", "~") else told

    return Author(text(":name"), text(":sid"), text(":email").lower())


def _moment(value: object, where: str) -> datetime.datetime:
    if isinstance(value, dict):  # a time of Rails, as an object
        value = value.get("utc")
    text = str(value or "").strip()
    try:
        moment = datetime.datetime.fromisoformat(_ZONE.sub(_offset, text))
    except ValueError as error:
        raise PathError(f"{where}: :created_at is {text!r}, which is no time.") from error
    return moment.replace(tzinfo=moment.tzinfo or datetime.UTC).astimezone(datetime.UTC)


def _offset(match: re.Match[str]) -> str:
    return f"{match[1]}:{match[2]}" if match[1] else "+00:00"
