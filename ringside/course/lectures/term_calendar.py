"""The term's calendar, from ``course.toml``: a page of the site, and a file for calendar programs.

    [units]     a lecture        a day, perhaps with a time
    [released]  an assignment    handed out
    [due]       an assignment    due

The file is iCalendar (RFC 5545). An event keeps its UID when its date changes, so a program that
reads the file again moves the event and adds none.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ringside.course.lectures import course_map
from ringside.course.lectures.handout import Handout
from ringside.course.term import Term, shown

__all__ = [
    "ICS", "PAGE", "Event", "events", "handouts", "icalendar", "out_of_order", "page",
    "titles",
]  # fmt: skip

PAGE, ICS = "calendar", "calendar.ics"
LECTURE, RELEASED, DUE = "lecture", "released", "due"
_LINE = 75  # octets of a line of iCalendar


@dataclass(frozen=True)
class Event:
    """One line of the calendar; `name` is a unit (``03``) or an assignment (``a03_allreduce``)."""

    day: datetime.date
    at: datetime.datetime | None  # None: all day
    kind: str
    name: str
    number: int  # of the lectures of a unit, from 1

    def words(self, titles: Mapping[str, str]) -> str:
        """What happens, for a reader."""
        title = titles.get(self.name, "")
        if self.kind == LECTURE:
            again = f" ({self.number})" if self.number > 1 else ""
            return f"Lecture {self.name}: {title}{again}"
        verb = "handed out" if self.kind == RELEASED else "due"
        return f"{self.name.partition('_')[0]} {verb}: {title or self.name}"


def handouts(tree: Path) -> dict[str, Handout]:
    """The notebooks of a tree by unit (lectures) and by name (assignments)."""
    lectures = (Handout(path, is_lecture=True) for path in tree.glob("lectures/[0-9][0-9]_*.ipynb"))
    tasks = (Handout(path, is_lecture=False) for path in tree.glob("assignments/a??_*/a??_*.ipynb"))
    return {one.unit: one for one in lectures} | {one.name: one for one in tasks}


def titles(tree: Path) -> dict[str, str]:
    """What each is called; a unit without a lecture's notebook has its name on the map.

    Raises:
        TableError: the facts of a unit hold something else.
    """
    names = {unit.number: unit.name for unit in course_map.units(tree)}
    return names | {name: one.title for name, one in handouts(tree).items()}


def events(term: Term) -> list[Event]:
    """All dates of a term, in order."""
    met: dict[str, int] = {}
    entries = []
    for one in term.sessions:
        met[one.unit] = met.get(one.unit, 0) + 1
        entries.append(Event(one.day, one.at, LECTURE, one.unit, met[one.unit]))
    for kind, dates in ((RELEASED, term.released), (DUE, term.due)):
        for name, moment in dates.items():
            at = moment.astimezone(term.zone)
            entries.append(Event(at.date(), at, kind, name, 1))
    return sorted(
        entries, key=lambda each: (each.day, f"{each.at:%H%M}" if each.at else "", each.name)
    )


def out_of_order(term: Term, tree: Path) -> list[str]:
    """A sentence for each unit that isn't there, or that begins before one that it builds upon.

    Raises:
        TableError: the facts of a unit hold something else.
    """
    begins = {one.unit: one.day for one in reversed(term.sessions)}
    there = {unit.number: unit for unit in course_map.units(tree)}
    strangers = [
        f"{term.path}: [units]: there is no unit {unit}; {', '.join(there) or 'none'} are there."
        for unit in sorted(begins.keys() - there.keys())
    ]
    return strangers + [
        f"{term.path}: unit {number} begins on {begins[number]}, before unit {needed} on "
        f"{begins[needed]}, on which it builds."
        for number, unit in there.items()
        if number in begins
        for needed in unit.facts.after
        if needed in begins and begins[needed] > begins[number]
    ]


def page(term: Term, titles: Mapping[str, str], places: Mapping[str, str]) -> Iterator[str]:
    """Yield the page's lines.

    Args:
        titles: what each lecture and assignment is called, as the function `titles` gives it.
        places: where the page of each is, by the same names.
    """
    yield from ("# Calendar", "", f"**{', '.join(filter(None, [term.title, term.term]))}.**", "")
    if term.has_dates:
        zone = getattr(term.zone, "key", "UTC")
        link, entries = f'<a href="{ICS}">{ICS}</a>', events(term)
        years = " and ".join(dict.fromkeys(str(event.day.year) for event in entries))
        yield f"All dates are in {years}, and times those of {zone}."
        yield f"Your calendar program can read {link}."
        yield from ("", "| week | day | time | what |", "|---:|---|---|---|")
        yield from _rows(entries, titles, places)
        yield ""
    yield from _how_it_counts(term, titles, places)


def _rows(
    found: Sequence[Event], names: Mapping[str, str], places: Mapping[str, str]
) -> Iterator[str]:
    """Yield a row for each event; a week and a day are named where they begin."""
    monday = found[0].day - datetime.timedelta(found[0].day.weekday())
    last_week = 0
    for day, group in itertools.groupby(found, key=lambda each: each.day):
        week, date = (
            (day - monday).days // 7 + 1,
            f"{day:%a}\N{NO-BREAK SPACE}{day.day}\N{NO-BREAK SPACE}{day:%b}",
        )
        for each in group:
            number = str(week) if week != last_week else ""
            text = _linked(each.words(names), places.get(each.name, ""))
            text = f"**{text}**" if each.kind == DUE else text
            yield f"| {number} | {date} | {f'{each.at:%H:%M}' if each.at else ''} | {text} |"
            last_week, date = week, ""


def _linked(words: str, place: str) -> str:
    words = words.replace("|", "\\|")
    return f"[{words}]({place})" if place else words


def _how_it_counts(
    term: Term, names: Mapping[str, str], places: Mapping[str, str]
) -> Iterator[str]:
    """Yield weights, lateness and the rule about assistants, as far as the file says them."""
    whole = sum(term.weights.values())
    if term.weights:
        yield from ("## How it counts", "", "| assignment | due | share |", "|---|---|---:|")
        for name, weight in sorted(term.weights.items()):
            due = shown(term.due[name]) if name in term.due else ""
            title = _linked(
                f"{name.partition('_')[0]} {names.get(name, name)}", places.get(name, "")
            )
            yield f"| {title} | {due} | {100 * weight / whole:.3g} % |"
        yield ""
    if term.drop_lowest:
        which = "assignment" if term.drop_lowest == 1 else f"{term.drop_lowest} assignments"
        yield from (f"Your lowest {which} will not count.", "")
    if term.late:
        yield from ("## Late work", "", " ".join(_about_lateness(term.late)), "")
    if term.assistants:
        yield from ("## AI assistants", "", ASSISTANTS[term.assistants], "")


ASSISTANTS = {
    "open": "You may use AI assistants for everything, and you must be able to explain each line "
    "that you hand in.",
    "separated": "You may use AI assistants to understand lectures, error messages and Python. "
    "They may not write or repair what you hand in.",
    "closed": "You may not use AI assistants in this course.",
}


def _about_lateness(late: Mapping[str, float]) -> Iterator[str]:
    """Yield what the file says, a sentence each."""
    if (days := late.get("grace_days")) is not None:
        limit = f", at most {late['grace_days_each']:g} for one assignment" if days and (
            "grace_days_each" in late) else ""  # fmt: skip
        yield f"Grace days that you have for the whole course: {days:g}{limit}."
    if (percent := late.get("percent_per_day")) is not None:
        most = f", at most {late['max_percent']:g} %" if "max_percent" in late else ""
        after = "After them, each" if late.get("grace_days") else "Each"
        yield f"{after} day begun costs {percent:g} % of the score{most}."
    if seconds := late.get("grace_s"):
        yield f"Lateness of up to {seconds / 60:g} minutes costs nothing."


def icalendar(term: Term, titles: Mapping[str, str], stamp: datetime.datetime) -> str:
    """The calendar as a file for calendar programs.

    Args:
        titles: what each lecture and assignment is called, as the function `titles` gives it.
        stamp: when the dates were written.
    """
    course = ", ".join(filter(None, [term.title, term.term]))
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Ringside//Course calendar//EN"]
    lines += [f"X-WR-CALNAME:{_text(course)}"]
    for event in events(term):
        key = f"{course}/{event.kind}/{event.name}/{event.number}"
        lines += ["BEGIN:VEVENT", f"UID:{hashlib.sha256(key.encode()).hexdigest()[:32]}@ringside"]
        lines += [f"DTSTAMP:{_utc(stamp)}"]
        start = f":{_utc(event.at)}" if event.at else f";VALUE=DATE:{event.day:%Y%m%d}"
        lines += [f"DTSTART{start}", f"SUMMARY:{_text(event.words(titles))}"]
        lines += ["TRANSP:TRANSPARENT", "END:VEVENT"]
    return "".join(f"{_folded(line)}\r\n" for line in (*lines, "END:VCALENDAR"))


def _utc(moment: datetime.datetime) -> str:
    return f"{moment.astimezone(datetime.UTC):%Y%m%dT%H%M%SZ}"


def _text(words: str) -> str:
    for character in ("\\", ";", ","):
        words = words.replace(character, f"\\{character}")
    return " ".join(words.split())


def _folded(line: str) -> str:
    """A line in pieces of at most 75 octets; no character is cut in two.

    >>> [len(piece.encode()) for piece in _folded("SUMMARY:" + 40 * "é").splitlines()]
    [74, 15]
    """
    pieces, room = [""], _LINE
    for character in line:
        if len(pieces[-1].encode()) + len(character.encode()) > room:
            pieces.append("")
            room = _LINE - 1  # after the blank that begins it
        pieces[-1] += character
    return "\r\n ".join(pieces)
