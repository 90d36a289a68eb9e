"""The map of units and the calendars: true to the tree, and to what lectures say they need."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path

import pytest

import ringside
from ringside.course import lectures
from ringside.course.lectures import course_map, front_page
from ringside.course.lectures.course_map import Unit

ROOT = Path(__file__).resolve().parents[3]
THERE = course_map.units(ROOT)


def unit(number: str, hours: float | None, tmp_path: Path) -> Unit:
    """A unit with an assignment of so many hours, or with a lecture alone."""
    if hours is None:
        lecture = tmp_path / f"{number}_it.py"
        lecture.write_text("\n# %% [markdown]\n# # It\n")
        return Unit(number, lecture, None)
    task = tmp_path / f"a{number}_it.ipynb"
    cells = [{"source": [f"| **total** | all | **110** | {hours:g} |\n"]}]
    task.write_text(json.dumps({"cells": cells}))
    return Unit(number, None, task)


def test_the_map_has_the_units_that_stand_in_the_tree_and_no_others() -> None:
    lectures_there = {path.name[:2] for path in (ROOT / "lectures").glob("[0-9][0-9]_*.py")}
    tasks_there = {path.name[1:3] for path in (ROOT / "assignments").glob("a[0-9][0-9]_*")}
    assert {one.number for one in THERE} == lectures_there | tasks_there
    drawn = course_map.drawn(THERE, {one.number: f"{one.number}.html" for one in THERE})
    assert set(re.findall(r'href="(\d\d)\.html"', drawn)) == lectures_there | tasks_there
    assert drawn.count('class="arrow"') == sum(len(course_map.needs(one, THERE)) for one in THERE)


def test_every_unit_of_the_tree_has_its_name_its_prerequisites_and_what_you_can() -> None:
    for one in THERE:
        assert one.number in course_map.PREREQUISITES, one.number
        assert one.number in course_map.SHORT and one.number in front_page.CAN, one.number


@pytest.mark.parametrize("lecture", lectures.find(ROOT / "lectures"), ids=lambda one: one.name)
def test_no_lecture_needs_what_comes_after_it_on_the_map(lecture: lectures.Lecture) -> None:
    cells = lectures.read(lecture).cells
    said = [one.source for one in cells if "prerequisites" in one.metadata.get("tags", [])]
    for number in re.findall(r"\((\d\d)_\w+\.ipynb", "\n".join(said)):
        assert lecture.name[:2] not in course_map.before(number), number


def test_the_map_has_no_circle_and_leads_from_earlier_units_to_later_ones() -> None:
    for number, needed in course_map.PREREQUISITES.items():
        assert all(one < number for one in needed), number
    assert course_map.before("05") == {"00", "01", "02", "03", "04"}


def test_the_hours_are_those_of_the_notebooks_and_of_reading() -> None:
    hours = {one.number: one for one in THERE}
    assert hours["03"].assignment_hours == 8.75  # as its table says
    assert hours["00"].assignment_hours == 0
    assert 1 <= hours["03"].lecture_hours <= 4
    assert hours["03"].hours == 8.75 + hours["03"].lecture_hours


def test_boxes_do_not_overlap_and_stay_on_the_drawing(tmp_path: Path) -> None:
    whole = [unit(number, 1, tmp_path) for number in course_map.PREREQUISITES]
    for there in (THERE, whole):
        places = course_map.places(there)
        assert set(places) == {one.number for one in there}
        for (x1, y1), (x2, y2) in combinations(places.values(), 2):
            assert abs(x1 - x2) >= course_map.BOX or abs(y1 - y2) >= course_map.HIGH
        assert all(0 <= x <= course_map.WIDTH - course_map.BOX for x, _ in places.values())
        for one in there:
            for other in course_map.needs(one, there):
                assert places[other][1] < places[one.number][1], "arrows lead down"


def test_a_unit_that_is_missing_is_stood_in_for_by_what_it_needs(tmp_path: Path) -> None:
    there = [unit(number, 1, tmp_path) for number in ("01", "04", "05")]
    assert course_map.needs(there[2], there) == ["04"]
    assert course_map.needs(there[1], there) == ["01"]  # by way of 03


def test_a_calendar_gives_more_weeks_to_units_with_more_hours(tmp_path: Path) -> None:
    there = [unit("00", None, tmp_path), unit("01", 3, tmp_path), unit("03", 9, tmp_path)]
    weeks = course_map.calendar(there, has_tutorial=True, num_weeks=6)
    assert [(one.first, one.last, one.work) for one in weeks] == [
        (1, 1, "a01"),
        (2, 4, "a03"),
        (5, 5, "its runs"),
        (6, 6, ""),
    ]
    assert weeks[0].taught == "00 why parallel, 01 messages"
    assert weeks[1].hours == 3
    crowded = course_map.calendar(there, has_tutorial=True, num_weeks=2)
    assert [one.work for one in crowded] == ["a01", "a03"]
    with pytest.raises(ValueError, match="2 groups of units don't fit into 1 weeks"):
        course_map.calendar(there, has_tutorial=False, num_weeks=1)


@pytest.mark.parametrize("numbers", [None, list(course_map.PREREQUISITES)])
def test_the_calendar_of_the_course_fills_each_week_once(
    numbers: list[str] | None, tmp_path: Path
) -> None:
    there = THERE
    if numbers:
        there = [unit(number, None if number == "00" else 8, tmp_path) for number in numbers]
    weeks = course_map.calendar(there, has_tutorial=True)
    spans = [range(one.first, one.last + 1) for one in weeks]
    assert [week for span in spans for week in span] == list(range(1, course_map.WEEKS + 1))
    for one in there:
        assert sum(one.number in week.taught for week in weeks) == 1


def test_the_half_day_follows_the_tutorials_headings() -> None:
    text = "## 1. First (15 minutes)\n\n## 2. Then (1) (20 minutes)\n\n## 9. At home\n"
    assert course_map.half_day(text) == [(0, 15, "First"), (15, 35, "Then (1)")]
    whole = course_map.half_day((ROOT / front_page.TUTORIAL).read_text(encoding="utf-8"))
    assert len(whole) >= 6 and 180 <= whole[-1][1] <= 240
    assert course_map.clock(205) == "3:25"


def test_what_the_first_page_says_of_its_program_is_so(tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text(front_page.PROGRAM)
    target = f"{tmp_path / 'step.py'}:step"
    assert "step.py:step --ranks 8 --svg step.svg -- --num_samples 8000 --num_parameters 4000" in (
        front_page.FIVE_MINUTES
    )
    runs = {p: ringside.run(target, p, (8000, 4000)) for p in (1, 2, 4, 8, 16, 32)}
    times_us = [round(one.makespan_s * 1e6) for one in runs.values()]
    assert times_us == [192, 114, 78, 66, 72, 99]  # more ranks help at first, and then they hurt
    said = [int(one) for one in re.findall(r"(\d+) µs", front_page.FIVE_MINUTES)]
    computing_us = round(6 * 8000 / 8 * 4000 / 1e12 * 1e6)
    assert said == [times_us[3], computing_us, times_us[3] - computing_us]
