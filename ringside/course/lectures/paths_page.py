"""The page of the paths through the course, lectures/paths.md, and their summary.

paths.toml, minutes of the lectures' headings, hours of the modules  ->  tables
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ringside.course.lectures import meetings
from ringside.course.lectures.course_map import Unit
from ringside.course.paths import MEETING, CoursePath, Week, course_paths

PAGE = "lectures/paths.md"
HALF_DAYS = {
    "lectures/half_day.md": "Half a day, without a cluster",
    "lectures/tutorial/tutorial.md": "Half a day, on a cluster",
}
MEETING_HOURS = meetings.MINUTES / 60
READING_HOURS, TEXT_HOURS = 1.0, 0.5  # of each unit; of each assignment's run and paragraph
_HEAD = f"""# Paths through the course

A meeting has {meetings.MINUTES} minutes. The hours of a week are those of two meetings and of the
modules, as each assignment estimates them. To these come an hour of reading for each
unit, and {60 * TEXT_HOURS:g} minutes for each assignment's text and its run on a cluster. A course
takes a path by one line in its `course.toml`, such as `path = "8 weeks"`: then the modules below
make up each assignment's total, and all others are extra.
"""


def page(there: Sequence[Unit], tree: Path) -> Iterator[str]:
    """Yield the page's lines.

    Args:
        there: all units.
        tree: holds the texts of the half days.
    """
    units = {unit.number: unit for unit in there}
    yield _HEAD
    yield from (*_summary(units, tree), "")
    for path in course_paths().values():
        yield from (f"## {path.name}", "", _sums(path, units), "")
        yield from ("| week | in class | at home | hours |", "|---:|---|---|---:|")
        for number, week in enumerate(path.weeks, 1):
            hours = MEETING_HOURS * len(week.meetings) + _work_hours(week.work, units)
            yield f"| {number} | {_taught(week, units)} | {_work(week)} | {hours:g} |"
        if path.reading:
            names = " and ".join(_linked(units[number]) for number in path.reading)
            yield from ("", f"Read beside it: {names}.")
        yield ""
    for name, title in HALF_DAYS.items():
        place = name.removeprefix("lectures/")
        yield from (f"## {title}", "", f"[The text]({place}) has the programs.", "")
        yield from (*half_day_rows(half_day((tree / name).read_text(encoding="utf-8"))), "")


def summary(tree: Path) -> list[str]:
    """The table of all paths, as it stands in the page."""
    above = (tree / PAGE).read_text(encoding="utf-8").partition("\n## ")[0]
    return [line for line in above.splitlines() if line.startswith("|")]


def _summary(units: Mapping[str, Unit], tree: Path) -> Iterator[str]:
    """Yield a table of all paths: meetings, modules, hours."""
    yield from ("| path | meetings | modules | a student's hours |", "|---|---:|---:|---:|")
    for path in course_paths().values():
        num_modules = sum(map(len, path.work.values()))
        yield f"| {path.name} | {path.num_meetings} | {num_modules} | {_hours(path, units):.0f} |"
    for name, title in HALF_DAYS.items():
        minutes = half_day((tree / name).read_text(encoding="utf-8"))[-1][1]
        yield f"| {title[0].lower()}{title[1:]} | {clock(minutes)} hours | | 4 |"


def _sums(path: CoursePath, units: Mapping[str, Unit]) -> str:
    work, reading, texts = _work_hours(path.work, units), _reading(path), _texts(path)
    whole = _hours(path, units)
    return (
        f"{path.num_meetings} meetings, {MEETING_HOURS * path.num_meetings:g} hours; modules, "
        f"{work:g} hours; reading, {reading:g} hours; texts and runs, {texts:g} hours: "
        f"**{whole:.0f} hours**, {whole / len(path.weeks):.1f} a week."
    )


def _hours(path: CoursePath, units: Mapping[str, Unit]) -> float:
    in_class = MEETING_HOURS * path.num_meetings
    return in_class + _work_hours(path.work, units) + _reading(path) + _texts(path)


def _reading(path: CoursePath) -> float:
    return READING_HOURS * len({unit for unit, _ in path.taught} | set(path.reading))


def _texts(path: CoursePath) -> float:
    return TEXT_HOURS * len(path.work)


def _work_hours(work: Mapping[str, Sequence[str]], units: Mapping[str, Unit]) -> float:
    hours = 0.0
    for name, modules in work.items():
        of_module = units[name[1:3]].facts.hours or {}
        hours += sum(of_module[module] for module in modules)
    return hours


def _taught(week: Week, units: Mapping[str, Unit]) -> str:
    entries: list[str] = []
    for one in week.meetings:
        parts = [_meeting(units[unit], int(number)) for unit, number in MEETING.findall(one)]
        entries.append(" with ".join(parts) or one)
    return "; ".join(entries)


def _meeting(unit: Unit, number: int) -> str:
    many = len(unit.meetings) > 1
    return f"{_linked(unit)}{f' ({number})' if many else ''}"


def _linked(unit: Unit) -> str:
    assert unit.lecture is not None
    return f"[{unit.number} {unit.name}]({unit.lecture.stem}.ipynb)"


def _work(week: Week) -> str:
    return "; ".join(
        f"{name.partition('_')[0]} {', '.join(f'`{module}`' for module in modules)}"
        for name, modules in week.work.items()
    )


def half_day(text: str) -> list[tuple[int, int, str]]:
    """Return the sections of a half day's text that state their minutes: from, to, heading."""
    sections, now = [], 0
    for heading, minutes in re.findall(r"^## \d+\. (.+) \((\d+) minutes\)$", text, re.M):
        sections.append((now, now + int(minutes), heading))
        now += int(minutes)
    return sections


def half_day_rows(sections: Sequence[tuple[int, int, str]]) -> Iterator[str]:
    yield from ("| from | to | what |", "|---|---|---|")
    for first, last, heading in sections:
        yield f"| {clock(first)} | {clock(last)} | {heading} |"


def clock(minutes: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02d}"
