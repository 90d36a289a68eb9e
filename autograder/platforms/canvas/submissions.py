"""Canvas's list of an assignment's submissions, which has the times that its zip lacks.

    GET /api/v1/courses/:course_id/assignments/:id/submissions?include[]=user&per_page=100

    [{"user_id": 1023, "assignment_id": 4711, "submitted_at": "2026-03-01T20:11:12Z", "attempt": 2,
      "user": {"sortable_name": "Adeyemi, Ada", "login_id": "ada"}}, ...]

Whoever has access to the course opens that address in the browser where Canvas is open, and saves
it. An answer has at most 100 submissions; pages may stand one after the other in one file. Who
handed in nothing has ``"submitted_at": null``.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from autograder.collect.submissions import PathError

__all__ = ["Handed", "read"]

WHERE = (
    "Open /api/v1/courses/COURSE/assignments/ASSIGNMENT/submissions?include[]=user&per_page=100 "
    "where Canvas is open, and save what it shows."
)


@dataclass(frozen=True)
class Handed:
    """One student's submission; name and address are empty where Canvas doesn't say them."""

    received: datetime.datetime | None  # UTC; None where nothing was handed in
    name: str = ""  # like "Adeyemi, Ada"
    email: str = ""


def read(path: Path, zone: ZoneInfo | None = None) -> dict[str, Handed]:
    """Each user's newest submission, by the number that the names in Canvas's zip have.

    Args:
        zone: of times without an offset, which Canvas itself doesn't write.

    Raises:
        PathError: it is something else, or a time can't be read; the place is named.
    """
    by_user: dict[str, Handed] = {}
    assignments: set[str] = set()
    for number, entry in enumerate(_entries(path), start=1):
        where = f"{path}, submission {number}"
        if not isinstance(entry, dict) or not {"user_id", "submitted_at"} <= entry.keys():
            raise PathError(f"{where} has no user_id and submitted_at. {WHERE}")
        user = str(entry["user_id"])
        assignments.add(str(entry.get("assignment_id", "")))
        if len(assignments) > 1:
            both = " and ".join(sorted(assignments))
            raise PathError(f"{path} holds submissions of the assignments {both}: keep one's.")
        handed = _handed(entry, f"{where} (user {user})", zone)
        before = by_user.get(user)
        if before is None or _moment(before) < _moment(handed):
            by_user[user] = handed
    return by_user


def _entries(path: Path) -> Iterator[Any]:
    """The submissions of all pages in a file: lists, one after the other or in a list."""
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
        decoder, pages, at = json.JSONDecoder(), [], 0
        while at < len(text):
            page, end = decoder.raw_decode(text, at)
            pages.append(page)
            at = end + len(text[end:]) - len(text[end:].lstrip())
    except (ValueError, RecursionError) as error:
        raise PathError(f"{path} is no JSON, as Canvas's API writes it: {error}. {WHERE}") from None
    if not pages:
        raise PathError(f"{path} is empty. {WHERE}")
    for page in pages:
        if isinstance(page, dict) and "errors" in page:
            message = json.dumps(page["errors"])[:200]
            raise PathError(f"{path} holds an error of Canvas's and no submissions: {message}")
        if not isinstance(page, list):
            raise PathError(f"{path} holds no list of submissions. {WHERE}")
        for entry in page:
            yield from entry if isinstance(entry, list) else [entry]


def _handed(entry: Mapping[str, Any], where: str, zone: ZoneInfo | None) -> Handed:
    user = entry.get("user")
    person = user if isinstance(user, dict) else {}
    name = str(person.get("sortable_name") or person.get("name") or "").strip()
    email = str(person.get("email") or "").strip().lower()
    text = entry["submitted_at"]
    if text is None:
        return Handed(None, name, email)
    try:
        moment = datetime.datetime.fromisoformat(str(text))
    except ValueError:
        example = "2026-03-01T20:11:12Z"
        raise PathError(f"{where}: submitted_at is {text!r}, no time like {example}.") from None
    if moment.tzinfo is None and zone is None:
        raise PathError(f"{where}: submitted_at is {text!r}, of which zone? --timezone names it.")
    return Handed(
        moment.replace(tzinfo=moment.tzinfo or zone).astimezone(datetime.UTC), name, email
    )


def _moment(handed: Handed) -> datetime.datetime:
    return handed.received or datetime.datetime.min.replace(tzinfo=datetime.UTC)
