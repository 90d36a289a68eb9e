"""Meetings of lectures, and the paths through the course that are made of them."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from ringside.course import lectures, term
from ringside.course.handout.listing import listing
from ringside.course.lectures import course_map, front_page, meetings, paths_page
from ringside.course.paths import course_paths
from ringside.toml_tables import TableError

ROOT = Path(__file__).resolve().parents[3]
ALL = lectures.find(ROOT / "lectures")
UNITS = {unit.number: unit for unit in course_map.units(ROOT)}


def cell(source: str, **metadata: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": source, "metadata": metadata}


LECTURE = [
    cell("# Lecture 1: It"),
    cell("**When.**", tags=["plan"]),
    cell("## 1. First", meeting=1, minutes=40),
    cell("Text of the first."),
    cell("## 2. To be read"),
    cell("## 3. Then", meeting=1, minutes=30),
    cell("## 4. Last", meeting=2, minutes=70),
    cell("## Appendix: not taught"),
    cell("## 5. More"),
    cell("## At home"),
    cell("## 6. Puzzles"),
    cell("## References"),
]


def test_a_lecture_lists_its_sections_by_meeting() -> None:
    assert not list(meetings.wrong(LECTURE))
    assert meetings.plan(LECTURE).splitlines()[2:] == [
        "| Meeting 1 | 70 | 1. First (40); 3. Then (30) |",
        "| Meeting 2 | 70 | 4. Last (70) |",
        "| At home |  | 2. To be read; 6. Puzzles |",
        "| Appendix |  | 5. More |",
    ]
    assert meetings.taught(LECTURE) == [True] * 4 + [False] + [True] * 2 + [False] * 5
    assert all(meetings.taught([LECTURE[0], LECTURE[4], LECTURE[8]]))  # a lecture to be read


@pytest.mark.parametrize(
    ("place", "metadata", "says"),
    [
        (2, {"meeting": 1, "minutes": 41}, "meeting 1 takes 71 minutes: at most 70 of its 75"),
        (2, {"meeting": 2, "minutes": 40}, "'1. First' of meeting 2 follows one of meeting 0"),
        (5, {"meeting": 1}, "'3. Then' has one of meeting and minutes"),
        (8, {"meeting": 2, "minutes": 5}, "'5. More' is taught in meeting 2, below the appendix"),
        (2, {"meeting": "one", "minutes": 5}, "meeting and minutes are whole numbers"),
    ],
)
def test_a_plan_that_cannot_be_is_said(place: int, metadata: dict[str, Any], says: str) -> None:
    cells = [*LECTURE[:place], cell(LECTURE[place]["source"], **metadata), *LECTURE[place + 1 :]]
    assert any(says in sentence for sentence in meetings.wrong(cells))


@pytest.mark.parametrize("lecture", ALL, ids=lambda one: one.name)
def test_the_map_counts_the_minutes_that_the_lecture_shows(lecture: lectures.Lecture) -> None:
    cells = lectures.read(lecture).cells
    minutes = meetings.minutes(meetings.sections(cells))
    assert UNITS[lecture.name[:2]].meetings == minutes
    assert len(minutes) <= (3 if lecture.name.startswith(("12", "15")) else 2)
    (plan,) = [one for one in cells if "plan" in one.metadata.get("tags", [])]
    assert meetings.plan(cells) in plan.source


@pytest.mark.parametrize("path", course_paths().values(), ids=lambda one: one.name)
def test_a_path_teaches_meetings_and_modules_that_are_there_each_once(path: Any) -> None:
    assert len(path.taught) == len(set(path.taught))
    for unit, number in path.taught:
        assert number in UNITS[unit].meetings, (unit, number)
    for week in path.weeks:
        shared = [
            sum(UNITS[unit].meetings[int(number)] for unit, number in found)
            for found in map(paths_page.MEETING.findall, week.meetings)
        ]
        assert max(shared, default=0) <= meetings.MINUTES - meetings.FREE
    for name, modules in path.work.items():
        there = UNITS[name[1:3]].facts.hours
        assert there is not None and set(modules) <= there.keys()
        assert name == (UNITS[name[1:3]].assignment or Path()).stem
    begun: set[str] = set(path.reading)
    for week in path.weeks:  # nobody writes what hasn't been taught
        begun |= {unit for one in week.meetings for unit, _ in paths_page.MEETING.findall(one)}
        assert {name[1:3] for name in week.work} <= begun


def test_the_page_of_paths_is_that_of_the_tree() -> None:
    page = (ROOT / paths_page.PAGE).read_text(encoding="utf-8")
    assert page == "\n".join(paths_page.page(list(UNITS.values()), ROOT))
    rows = paths_page.summary(ROOT)
    assert [row.split(" | ")[0] for row in rows[2:]] == [
        "| 8 weeks",
        "| 14 weeks",
        "| half a day, without a cluster",
        "| half a day, on a cluster",
    ]
    there = {paths_page.PAGE: "kit/paths.md"}
    assert set(rows) <= set(front_page.calendars(ROOT, there, None))


@pytest.mark.parametrize("name", paths_page.HALF_DAYS)
def test_a_half_day_follows_its_headings(name: str) -> None:
    whole = paths_page.half_day((ROOT / name).read_text(encoding="utf-8"))
    assert len(whole) >= 6 and 180 <= whole[-1][1] <= 240
    text = "## 1. First (15 minutes)\n\n## 2. Then (1) (20 minutes)\n\n## 9. At home\n"
    assert paths_page.half_day(text) == [(0, 15, "First"), (15, 35, "Then (1)")]
    assert paths_page.clock(205) == "3:25"


def test_a_course_takes_a_path(tmp_path: Path) -> None:
    file = tmp_path / "course.toml"
    file.write_text('path = "8 weeks"\n')
    course_term = term.read(file)
    there = ["a03_allreduce", "a06_asynchrony", "a15_draft"]
    assert listing(there, course_term, ROOT).given == ("a03_allreduce",)
    file.write_text('path = "8 weeks"\n[released]\na06_asynchrony = 2020-01-01T00:00:00Z\n')
    assert listing(there, term.read(file), ROOT).given == ("a06_asynchrony",)
    file.write_text('path = "9 weeks"\n')
    with pytest.raises(TableError, match=r'one of "8 weeks", "14 weeks"'):
        term.read(file)
    file.write_text(f"[due]\na03_allreduce = {datetime.date(2030, 1, 1)}T00:00:00Z\n")
    assert term.read(file).course_path is None
